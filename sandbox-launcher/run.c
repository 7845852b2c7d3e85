/* See run.h. This file alone knows the order of a run. */
#include "sandbox-launcher/run.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/fault.h"
#include "sandbox-launcher/env.h"
#include "sandbox-launcher/hint.h"
#include "sandbox-launcher/network.h"
#include "sandbox-launcher/plan.h"
#include "sandbox-launcher/record.h"
#include "sandbox-launcher/rootfs.h"
#include "sandbox-launcher/supervise.h"
#include "sandbox-launcher/trust_places.h"
#include "sandbox-launcher/userns.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
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
	char roots[32]; /* path of the roots that a service's proxy trusts */
	bool recorded;  /* sandbox.start is in the log, so sandbox.exit must come */
	struct network *network;
	char **env;
	struct launched launched;
	struct supervised seen;
	struct event_lines lines; /* of --stream */
	bool tells;
};

int sandbox_enter(struct failure *why)
{
	if (userns_is_initial_root())
		return 0;
	int r = userns_enter(why);
	if (r < 0 || unshare(CLONE_NEWNS) == 0)
		return r;
	r = -errno; /* AppArmor's restriction refuses only here */
	return failure_set(
		why, r, "can't make a mount namespace (%s): %s", strerror(-r), userns_remedy());
}

static int start_network(struct run *run, struct failure *why)
{
	if (run->plan.profile == NULL)
		return 0; /* none, or a service gave it */
	const struct network_options options = {
		.sandbox_id = run->result->id,
		.profile = profile_name(run->plan.profile),
		.rules = run->plan.profile,
		.bundle = buf_slice(&run->plan.bundle),
		.policy = run->plan.policy,
		.root = run->plan.root,
		.upstream_ca = run->spec->upstream_ca,
		.upstream_proxy = spec_upstream_proxy(run->spec),
		.hosts = run->spec->hosts,
		.resolver = run->spec->resolver,
		.segment_fd = run->record.segment,
		.audit_folder_fd = run->record.folder,
	};
	return network_start(run->network, &options, why);
}

/* The network is made, and may not be served yet: what the program must know of it. */
static int finish_view(struct run *run, struct failure *why)
{
	char proxy[96], address[ADDRESS_TEXT_BYTES];
	struct variables_places places = {0};
	if (run->network == NULL) {
		int e = env_build(run->spec, &places, &run->env, why);
		return e < 0 ? e : view_add_resolver(&run->plan.view, NULL, why);
	}
	int r = network_wait_place(run->network, clock_monotonic_ns() + NETWORK_START_NS, why);
	if (r < 0)
		return r;
	const struct message_lease_granted *lease = network_lease(run->network);
	(void)snprintf(proxy, sizeof(proxy), "http://%s:%u",
		address_format(&lease->service, address), lease->explicit_port);
	places.proxy = run->spec->proxy_env ? proxy : NULL;
	places.bundle = TRUST_BUNDLE_PATH;
	places.java_store = TRUST_JAVA_PATH;
	r = env_build(run->spec, &places, &run->env, why);
	if (r == 0)
		r = view_add_resolver(&run->plan.view, &lease->service, why);
	if (r == 0)
		r = trust_files_finish(&run->plan.trust, network_ca_pem(run->network), why);
	return r < 0 ? r : trust_places_add(&run->plan.view, &run->plan.trust, why);
}

/* Of the rules in force; NULL: there is no network. */
static const char *policy_digest(const struct run *run)
{
	const struct leased *leased = network_leased(run->network);
	if (leased != NULL)
		return leased_granted(leased)->policy;
	return run->plan.profile == NULL ? NULL : profile_digest(run->plan.profile);
}

/* What of the receipt is known before the sandbox exists. */
static int begin_receipt(struct run *run, struct failure *why)
{
	struct receipt *receipt = &run->result->receipt;
	receipt->has_network = run->result->has_network;
	receipt->rung = cgroup_rung(&run->plan.cgroup, run->plan.root);
	if (!run->spec->json)
		return 0; /* nobody will see it */
	int r = receipt_programs(receipt, &run->plan.filter, policy_digest(run));
	return r < 0 ? failure_errno(why, r, "can't hash the filter") : 0;
}

