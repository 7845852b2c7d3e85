/* See clock_watch.h. */
#include "proxy/clock_watch.h"

#include <time.h>

uint64_t clock_watch_boot_ms(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_BOOTTIME, &t); /* can't fail with a clock that exists */
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int64_t clock_watch_step(struct clock_watch *w, uint64_t wall_ms, uint64_t boot_ms)
{
	int64_t offset_ms = (int64_t)wall_ms - (int64_t)boot_ms;
	int64_t step_ms = w->known ? offset_ms - w->offset_ms : 0;
	bool stepped = step_ms > CLOCK_STEP_MS || step_ms < -CLOCK_STEP_MS;
	/* What is less adds up, since each look is compared with the last one that counted. */
	if (!w->known || stepped)
		w->offset_ms = offset_ms;
	w->known = true;
	return stepped ? step_ms : 0;
}
