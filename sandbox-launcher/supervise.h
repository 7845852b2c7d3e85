/*
 * While the program runs: its streams, the clocks, the caller's signals, and the processes that the run depends on.
 * Ends when no process of the sandbox is left and its output is delivered; then judges what happened.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_SUPERVISE_H
#define ECLUSA_SANDBOX_LAUNCHER_SUPERVISE_H

#include "sandbox-launcher/event_lines.h"
#include "sandbox-launcher/launch.h"
#include "sandbox-launcher/limits.h"
#include "sandbox-launcher/network.h"
#include "sandbox-launcher/result.h"

/** All borrowed. @network NULL: none. */
struct supervise_options {
	const struct spec *spec;
	const struct cgroup *cgroup;
	const struct network *network;
	struct result *result;
	struct event_lines *lines; /* NULL: not told as it comes */
};

/** What was seen. */
struct supervised {
	enum limits_fired fired;
	bool network_died;
	bool oom;          /* memory ran out, and everything was ended for it */
	int caller_signal; /* the caller insisted: 0 = no */
	bool reported;
	struct init_report report;
	struct cgroup_usage usage;
};

/** Dispositions that a run needs, whatever the caller left: SIGCHLD default, SIGPIPE ignored. */
int supervise_prepare(struct failure *why);
void supervise_run(
	const struct supervise_options *options, struct launched *launched, struct supervised *ret);
/** When all is recorded and nothing is left of the run: the caller's signals end this process again, as while its output waits for a reader. */
void supervise_finish(void);
/** Verdict, numbers and usage into the result. */
void supervise_judge(const struct supervise_options *options, const struct supervised *seen);

#endif
