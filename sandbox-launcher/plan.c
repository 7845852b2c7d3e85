/* See plan.h. */
#include "sandbox-launcher/plan.h"

#include "common/cleanup.h"
#include "common/resolver.h"
#include "common/uids.h"
#include "common/upstream.h"
#include "policy/trust.h"
#include "sandbox-launcher/layer.h"
#include "sandbox-launcher/machine.h"
#include "sandbox-launcher/mounts.h"
#include "sandbox-launcher/rootfs.h"
#include "sandbox-launcher/userns.h"

#include <stdio.h>

#define OUT_INODES 16384

static int plan_inputs(struct plan *p, struct failure *why)
{
	size_t binds = p->spec->bind.count, count = binds + p->spec->in.count;
	if (count == 0)
		return 0;
	p->inputs = calloc(count, sizeof(*p->inputs));
	if (p->inputs == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	for (size_t i = 0; i < count; i++) {
		struct input *to = &p->inputs[i];
		int r = i < binds ? input_open_bind(p->spec->bind.items[i], to, why)
				  : input_open(p->spec->in.items[i - binds], to, why);
		if (r < 0)
			return r;
		p->input_count++;
	}
	return 0;
}

static void policy_errors(
	const struct policy_report *report, struct result *result, struct failure *why)
{
	char line[1024];
	for (size_t i = 0; i < report->count; i++) {
		if (report->items[i].severity != POLICY_ERROR)
			continue;
		(void)policy_diagnostic_format(&report->items[i], line, sizeof(line));
		if (why->code == 0)
			(void)failure_set(why, -EINVAL, "%s", line);
		else
			result_error(result, "%s", line);
	}
	(void)failure_set(why, -EINVAL, "the policy can't be used"); /* only if no line said more */
}

/* What the configuration of this host asks for holds, whatever the caller's words and variables say. */
static int read_policy(struct plan *p, struct failure *why)
{
	const struct spec *spec = p->spec;
	struct trust trust;
	int r = trust_open(TRUST_CONFIG, (const char *const *)spec->trust.items, spec->trust.count,
		&trust, why);
	if (r < 0)
		return r;
	if (spec->policy != NULL)
		return trust_read_policy(&trust, spec->policy, &p->bundle, &p->signer, why);
	return trust_read_rules(
		&trust, (const char *const *)spec->allow.items, spec->allow.count, &p->bundle, why);
}

static int plan_policy(struct plan *p, struct result *result, struct failure *why)
{
	const struct spec *spec = p->spec;
	if (!spec_has_network(spec) || spec->service != NULL)
		return 0;
	buf_init(&p->bundle, POLICY_BUNDLE_BYTES_MAX);
	int r = read_policy(p, why);
	if (r < 0)
		return r;
	struct policy_report *report = calloc(1, sizeof(*report));
	if (report == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	r = policy_compile(buf_slice(&p->bundle), &p->policy, report);
	if (r < 0)
		policy_errors(report, result, why);
	free(report);
	return r < 0 ? r : policy_profile(p->policy, spec->profile, &p->profile, why);
}

/* What only root has is known before anything is made. */
static int plan_layers(const struct plan *p, struct failure *why)
{
	static const enum layer roots[] = {LAYER_UID, LAYER_DIAL_GUARD};
	for (size_t i = 0; i < array_size(roots) && !p->root; i++) {
		const struct layer_info *info = layer_info(roots[i]);
		bool needless = roots[i] == LAYER_DIAL_GUARD && !spec_has_network(p->spec);
		if ((p->spec->required & LAYER_BIT(roots[i])) != 0 && !needless)
			return failure_set(why, -EPERM,
				"--require %s: an ordinary user has none: %s", info->name,
				info->remedy);
	}
	return 0;
}

int plan_make(struct plan *p, const struct spec *spec, struct result *result, struct failure *why)
{
	*p = (struct plan){.spec = spec, .uid_lock = -1, .out = -1};
	p->target.folder = p->target.parent = -1;
	view_init(&p->view);
	trust_files_init(&p->trust);
	cgroup_init(&p->cgroup);
	p->root = userns_is_initial_root();
	p->more_roots = spec->upstream_ca;
	if (spec->service != NULL && !p->root)
		return failure_set(why, -EPERM,
			"--service: only root may use a service; with --policy a run has a proxy of its own");
	int r = plan_layers(p, why);
	if (r == 0)
		r = upstream_check(&(struct upstream_options){spec->upstream_ca, spec->hosts,
					   spec_upstream_proxy(spec)},
			why);
	if (r == 0 && spec->resolver != NULL) {
		struct resolver server;
		r = resolver_find(spec->resolver, &server, 1, why);
		r = r < 0 ? r : 0;
	}
	if (r == 0 && spec->rootfs != NULL) {
		p->view.rootfs = rootfs_open(spec->rootfs, why);
		r = p->view.rootfs < 0 ? p->view.rootfs : 0;
	}
	if (r == 0)
		r = plan_inputs(p, why);
	if (r == 0 && spec->out != NULL) {
		r = collect_check(spec->out, &p->target, why);
		p->has_target = r == 0;
	}
	return r == 0 ? plan_policy(p, result, why) : r;
}

/* Root: an own uid outside. An ordinary user is root of a namespace of its own, and the sandbox is that same user. */
static int plan_user(struct plan *p, struct failure *why)
{
	if (!p->root)
		return 0;
	p->uid_lock = uids_claim(&p->uid, why);
	p->gid = p->uid;
	return p->uid_lock < 0 ? p->uid_lock : 0;
}

static int plan_tmpfs(struct plan *p, const char *text, struct failure *why)
{
	struct spec_tmpfs t;
	int r = spec_tmpfs(text, &t, why);
	if (r < 0)
		return r;
	if (t.bytes == 0)
		t.bytes = mounts_scratch_bytes(p->spec->memory_bytes);
	r = view_add_tmpfs(&p->view, t.path + 1, t.bytes);
	return r < 0 ? failure_errno(why, r, "--tmpfs %s", t.path) : 0;
}

static int plan_files(struct plan *p, struct failure *why)
{
	const struct input_user user = {p->root, p->uid, p->gid};
	int r = p->view.rootfs < 0 ? view_add_host(&p->view, why) : view_add_rootfs(&p->view, why);
	if (r == 0)
		r = machine_add(&p->view, p->spec, why);
	if (r == 0 && spec_has_network(p->spec))
		r = trust_files_begin(&p->trust, p->more_roots, why);
	for (size_t i = 0; i < p->spec->tmpfs.count && r == 0; i++)
		r = plan_tmpfs(p, p->spec->tmpfs.items[i], why);
	for (size_t i = 0; i < p->input_count && r == 0; i++)
		r = input_show(&p->inputs[i], &user, &p->view, why);
	if (r < 0)
		return r;
	p->out = view_tmpfs(p->spec->out_limit_bytes, OUT_INODES, 0755, p->uid, p->gid);
	return p->out < 0 ? failure_errno(why, p->out, "can't make /out") : 0;
}

/* Refused where the kernel would not hold it for all that the program writes. */
static int plan_io(const struct plan *p, struct failure *why)
{
	int r = cgroup_io_limit(&p->cgroup, p->spec->io_rate_bytes);
	if (r == -EOPNOTSUPP)
		return failure_set(why, r,
			"--io-rate needs a control group of version 2 with io, and this run's is %s: give io to "
			"this group (IOAccounting=yes in the unit)",
			cgroup_rung(&p->cgroup, p->root));
	return r < 0 ? failure_errno(why, r, "--io-rate: can't set the limit of a disk") : 0;
}

static int plan_cgroup(struct plan *p, const char *id, struct failure *why)
{
	struct failure missing = {0};
	int r = cgroup_create(&p->cgroup, id, p->spec, &missing);
	if (r < 0)
		return failure_set(why, r, "%s", missing.text);
	r = plan_io(p, why);
	if (r < 0)
		return r;
	if (p->cgroup.kind != CGROUP_NONE)
		return 0;
	(void)slice_copy(slice_of(missing.text), p->cgroup_missing,
		sizeof(p->cgroup_missing)); /* cut when long */
	p->cgroup_missing[sizeof(p->cgroup_missing) - 1] = '\0';
	if ((p->spec->required & LAYER_BIT(LAYER_CGROUP)) != 0)
		return failure_set(why, -EPERM, "--require cgroup: %s: %s", p->cgroup_missing,
			p->root ? "give memory, pids and cpu to this group (Delegate=yes in the unit)"
				: "run as root, or under `systemd-run --user --scope -p Delegate=yes`");
	return 0;
}

static bool binds_writable(const struct plan *p)
{
	bool found = false;
	for (size_t i = 0; i < p->input_count && !found; i++)
		found = p->inputs[i].writable;
	return found;
}

int plan_prepare(struct plan *p, const char *id, struct failure *why)
{
	filter_build(&p->filter, binds_writable(p));
	int r = plan_user(p, why);
	if (r == 0)
		r = plan_cgroup(p, id, why);
	return r == 0 ? plan_files(p, why) : r;
}

void plan_fini(struct plan *p)
{
	for (size_t i = 0; i < p->input_count; i++)
		input_fini(&p->inputs[i]);
	free(p->inputs);
	collect_target_fini(&p->target);
	policy_free(p->policy);
	buf_fini(&p->bundle);
	view_fini(&p->view);
	trust_files_fini(&p->trust);
	fd_close(&p->out);
	cgroup_remove(&p->cgroup);
	fd_close(&p->uid_lock);
	p->inputs = NULL;
	p->policy = NULL;
}
