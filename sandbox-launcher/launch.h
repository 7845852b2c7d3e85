/* Making the sandbox's first process, in namespaces of its own. Everything that could fail cheaply was done before. */
#ifndef ECLUSA_SANDBOX_LAUNCHER_LAUNCH_H
#define ECLUSA_SANDBOX_LAUNCHER_LAUNCH_H

#include "sandbox-launcher/init.h"

/** A running sandbox; descriptors owned, -1 = none, those that are polled are non-blocking. */
struct launched {
	pid_t pid;
	int pidfd;
	int go;        /* held open: its end tells init that we died */
	int report;    /* a channel: struct init_report arrive here */
	int input;     /* write end of the program's standard input */
	int output[2]; /* read ends of its standard output and error */
};

/** What launch() needs beside the job. */
struct launch_options {
	int network_namespace; /* -1: an empty one of its own */
	bool wants_input;
	uid_t uid; /* outside, what SANDBOX_UID maps to */
	gid_t gid;
};

/**
 * Clone, map, let it build its confinement; the program waits for launched_release(). @job's streams, go and report are filled in here. On failure nothing runs.
 * @return 0 or negative errno.
 */
int launch(struct init_job *job, const struct launch_options *options, struct launched *ret,
	struct failure *why);
/** Let the program start. */
void launched_release(const struct launched *l);
/** SIGKILL to the first process: the kernel ends all others with it. */
void launched_kill(const struct launched *l);
/** Wait for the first process; then no process of the sandbox exists. */
void launched_reap(struct launched *l);
void launched_fini(struct launched *l);

#endif
