/*
 * Processor time of all processes of a pid namespace, without a control group: looked at from time to time. What a process
 * used after it was last seen is known only if somebody waits for it, so the sum is never too high and may be too low.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_CPU_SAMPLER_H
#define ECLUSA_SANDBOX_LAUNCHER_CPU_SAMPLER_H

#include "common/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CPU_SAMPLER_NEW_MAX 65536 /* pids that are looked for at once */

struct cpu_seen {
	pid_t pid;
	uint64_t ns; /* processor time when it was last looked at */
};

struct cpu_sampler {
	int proc;        /* /proc of the namespace */
	int cursor_file; /* the kernel's loadavg of it, which names the last pid that was given */
	pid_t cursor, pid_max; /* looked for up to here; where numbers start again */
	struct cpu_seen *seen;
	size_t count, capacity;
	uint64_t gone_ns; /* of those that vanished, when they were last seen */
	uint64_t last_ns; /* the sum of the last look: it never falls */
	bool moving;      /* processes came or went since the look before */
};

/** @processes: how many there can be. Takes @loadavg, an open file. @return 0 or negative errno. */
int cpu_sampler_init(struct cpu_sampler *s, size_t processes, int loadavg);
void cpu_sampler_fini(struct cpu_sampler *s);
/** The sum so far. */
uint64_t cpu_sampler_take(struct cpu_sampler *s);
/** How long to wait before the next look: less the nearer @limit_ns is, and while processes come and go. */
uint64_t cpu_sampler_pause_ns(const struct cpu_sampler *s, uint64_t limit_ns);

#endif
