/* See limits.h. */
#include "sandbox-launcher/limits.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <limits.h>
#include <sched.h>
#include <sys/resource.h>

#define CPU_CHECK_MIN_NS (2 * NS_PER_MS)

static int set_limit(unsigned which, uint64_t value)
{
	struct rlimit now, limit = {value, value};
	if (getrlimit((__rlimit_resource_t)which, &now) < 0)
		return -errno;
	if (limit.rlim_max > now.rlim_max) /* the caller's own limit is tighter: it stays */
		limit.rlim_cur = limit.rlim_max = now.rlim_max;
	return setrlimit((__rlimit_resource_t)which, &limit) < 0 ? -errno : 0;
}

int limits_leave_realtime(void)
{
	const struct sched_param none = {0};
	int policy = sched_getscheduler(0);
	if (policy < 0)
		return -errno;
	if (policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE)
		return 0;
	return sched_setscheduler(0, SCHED_OTHER, &none) < 0 ? -errno : 0;
}

int limits_apply(const struct spec *spec, bool has_cgroup)
{
	/* 1, not 0: the kernel then also refuses a core_pattern pipe, which 0 does not */
	int r = set_limit(RLIMIT_CORE, 1);
	if (r == 0)
		r = set_limit(RLIMIT_NOFILE, LIMITS_OPEN_FILES);
	if (r == 0)
		r = set_limit(RLIMIT_MEMLOCK, 8 << 20);
	if (r == 0)
		r = set_limit(RLIMIT_MSGQUEUE, 0);
	if (r == 0)
		r = set_limit(RLIMIT_SIGPENDING, 4096);
	if (r == 0) /* no class that goes before others, which no quota of a control group holds */
		r = set_limit(RLIMIT_RTPRIO, 0);
	if (r == 0)
		r = set_limit(RLIMIT_NICE, 0);
	if (r < 0 || has_cgroup)
		return r;
	r = set_limit(RLIMIT_DATA, spec->memory_bytes);
	if (r == 0)
		r = set_limit(RLIMIT_NPROC, (uint64_t)spec->pids_limit + 1);
	if (r == 0) /* a second late, so that the sum over all processes is what decides */
		r = set_limit(RLIMIT_CPU, spec->cpu_time_ns / NS_PER_SEC + 2);
	return r;
}

/* No earlier than this can the rest be used up. */
static uint64_t cpu_rest_ns(const struct spec *spec, uint64_t used_ns)
{
	uint64_t rest = (spec->cpu_time_ns - used_ns) / spec->cpu_milli * 1000;
	return rest < CPU_CHECK_MIN_NS ? CPU_CHECK_MIN_NS : rest;
}

void limits_start(struct limits_clock *c, const struct spec *spec, uint64_t now_ns)
{
	c->wall_deadline_ns = now_ns + spec->timeout_ns;
	c->cpu_check_ns = now_ns + cpu_rest_ns(spec, 0);
}

enum limits_fired limits_check(
	struct limits_clock *c, const struct spec *spec, const struct cgroup *g, uint64_t now_ns)
{
	if (now_ns >= c->cpu_check_ns) {
		uint64_t used = cgroup_cpu_ns(g);
		if (used == UINT64_MAX)
			c->cpu_check_ns = UINT64_MAX; /* init watches instead */
		else if (used >= spec->cpu_time_ns)
			return LIMITS_CPU;
		else
			c->cpu_check_ns = now_ns + cpu_rest_ns(spec, used);
	}
	return now_ns >= c->wall_deadline_ns ? LIMITS_WALL : LIMITS_NONE;
}

int limits_wait_ms(const struct limits_clock *c, uint64_t now_ns)
{
	uint64_t next =
		c->cpu_check_ns < c->wall_deadline_ns ? c->cpu_check_ns : c->wall_deadline_ns;
	if (next <= now_ns)
		return 0;
	uint64_t ms = (next - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}
