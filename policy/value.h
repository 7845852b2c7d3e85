/* The values that statements are made of: sizes, dates, ports, methods, addresses, names. Text to numbers. */
#ifndef ECLUSA_POLICY_VALUE_H
#define ECLUSA_POLICY_VALUE_H

#include "policy/rule.h"

#define VALUE_LIST_MAX       64
#define VALUE_NAME_BYTES_MAX 63  /* of a group, profile or rule id */
#define VALUE_TEXT_BYTES_MAX 256 /* of an owner, a ticket, a note */
#define VALUE_COUNT_MAX      (UINT64_C(1) << 53)
#define VALUE_RATE_MAX       (UINT64_C(1) << 32) /* so that rates compare without overflow */
#define VALUE_DAYS_MAX       3650

/**
 * All: @return NULL, or what is wrong, for people. Lists go to @arena; running out of memory is the arena's
 * sticky failure and is also an answer.
 */

/** Bytes: digits, then nothing or k, m, g (powers of 1024). */
const char *value_size(struct slice text, uint64_t *ret_bytes);
/** YYYY-MM-DD. *ret_ms: the first millisecond after that day, UTC. */
const char *value_date(struct slice text, uint64_t *ret_ms);
/** "443", "80,443", "8000-8010". */
const char *value_ports(
	struct slice text, struct arena *arena, const struct port_range **ret, size_t *ret_count);
/** "GET,HEAD" or "ANY" (none). Sorted. */
const char *value_methods(
	struct slice text, struct arena *arena, const struct slice **ret, size_t *ret_count);
/** One method that a rule may name. */
const char *value_method(struct slice text);
/** "public" and prefixes. Only the prefixes are returned. */
const char *value_addresses(
	struct slice text, struct arena *arena, const struct cidr **ret, size_t *ret_count);
/** How many, at least one. */
const char *value_count(struct slice text, uint64_t *ret_count);
/** "200ms", "10m": digits, then ms, s, m, h or d; at least a millisecond, at most ten years. */
const char *value_duration(struct slice text, uint64_t *ret_ms);
/** "50/s", "100/m", "1000/h". */
const char *value_rate(struct slice text, uint64_t *ret_uses, uint64_t *ret_ms);
/** Names of header fields. Sorted, in lower case. */
const char *value_fields(
	struct slice text, struct arena *arena, const struct slice **ret, size_t *ret_count);
/** A name of a group, profile or rule: letters, digits, '.', '_', '-'. */
const char *value_name(struct slice text);

/** Order of bytes, for sorted lists. */
int value_compare_slices(const void *a, const void *b);

#endif
