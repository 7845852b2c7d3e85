/*
 * Whether somebody sets this host's clock: wall time and time since boot, suspension included, run at one pace, also where a daemon corrects it
 * little by little. A step of one against the other is said in the log, since times in it jump there. Order is told by sequence alone.
 */
#ifndef ECLUSA_PROXY_CLOCK_WATCH_H
#define ECLUSA_PROXY_CLOCK_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#define CLOCK_STEP_MS 1000 /* more than this is a step */

/** Zero-initialise. */
struct clock_watch {
	bool known;
	int64_t offset_ms; /* wall time minus time since boot */
};

/** Look at both. @return by how much the clock was set since the last look: 0, or more than CLOCK_STEP_MS, forward or back (negative). */
int64_t clock_watch_step(struct clock_watch *w, uint64_t wall_ms, uint64_t boot_ms);
/** Time since boot now, with the time that the host was suspended. */
uint64_t clock_watch_boot_ms(void);

#endif