static int start_program(struct run *run, struct failure *why)
{
	struct init_job job = {
		.spec = run->spec,
		.env = run->env,
		.cgroup = &run->plan.cgroup,
		.mounts = {&run->plan.view, run->plan.out,
			run->plan.input_count > 0 || run->spec->tmpfs.count > 0,
			mounts_scratch_bytes(run->spec->memory_bytes)},
		.filter = &run->plan.filter,
		.drop_groups = run->plan.root,
	};
	const struct launch_options options = {
		.network_namespace = run->network == NULL ? -1 : network_namespace_fd(run->network),
		.wants_input = run->spec->interactive || run->spec->stdin_text != NULL,
		.uid = run->plan.uid,
		.gid = run->plan.gid,
	};
	int r = run->spec->rootfs == NULL ? 0 : rootfs_check(&run->plan.view, why);
	if (r < 0)
		return r;
	r = probe_outside(&job.outside);
	if (r < 0)
		return failure_errno(why, r, "can't read this process's namespaces");
	return launch(&job, &options, &run->launched, why);
}

/* Where the log of this run is, absolute; NULL when that can't be told. Takes no part in writing it. */
static char *audit_path(const struct record *record)
{
	char link[32], folder[PATH_MAX];
	char *path = NULL;
	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", record->folder);
	ssize_t len = readlink(link, folder, sizeof(folder));
	if (len <= 0 || len == (ssize_t)sizeof(folder) ||
		asprintf(&path, "%.*s/%s", (int)len, folder, record->name) < 0)
		return NULL;
	return path;
}

/* sandbox.start into the log. */
static int record_run(struct run *run, struct failure *why)
{
	int r = record_start(&run->record, &run->plan, run->result->id, why);
	if (r < 0)
		return r;
	run->recorded = true;
	run->result->audit_path = audit_path(&run->record);
	return 0;
}

/* A service records the start, gives the sandbox its name and the network, and has the log. */
static int lease_network(struct run *run, struct failure *why)
{
	struct leased *leased = NULL;
	int r = record_lease(&run->record, &run->plan, &leased, why);
	if (r == 0)
		r = network_lease_from(leased, &run->network, why);
	if (r < 0) {
		run->record.leased = NULL;
		leased_free(leased);
		return r;
	}
	const struct service_granted *granted = leased_granted(leased);
	run->recorded = true;
	memcpy(run->result->id, granted->sandbox_id, sizeof(run->result->id));
	run->result->profile = strdup(granted->profile); /* only for people, and likewise: */
	run->result->audit_path = granted->log[0] == '\0' ? NULL : strdup(granted->log);
	if (leased_roots_fd(leased) >= 0) {
		(void)snprintf(run->roots, sizeof(run->roots), "/proc/self/fd/%d",
			leased_roots_fd(leased));
		run->plan.more_roots = run->roots;
	}
	return 0;
}

static int start_telling(struct run *run, struct failure *why)
{
	int segment = run->network == NULL ? -1 : run->record.segment;
	int r = event_lines_open(&run->lines, run->spec, run->result, segment);
	run->tells = true;
	return r < 0 ? failure_errno(why, r, "can't follow the audit log") : 0;
}

/* What the log and the filter had to say until the very end. */
static void finish_telling(struct run *run)
{
	if (!run->tells)
		return;
	event_lines_violations(&run->lines);
	event_lines_follow(&run->lines);
}

/* The last lines may wait for their reader. */
static void end_telling(struct run *run)
{
	if (!run->tells)
		return;
	int r = event_lines_flush(&run->lines);
	event_lines_fini(&run->lines);
	if (r < 0 && run->result->write_error[0] == 0)
		result_error(run->result, "standard output can't be written: %s", strerror(-r));
}

/*
 * Everything up to the program's first instruction; a failure of any step means that it never runs. netd and the proxy load their
 * libraries while the run is planned, and the sandbox builds its confinement while they get ready. With a network the
 * proxy writes to the log from its start on; without one the log is opened while the sandbox builds its confinement.
 */
