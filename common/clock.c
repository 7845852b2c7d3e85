/* See clock.h. */
#include "common/clock.h"

#include <time.h>

static uint64_t clock_read_ns(clockid_t id)
{
	struct timespec now;
	(void)clock_gettime(id, &now); /* fails only for an unknown clock */
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_wall_ms(void)
{
	return clock_read_ns(CLOCK_REALTIME) / NS_PER_MS;
}
