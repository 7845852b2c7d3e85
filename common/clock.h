/* Time: monotonic nanoseconds for deadlines, wall milliseconds UTC for records. */
#ifndef ECLUSA_COMMON_CLOCK_H
#define ECLUSA_COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_MS  UINT64_C(1000000)
#define NS_PER_SEC UINT64_C(1000000000)

uint64_t clock_monotonic_ns(void);
uint64_t clock_wall_ms(void);
/** Year to second of a time since 1970, in UTC: gmtime_r(3) reads the file of the local time zone first. Other fields are 0. */
struct tm clock_utc(uint64_t wall_ms);

#endif
