/*
 * The limits of a rule that are one number, each by the same few questions: parsed, defaulted, narrowed, compared
 * and written down by one table instead of by one line each in many places.
 */
#ifndef ECLUSA_POLICY_LIMIT_H
#define ECLUSA_POLICY_LIMIT_H

#include "common/buf.h"
#include "policy/rule.h"

/** In the order in which they are written. */
enum limit {
	LIMIT_REQ_BODY,
	LIMIT_RESP_BODY,
	LIMIT_CONNS,
	LIMIT_TIME,
	LIMIT_MAX_USES,
	LIMIT_UP,
	LIMIT_DOWN,
	LIMIT_REQUESTS,
	LIMIT_WINDOW,
	LIMIT_EXPIRES,
	LIMIT_COUNT
};

/** The key in policy text: "req-body". */
const char *limit_name(enum limit limit);
/** Whether the limit means something on this rule: bytes that nobody reads have no bodies. */
bool limit_applies(const struct rule_entry *r, enum limit limit);
/** Of two values the greater one allows more; POLICY_UNLIMITED: nothing is limited. */
uint64_t limit_get(const struct rule_entry *r, enum limit limit);
void limit_set(struct rule_entry *r, enum limit limit, uint64_t value);
/** A window in milliseconds as a value: the longer it is, the less a budget in it allows. */
uint64_t limit_of_window(uint64_t window_ms);
/** Append a value as policy text spells it. POLICY_UNLIMITED is not spelled. */
void limit_write(enum limit limit, uint64_t value, struct buf *to);

/** Whether a rate lets through as little as another one, in every second and at once. No limit: 0 milliseconds. */
bool limit_rate_within(const struct rule_budget *a, const struct rule_budget *b);
/** Append a rate as policy text spells it. */
void limit_write_rate(const struct rule_budget *budget, struct buf *to);

#endif
