/* See run.h. This file alone knows the order of a run. */
#include "sandbox-launcher/run.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/fault.h"
#include "sandbox-launcher/env.h"
#include "sandbox-launcher/network.h"
#include "sandbox-launcher/plan.h"
#include "sandbox-launcher/record.h"
#include "sandbox-launcher/supervise.h"
#include "sandbox-launcher/userns.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#define NETWORK_START_NS (10 * NS_PER_SEC)

/* Everything that one run owns. */
struct run {
	const struct spec *spec;
	struct result *result;
	struct plan plan;
	struct record record;
	bool recorded; /* sandbox.start is in the log, so sandbox.exit must come */
	struct network *network;
	char **env;
	struct launched launched;
	struct supervised seen;
};

int sandbox_enter(struct failure *why)
{
	if (userns_is_initial_root())
		return 0;
	int r = userns_enter(why);
	if (r == 0 && unshare(CLONE_NEWNS) < 0)
		r = failure_errno(why, -errno, "can't make a mount namespace");
	return r;
}

static int start_network(struct run *run, struct failure *why)
{
	if (run->plan.profile == NULL)
		return 0;
	const struct network_options options = {
		.sandbox_id = run->result->id,
		.profile = profile_name(run->plan.profile),
		.bundle = buf_slice(&run->plan.bundle),
		.root = run->plan.root,
		.upstream_ca = run->spec->upstream_ca,
		.hosts = run->spec->hosts,
		.resolver = run->spec->resolver,
		.segment_fd = run->record.segment,
		.audit_folder_fd = run->record.folder,
	};
	return network_start(&options, &run->network, why);
}

/* The network is there: what the program must know of it. */
static int finish_view(struct run *run, struct failure *why)
{
	char proxy[96], address[ADDRESS_TEXT_BYTES];
	if (run->network == NULL)
		return env_build(run->spec, NULL, &run->env, why);
	int r = network_wait(run->network, clock_monotonic_ns() + NETWORK_START_NS, why);
	if (r < 0)
		return r;
	const struct message_lease_granted *lease = network_lease(run->network);
	(void)snprintf(proxy, sizeof(proxy), "http://%s:%u",
		address_format(&lease->service, address), lease->explicit_port);
	r = env_build(run->spec, proxy, &run->env, why);
	return r < 0 ? r : view_add_bundle(&run->plan.view, network_ca_pem(run->network), why);
}

static int start_program(struct run *run, struct failure *why)
{
	struct init_job job = {
		.spec = run->spec,
		.env = run->env,
		.cgroup = &run->plan.cgroup,
		.mounts = {&run->plan.view, run->plan.out, run->plan.input_count > 0,
			mounts_scratch_bytes(run->spec->memory_bytes)},
		.drop_groups = run->plan.root,
	};
	const struct launch_options options = {
		.network_namespace = run->network == NULL ? -1 : network_namespace_fd(run->network),
		.wants_input = run->spec->interactive || run->spec->stdin_text != NULL,
		.uid = run->plan.uid,
		.gid = run->plan.gid,
	};
	return launch(&job, &options, &run->launched, why);
}

/* Everything up to the program's first instruction; a failure of any step means that it never runs. */
static int run_start(struct run *run, struct failure *why)
{
	int r = plan_make(&run->plan, run->spec, run->result, why);
	if (r < 0)
		return r;
	run->result->root = run->plan.root;
	run->result->has_network = run->plan.profile != NULL;
	fault_point("launch-planned");
	r = record_start(&run->record, &run->plan, run->result->id, why);
	if (r < 0)
		return r;
	run->recorded = true;
	r = start_network(run, why);
	if (r == 0)
		r = plan_prepare(&run->plan, run->result->id, why);
	run->result->cgroup = run->plan.cgroup.kind;
	if (r == 0)
		r = finish_view(run, why);
	return r == 0 ? start_program(run, why) : r;
}

static void collect(struct run *run)
{
	struct failure why = {0};
	struct result *result = run->result;
	if (!run->plan.has_target)
		return;
	fault_point("launch-collecting");
	const struct collect_options options = {
		.out = run->plan.out,
		.id = result->id,
		.limit_bytes = run->spec->out_limit_bytes,
		.overwrite = run->spec->overwrite,
	};
	if (collect_run(&options, &run->plan.target, &result->collected, &why) < 0) {
		result->collected.failed++;
		result_error(result, "%s", why.text);
	}
	struct slice rest = buf_slice(&result->collected.skipped), line;
	while (slice_split(rest, '\n', &line, &rest))
		result_error(result, "/out/%.*s", (int)line.len, line.ptr);
	if (result->collected.failed > 0 &&
		(result->verdict == VERDICT_OK || result->verdict == VERDICT_EXIT)) {
		result->verdict = VERDICT_OUTPUT;
		result->decided = result->collected.failed;
	}
}

