/* See receipt.h. */
#include "sandbox-launcher/receipt.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <sys/utsname.h>

int receipt_programs(struct receipt *r, const struct filter_program *filter, const char *policy)
{
	const struct slice code = {
		(const char *)filter->code, filter->count * sizeof(filter->code[0])};
	r->filter_instructions = filter->count;
	if (policy != NULL &&
		slice_copy(slice_of(policy), r->policy_sha256, sizeof(r->policy_sha256)) < 0)
		return -EIO;
	return digest_of(code, r->filter_sha256);
}

static void json_known(struct json *j, const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		json_null(j, key);
	else
		json_uint(j, key, value);
}

static void json_layers(struct json *j, const struct receipt *r)
{
	json_object(j, "layers");
	for (enum layer i = 0; i < LAYER_COUNT; i++) {
		const struct layer_info *info = layer_info(i);
		bool active = r->confined && (r->facts.layers & LAYER_BIT(i)) != 0;
		json_object(j, info->name);
		json_bool(j, "active", active);
		if (active)
			json_text(j, "verified", info->verified);
		else if (i == LAYER_DIAL_GUARD && !r->has_network)
			json_text(j, "why", "no network: nothing dials");
		else if (i == LAYER_CGROUP && r->confined)
			json_text(j, "why",
				"shared mappings, files of memfd_create() and buffers of sockets have no bound: "
				"docs/limits.md");
		if (!active && info->remedy != NULL && (i != LAYER_DIAL_GUARD || r->has_network))
			json_text(j, "remedy", info->remedy);
		json_object_end(j);
	}
	json_object_end(j);
}

void receipt_json(const struct receipt *r, struct json *j)
{
	struct utsname name;
	if (uname(&name) == 0)
		json_format(j, "kernel", "%s %s %s", name.sysname, name.release, name.machine);
	json_text(j, "eclusa", ECLUSA_VERSION);
	json_layers(j, r);
	json_text(j, "cgroup", r->rung == NULL ? "none" : r->rung);
	json_int(j, "landlock_abi", r->facts.landlock_abi);
	json_uint(j, "links", r->facts.links);
	json_uint(j, "open_files", r->facts.open_files);
	json_object(j, "filter");
	json_text(j, "sha256", r->filter_sha256);
	json_uint(j, "instructions", r->filter_instructions);
	json_object_end(j);
	if (r->policy_sha256[0] == '\0')
		json_null(j, "policy_sha256");
	else
		json_text(j, "policy_sha256", r->policy_sha256);
	json_object(j, "peaks");
	json_known(j, "memory_bytes", r->memory_peak_bytes);
	json_known(j, "pids", r->pids_peak);
	json_known(j, "cpu_ms",
		r->cpu_ns == UINT64_MAX ? UINT64_MAX : (r->cpu_ns + NS_PER_MS / 2) / NS_PER_MS);
	json_object_end(j);
}
