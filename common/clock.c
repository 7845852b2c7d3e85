/* See clock.h. */
#include "common/clock.h"

#include <stdbool.h>

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

/* Years begin in March here, so that a leap day is the last of its year: 146,097 days are 400 years. */
static void set_date(uint64_t days, struct tm *to)
{
	uint64_t shifted = days + 719468; /* since 0000-03-01 */
	uint64_t day = shifted % 146097;  /* of its 400 years */
	uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	uint64_t of_year = day - (365 * year + year / 4 - year / 100);
	uint64_t month = (5 * of_year + 2) / 153; /* from March, 0 */
	bool next = month >= 10;                  /* January and February */
	to->tm_mday = (int)(of_year - (153 * month + 2) / 5 + 1);
	to->tm_mon = (int)(next ? month - 10 : month + 2);
	to->tm_year = (int)(year + shifted / 146097 * 400 + next) - 1900;
}

struct tm clock_utc(uint64_t wall_ms)
{
	uint64_t seconds = wall_ms / 1000;
	struct tm utc = {.tm_sec = (int)(seconds % 60),
		.tm_min = (int)(seconds / 60 % 60),
		.tm_hour = (int)(seconds / 3600 % 24)};
	set_date(seconds / 86400, &utc);
	return utc;
}
