/*
 * Counts over time: a bounded number of intervals, as wide as they have to be for all of it. Events may come in any order.
 */
#ifndef ECLUSA_REPORT_SPREAD_H
#define ECLUSA_REPORT_SPREAD_H

#include <stddef.h>
#include <stdint.h>

#define SPREAD_INTERVALS_MAX ((size_t)96)

enum spread_kind { SPREAD_ALLOWED, SPREAD_WOULD, SPREAD_FAILED, SPREAD_DENIED, SPREAD_KINDS };

/** Zero-initialise. Intervals begin at multiples of the width, in seconds since 1970. */
struct spread {
	unsigned step;  /* of the widths, from a second up */
	uint64_t first; /* number of the first interval: its begin / width */
	size_t count;   /* intervals from the first to the last one with an event */
	uint64_t counts[SPREAD_INTERVALS_MAX][SPREAD_KINDS];
};

/** Times from the year 10000 on are left out. */
void spread_add(struct spread *s, uint64_t time_ms, enum spread_kind kind, uint64_t count);
uint64_t spread_width_s(const struct spread *s);
/** The fullest interval's sum. */
uint64_t spread_most(const struct spread *s);
uint64_t spread_sum(const struct spread *s, size_t interval);

#endif