static int run_start(struct run *run, struct failure *why)
{
	bool own = spec_has_network(run->spec) && run->spec->service == NULL;
	int r = own ? network_begin(&run->network, why) : 0;
	if (r == 0)
		r = plan_make(&run->plan, run->spec, run->result, why);
	if (r < 0)
		return r;
	run->result->root = run->plan.root;
	run->result->has_network = spec_has_network(run->spec);
	struct stat st;
	run->result->policy_folder = run->spec->policy != NULL &&
		stat(run->spec->policy, &st) == 0 && S_ISDIR(st.st_mode);
	if (run->plan.profile != NULL)
		run->result->profile =
			strdup(profile_name(run->plan.profile)); /* only for people */
	fault_point("launch-planned");
	if (run->spec->service != NULL)
		r = lease_network(run, why);
	else if (run->result->has_network)
		r = record_run(run, why);
	if (r < 0)
		return r;
	r = start_network(run, why);
	if (r == 0)
		r = plan_prepare(&run->plan, run->result->id, why);
	run->result->cgroup = run->plan.cgroup.kind;
	if (r == 0)
		r = begin_receipt(run, why);
	if (r == 0)
		r = finish_view(run, why);
	if (r == 0)
		r = start_program(run, why);
	if (r == 0 && run->network != NULL)
		r = network_wait(run->network, clock_monotonic_ns() + NETWORK_START_NS, why);
	if (!run->recorded && run->spec->service == NULL) {
		struct failure later = {0}; /* a failure before is what is told */
		int e = record_run(run, r < 0 ? &later : why);
		r = r < 0 ? r : e;
	}
	if (r == 0 && run->spec->stream)
		r = start_telling(run, why);
	if (r == 0)
		launched_release(&run->launched);
	return r;
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
		.file_bytes = run->spec->out_file_bytes,
		.files = run->spec->out_files,
		.overwrite = run->spec->overwrite,
	};
	if (collect_run(&options, &run->plan.target, &result->collected, &why) < 0) {
		result->collected.failed++;
		result_error(result, "%s", why.text);
	}
	if (result->collected.failed > 0)
		result_error(result,
			"results: %u lost, as they could not be put into %s; %zu are there",
			result->collected.failed, run->spec->out, result->collected.count);
	struct slice rest = buf_slice(&result->collected.skipped), line;
	while (slice_split(rest, '\n', &line, &rest))
		result_error(result, "/out/%.*s", (int)line.len, line.ptr);
	result->errors_left_out += result->collected.untold;
	if (result->collected.failed > 0 &&
		(result->verdict == VERDICT_OK || result->verdict == VERDICT_EXIT)) {
		result->verdict = VERDICT_OUTPUT;
		result->decided = result->collected.failed;
	}
}

/*
 * Output that the caller did not get makes the run fail, whatever the program said. A reader that went away is another
 * thing: the program learnt it by SIGPIPE, as it would have without us.
 */
static void judge_output(struct run *run)
{
	static const char *const names[] = {"standard output", "standard error"};
	struct result *result = run->result;
	for (int i = 0; i < 2; i++) {
		int error = result->write_error[i];
		bool piped = result->verdict == VERDICT_SIGNAL && result->signal == SIGPIPE;
		if (error == EPIPE && piped)
			result_hint(result, "%s: nobody reads it any more", names[i]);
		if (error == 0 || error == EPIPE)
			continue;
		result_error(result, "%s can't be written: %s", names[i], strerror(error));
		if (piped || result->verdict == VERDICT_OK || result->verdict == VERDICT_EXIT) {
			result->verdict = VERDICT_OUTPUT;
			result->decided = 1;
		}
	}
}

static void finish_network(struct run *run, struct message_counters_read *counters)
{
	if (run->network == NULL)
		return;
	bool ran = run->result->verdict !=
		VERDICT_SETUP; /* else the failure to start is what is told */
	if (network_finish(run->network, counters) < 0 && ran &&
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
	struct supervise_options options = {run->spec, &run->plan.cgroup, run->network, run->result,
		run->tells ? &run->lines : NULL};
	cgroup_sweep(
		&run->plan.cgroup); /* leftovers of killed launchers, while the program starts */
	supervise_run(&options, &run->launched, &run->seen);
	if (run->network != NULL && run->plan.root && run->result->receipt.confined)
		run->result->receipt.facts.layers |= LAYER_BIT(LAYER_DIAL_GUARD);
	supervise_judge(&options, &run->seen);
	if (run->result->verdict != VERDICT_SETUP && run->result->verdict != VERDICT_SUPERVISOR)
		collect(run);
	judge_output(run);
	finish_network(run, &counters);
	bool leased = network_leased(run->network) != NULL;
	if (!leased)
		finish_telling(run);
	finish_record(run, &counters);
	if (leased) { /* its lines of the log come at its end */
		run->lines.segment = run->record.segment;
		finish_telling(run);
	}
	bool never_ran = run->seen.reported && run->seen.report.kind == INIT_REPORT_EXEC_FAILED;
	hint_run(&run->plan, never_ran ? run->seen.report.value : 0, run->result);
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
		launched_kill(&run.launched);
		launched_reap(&run.launched);
		char line[FAILURE_TEXT_BYTES];
		(void)slice_copy(slice_of(why->text), line, sizeof(line)); /* same size */
		result_error(ret, "%s", line);
		finish_network(&run, NULL);
		finish_record(&run, NULL);
	}
	run_fini(&run);
	supervise_finish();
	end_telling(&run);
	return r;
}
