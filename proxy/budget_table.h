/* The table behind budget.h: counters of (sandbox, rule's key) in shared memory, and an index over them in this process. */
#ifndef ECLUSA_PROXY_BUDGET_TABLE_H
#define ECLUSA_PROXY_BUDGET_TABLE_H

#include "proxy/budget.h"
#include "proxy/limits.h"

/** All zero: free. Outlives the process. */
struct budget_counter {
	_Atomic uint32_t owner; /* sandbox's number + 1; 0: free */
	uint64_t key;
	uint64_t window_start_ms; /* of the three below */
	uint64_t up_bytes, down_bytes, requests;
	uint64_t uses;
	uint64_t rate_next_ns; /* when the bucket is full again */
};

/** @return the counter, made if need be; NULL: there is no room, or the sandbox has more than its share. */
struct budget_counter *budget_counter_get(
	struct budget *b, unsigned sandbox, uint64_t key, uint64_t now_ms);
/** How many of the counter's uses are in flight in this process. */
uint32_t *budget_counter_in_flight(struct budget *b, const struct budget_counter *c);

#endif