/* A program that does not find a file of the caller's should say how to show it. */
static void hint_inputs(struct run *run)
{
	const struct spec *spec = run->spec;
	for (size_t i = 0; i < spec->argv.count && run->result->verdict == VERDICT_EXIT; i++) {
		const char *word = spec->argv.items[i];
		struct stat st;
		bool inside = slice_starts(slice_of(word), SLICE("/usr/")) ||
			slice_starts(slice_of(word), SLICE("/bin/")) ||
			slice_starts(slice_of(word), SLICE("/etc/")) ||
			slice_starts(slice_of(word), SLICE("/proc/"));
		bool shown = false;
		for (size_t k = 0; k < run->plan.input_count; k++)
			shown = shown || strcmp(run->plan.inputs[k].name, word) == 0 ||
				(slice_starts(slice_of(word), SLICE("/work/")) &&
					strcmp(run->plan.inputs[k].name, word + 6) == 0);
		if ((i == 0 && strchr(word, '/') == NULL) || inside || shown ||
			stat(word, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		char text[256];
		(void)slice_escape(slice_of(word), text, sizeof(text));
		result_error(run->result,
			"%s is a file of yours that the sandbox does not see: --in %s", text, text);
		return;
	}
}

static void finish_network(struct run *run, struct message_counters_read *counters)
{
	if (run->network == NULL)
		return;
	if (network_finish(run->network, counters) < 0 &&
		run->result->verdict != VERDICT_SUPERVISOR) {
		result_error(run->result, "the network's gateway or proxy died");
		run->result->verdict = VERDICT_SUPERVISOR;
	}
}

static void finish_record(struct run *run, const struct message_counters_read *counters)
{
	struct failure why = {0};
	if (!run->recorded)
		return;
	if (record_finish(&run->record, &run->plan, run->result, counters, &why) < 0) {
		result_error(run->result, "%s", why.text);
		run->result->verdict = VERDICT_SUPERVISOR;
	}
	fault_point("launch-recorded");
	if (run->result->has_network &&
		audit_summary_read(run->record.segment, run->result->id, &run->result->network) < 0)
		result_error(run->result, "the audit log can't be read back");
}

static void run_fini(struct run *run)
{
	launched_fini(&run->launched);
	network_free(run->network);
	env_free(run->env);
	record_fini(&run->record);
	plan_fini(&run->plan);
}

static void run_end(struct run *run)
{
	struct message_counters_read counters = {0};
	struct supervise_options options = {
		run->spec, &run->plan.cgroup, run->network, run->result};
	cgroup_sweep(
		&run->plan.cgroup); /* leftovers of killed launchers, while the program starts */
	supervise_run(&options, &run->launched, &run->seen);
	supervise_judge(&options, &run->seen);
	if (run->result->verdict != VERDICT_SETUP && run->result->verdict != VERDICT_SUPERVISOR)
		collect(run);
	hint_inputs(run);
	finish_network(run, &counters);
	finish_record(run, &counters);
}

int sandbox_run(const struct spec *spec, struct result *ret, struct failure *why)
{
	struct run run = {.spec = spec, .result = ret};
	*ret = (struct result){.exit_code = -1,
		.cpu_ns = UINT64_MAX,
		.memory_peak_bytes = UINT64_MAX,
		.captured = spec->json,
		.verdict = VERDICT_SETUP};
	run.launched = (struct launched){
		.pid = -1, .pidfd = -1, .go = -1, .report = -1, .input = -1, .output = {-1, -1}};
	(void)sandbox_id_new(ret->id);
	record_init(&run.record);
	int r = supervise_prepare(why);
	if (r == 0)
		r = run_start(&run, why);
	if (r == 0) {
		run_end(&run);
	} else {
		char line[FAILURE_TEXT_BYTES];
		(void)slice_copy(slice_of(why->text), line, sizeof(line)); /* same size */
		result_error(ret, "%s", line);
		finish_network(&run, NULL);
		finish_record(&run, NULL);
	}
	run_fini(&run);
	return r;
}
