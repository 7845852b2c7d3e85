/* Limits that the kernel keeps per process, and the clocks that the launcher watches. */
#ifndef ECLUSA_SANDBOX_LAUNCHER_LIMITS_H
#define ECLUSA_SANDBOX_LAUNCHER_LIMITS_H

#include "sandbox-launcher/cgroup.h"

#define LIMITS_OPEN_FILES 1024 /* of a process inside */

/** In the sandbox, before it joins a group: an ordinary scheduling class, whatever the caller has. */
int limits_leave_realtime(void);
/** In the sandbox: rlimits. Without a control group they also stand in for it (memory, processes, cpu). */
int limits_apply(const struct spec *spec, bool has_cgroup);

/** The two clocks of a run, on the monotonic one. */
struct limits_clock {
	uint64_t wall_deadline_ns;
	uint64_t cpu_check_ns; /* when processor time is read next */
};

enum limits_fired { LIMITS_NONE, LIMITS_WALL, LIMITS_CPU };

void limits_start(struct limits_clock *c, const struct spec *spec, uint64_t now_ns);
/**
 * What has been reached. Reads processor time only when it could have been: the next moment follows from
 * what is left and how many processors may be used.
 */
enum limits_fired limits_check(
	struct limits_clock *c, const struct spec *spec, const struct cgroup *g, uint64_t now_ns);
/** Milliseconds until the next check, for poll(). */
int limits_wait_ms(const struct limits_clock *c, uint64_t now_ns);

#endif
