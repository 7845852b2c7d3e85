/* Time: monotonic nanoseconds for deadlines, wall milliseconds UTC for records. */
#ifndef ECLUSA_COMMON_CLOCK_H
#define ECLUSA_COMMON_CLOCK_H

#include <stdint.h>

#define NS_PER_MS  UINT64_C(1000000)
#define NS_PER_SEC UINT64_C(1000000000)

uint64_t clock_monotonic_ns(void);
uint64_t clock_wall_ms(void);

#endif
