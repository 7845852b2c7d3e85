/* See limit.h. */
#include "policy/limit.h"

#include "policy/canonical.h"

#include "common/cleanup.h"

#include <assert.h>
#include <inttypes.h>

enum unit { UNIT_BYTES, UNIT_COUNT, UNIT_DURATION, UNIT_WINDOW, UNIT_DATE };

struct limit_entry {
	const char *name;
	size_t offset; /* of its number, in a struct rule_entry */
	enum unit unit;
};

static const struct limit_entry entries[] = {
	[LIMIT_REQ_BODY] = {"req-body", offsetof(struct rule_entry, rule.req_body_bytes),
		UNIT_BYTES},
	[LIMIT_RESP_BODY] = {"resp-body", offsetof(struct rule_entry, rule.resp_body_bytes),
		UNIT_BYTES},
	[LIMIT_CONNS] = {"conns", offsetof(struct rule_entry, rule.budget.connections), UNIT_COUNT},
	[LIMIT_TIME] = {"time", offsetof(struct rule_entry, rule.budget.time_ms), UNIT_DURATION},
	[LIMIT_MAX_USES] = {"max-uses", offsetof(struct rule_entry, rule.budget.max_uses),
		UNIT_COUNT},
	[LIMIT_UP] = {"up", offsetof(struct rule_entry, rule.budget.up_bytes), UNIT_BYTES},
	[LIMIT_DOWN] = {"down", offsetof(struct rule_entry, rule.budget.down_bytes), UNIT_BYTES},
	[LIMIT_REQUESTS] = {"requests", offsetof(struct rule_entry, rule.budget.requests),
		UNIT_COUNT},
	[LIMIT_WINDOW] = {"window", offsetof(struct rule_entry, rule.budget.window_ms),
		UNIT_WINDOW},
	[LIMIT_EXPIRES] = {"expires", offsetof(struct rule_entry, expires_ms), UNIT_DATE},
};

static_assert(array_size(entries) == LIMIT_COUNT, "an entry for every limit");

const char *limit_name(enum limit limit)
{
	return entries[limit].name;
}

bool limit_applies(const struct rule_entry *r, enum limit limit)
{
	return r->rule.transport == POLICY_INSPECT ||
		(limit != LIMIT_REQ_BODY && limit != LIMIT_RESP_BODY);
}

uint64_t limit_of_window(uint64_t window_ms)
{
	return window_ms == 0 ? 0 : POLICY_UNLIMITED - window_ms;
}

/** Its own inverse, 0 aside, which stays: a budget for life is the narrowest. */
static uint64_t turn(enum limit limit, uint64_t value)
{
	return entries[limit].unit == UNIT_WINDOW ? limit_of_window(value) : value;
}

uint64_t limit_get(const struct rule_entry *r, enum limit limit)
{
	uint64_t number;
	memcpy(&number, (const char *)r + entries[limit].offset, sizeof(number));
	return turn(limit, number);
}

void limit_set(struct rule_entry *r, enum limit limit, uint64_t value)
{
	uint64_t number = turn(limit, value);
	memcpy((char *)r + entries[limit].offset, &number, sizeof(number));
}

static void write_duration(uint64_t ms, struct buf *to)
{
	static const struct {
		const char *name;
		uint64_t ms;
	} units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
	size_t unit = 0;
	while (ms % units[unit].ms != 0)
		unit++;
	(void)buf_printf(to, "%" PRIu64 "%s", ms / units[unit].ms, units[unit].name);
}

void limit_write(enum limit limit, uint64_t value, struct buf *to)
{
	switch (entries[limit].unit) {
	case UNIT_BYTES:
		(void)canonical_size(value, to);
		break;
	case UNIT_COUNT:
		(void)buf_printf(to, "%" PRIu64, value);
		break;
	case UNIT_DURATION:
	case UNIT_WINDOW:
		write_duration(turn(limit, value), to);
		break;
	case UNIT_DATE:
		(void)canonical_date(value, to);
		break;
	}
}

bool limit_rate_within(const struct rule_budget *a, const struct rule_budget *b)
{
	if (a->rate_ms == 0 || b->rate_ms == 0)
		return b->rate_ms == 0;
	return a->rate_uses <= b->rate_uses &&
		a->rate_uses * b->rate_ms <= b->rate_uses * a->rate_ms;
}

void limit_write_rate(const struct rule_budget *budget, struct buf *to)
{
	(void)buf_printf(to, "%" PRIu64 "/%c", budget->rate_uses,
		budget->rate_ms == 1000            ? 's'
			: budget->rate_ms == 60000 ? 'm'
						   : 'h');
}
