/*
 * Inside the sandbox: the first process, which builds its confinement step by step, starts the program as its child,
 * reaps, and reports. It is non-dumpable, has no capability and the same system call filter as the program.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_INIT_H
#define ECLUSA_SANDBOX_LAUNCHER_INIT_H

#include "sandbox-launcher/cgroup.h"
#include "sandbox-launcher/filter.h"
#include "sandbox-launcher/mounts.h"
#include "sandbox-launcher/probe.h"

/** What init knows; everything was allocated before it existed. Descriptors are the launcher's, inherited. */
struct init_job {
	const struct spec *spec;
	char *const *env;
	struct cgroup *cgroup;
	struct mounts mounts;
	const struct filter_program *filter;
	struct probe_outside outside; /* what the sandbox's namespaces must differ from */
	bool drop_groups;             /* root: supplementary groups are the caller's */
	bool own_network;             /* a fresh network namespace, in which lo must come up */
	int go;         /* a byte when the program may start; its end: the launcher died */
	int report;     /* a channel: struct init_go comes here, struct init_report leave */
	int streams[3]; /* the program's 0-2; [0] -1: /dev/null */
};

enum init_report_kind {
	INIT_REPORT_LISTENER, /* the filter's listener comes with it */
	INIT_REPORT_CONFINED, /* what was found from inside; then the program starts, or a failure follows */
	INIT_REPORT_FAILED,      /* a step failed: value = errno, text = what */
	INIT_REPORT_EXEC_FAILED, /* value = errno */
	INIT_REPORT_EXITED,      /* value = wait status */
	INIT_REPORT_CPU,         /* the processor time limit was reached (no control group) */
};

/** Uid and gid are mapped, and the control groups are there: `tasks` of each v1 hierarchy comes with it. */
struct init_go {
	uint32_t groups; /* a bit of each enum cgroup_part that has one */
};

/** One report, one message. */
struct init_report {
	uint32_t kind;
	int32_t value;
	uint64_t cpu_ns;            /* of init and what it reaped */
	uint64_t memory_peak_bytes; /* of the largest process */
	struct probe_facts facts;   /* confined */
	char text[256]; /* failed: what; exited: a writable folder that is full, or nothing */
};

/** Never returns: the process ends. */
void init_main(const struct init_job *job) __attribute__((noreturn));

#endif
