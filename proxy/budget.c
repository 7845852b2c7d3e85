/* See budget.h. Reads policy's numbers and its own counters, and nothing that a peer said but how many bytes there were. */
#include "proxy/budget_table.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define MS_PER_SEC     1000
#define DURATION_BYTES 28
#define WORDS_BYTES    48

static const struct {
	const char *name;
	enum reason reason;
	const char *noun; /* of what so many are allowed */
	const char *hint;
} kinds[] = {
	[BUDGET_UP] = {"up", REASON_DENY_BUDGET, "bytes towards the host",
		"a larger up= on the rule would let more through; heads, paths and queries count"},
	[BUDGET_DOWN] = {"down", REASON_DENY_BUDGET, "bytes from the host",
		"a larger down= on the rule would let more through"},
	[BUDGET_REQUESTS] = {"requests", REASON_DENY_BUDGET, "requests",
		"a larger requests= on the rule would let more through"},
	[BUDGET_USES] = {"max-uses", REASON_DENY_QUOTA, "uses",
		"a larger max-uses= on the rule would let more through"},
	[BUDGET_RATE] = {"rate", REASON_DENY_RATE, "uses",
		"wait as Retry-After says, or raise rate= on the rule"},
	[BUDGET_CONNECTIONS] = {"conns", REASON_DENY_LIMIT, "uses at once",
		"let others end first, or raise conns= on the rule"},
	[BUDGET_TIME] = {"time", REASON_DENY_LIMIT, "ms for one use",
		"a larger time= on the rule would let it go on"},
	[BUDGET_TABLE] = {"rules", REASON_DENY_LIMIT, "rules in use",
		"fewer rules with wider hosts, or a sandbox for each part of the work"},
};

static_assert(array_size(kinds) == BUDGET_KIND_COUNT, "a line for every kind");

/** One limit as it stands, and what is asked of it. */
struct budget_limit {
	enum budget_kind kind;
	uint64_t allowed, used, wanted;
};

const char *budget_kind_name(enum budget_kind kind)
{
	return kinds[kind].name;
}

const char *budget_kind_hint(enum budget_kind kind)
{
	return kinds[kind].hint;
}

static uint64_t room(uint64_t allowed, uint64_t used)
{
	if (allowed == POLICY_UNLIMITED)
		return POLICY_UNLIMITED;
	return used < allowed ? allowed - used : 0;
}

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static const char *duration(uint64_t ms, char to[static DURATION_BYTES])
{
	bool whole = ms % MS_PER_SEC == 0;
	(void)snprintf(to, DURATION_BYTES, "%" PRIu64 " %s", whole ? ms / MS_PER_SEC : ms,
		whole ? "s" : "ms"); /* fits */
	return to;
}

/** @wanted 0: of what is in flight. */
static void describe(struct budget_denial *d, uint64_t wanted)
{
	char text[DURATION_BYTES], window[WORDS_BYTES] = "", needed[WORDS_BYTES] = "",
				   resets[WORDS_BYTES] = "";
	if (d->window_ms != 0)
		(void)snprintf(window, sizeof(window), " in %s", duration(d->window_ms, text));
	if (wanted > 1)
		(void)snprintf(
			needed, sizeof(needed), " and %" PRIu64 " more are asked for", wanted);
	if (d->resets_ms != 0)
		(void)snprintf(
			resets, sizeof(resets), "; more after %s", duration(d->resets_ms, text));
	(void)snprintf(d->detail, sizeof(d->detail),
		"the rule allows a sandbox %" PRIu64 " %s%s, of which %" PRIu64 " are used%s%s",
		d->allowed, kinds[d->kind].noun, window, d->used, needed, resets); /* fits */
}

static void deny(struct budget_denial *ret, const struct budget_limit *l, uint64_t window_ms,
	uint64_t resets_ms)
{
	*ret = (struct budget_denial){.kind = l->kind,
		.reason = kinds[l->kind].reason,
		.allowed = l->allowed,
		.used = l->used,
		.window_ms = window_ms,
		.resets_ms = resets_ms};
	describe(ret, l->wanted);
}

/** A window that has passed is followed by one that begins now. */
static void roll(struct budget_use *use, uint64_t now_ms)
{
	struct budget_counter *c = use->counter;
	uint64_t window_ms = use->limits.window_ms;
	if (window_ms == 0 || now_ms - c->window_start_ms < window_ms)
		return;
	c->window_start_ms = now_ms;
	c->up_bytes = c->down_bytes = c->requests = 0;
}

/** Until the window of a limit ends. */
static uint64_t window_left(const struct budget_use *use, uint64_t now_ms)
{
	uint64_t passed_ms = now_ms - use->counter->window_start_ms;
	return passed_ms < use->limits.window_ms ? use->limits.window_ms - passed_ms : 0;
}

static bool windowed(enum budget_kind kind)
{
	return kind == BUDGET_UP || kind == BUDGET_DOWN || kind == BUDGET_REQUESTS;
}

static void deny_limit(const struct budget_use *use, const struct budget_limit *l, uint64_t now_ms,
	struct budget_denial *ret)
{
	bool in_window = use->counter != NULL && windowed(l->kind) && use->limits.window_ms != 0;
	deny(ret, l, in_window ? use->limits.window_ms : 0,
		in_window ? window_left(use, now_ms) : 0);
}

/** How long until the bucket has one use; 0: it has. A full one has rate_uses. */
static uint64_t rate_wait_ns(const struct budget_use *use, uint64_t now_ms, uint64_t *ret_next_ns)
{
	const struct rule_budget *l = &use->limits;
	uint64_t now_ns = now_ms * NS_PER_MS;
	uint64_t full_ns = l->rate_ms * NS_PER_MS;
	uint64_t one_ns = l->rate_uses > 0 ? full_ns / l->rate_uses : full_ns + 1;
	uint64_t next_ns = use->counter->rate_next_ns;
	next_ns = add(next_ns > now_ns ? next_ns : now_ns, one_ns);
	*ret_next_ns = next_ns;
	return next_ns - now_ns > full_ns ? next_ns - now_ns - full_ns : 0;
}

static bool rate_allows(const struct budget_use *use, uint64_t now_ms, struct budget_denial *ret)
{
	const struct rule_budget *l = &use->limits;
	uint64_t next_ns;
	if (l->rate_ms == 0)
		return true;
	uint64_t wait_ns = rate_wait_ns(use, now_ms, &next_ns);
	if (wait_ns == 0)
		return true;
	const struct budget_limit limit = {BUDGET_RATE, l->rate_uses, l->rate_uses, 1};
	deny(ret, &limit, l->rate_ms, (wait_ns + NS_PER_MS - 1) / NS_PER_MS);
	return false;
}

static uint32_t in_flight(const struct budget_use *use)
{
	return *budget_counter_in_flight(use->budget, use->counter);
}

static bool limits_allow(
	const struct budget_use *use, const struct budget_ask *ask, struct budget_denial *ret)
{
	const struct rule_budget *l = &use->limits;
	const struct budget_counter *c = use->counter;
	const struct budget_limit limits[] = {
		{BUDGET_USES, l->max_uses, c->uses, 1},
		{BUDGET_REQUESTS, l->requests, c->requests, 1},
		{BUDGET_UP, l->up_bytes, c->up_bytes, ask->up_bytes > 0 ? ask->up_bytes : 1},
		{BUDGET_DOWN, l->down_bytes, c->down_bytes, 1},
		{BUDGET_CONNECTIONS, l->connections, in_flight(use), 1},
	};
	for (size_t i = 0; i < array_size(limits); i++) {
		if (room(limits[i].allowed, limits[i].used) >= limits[i].wanted)
			continue;
		deny_limit(use, &limits[i], ask->now_ms, ret);
		return false;
	}
	return rate_allows(use, ask->now_ms, ret); /* last: it takes from the bucket */
}

static void count(struct budget_use *use, uint64_t now_ms)
{
	struct budget_counter *c = use->counter;
	uint64_t next_ns = 0;
	c->uses = add(c->uses, 1);
	c->requests = add(c->requests, 1);
	++*budget_counter_in_flight(use->budget, c);
	if (use->limits.rate_ms == 0)
		return;
	/* A refused use does not make the next one wait longer, one that only would be refused neither. */
	if (rate_wait_ns(use, now_ms, &next_ns) == 0)
		c->rate_next_ns = next_ns;
}

static bool begin_allowed(
	const struct budget_use *use, const struct budget_ask *ask, struct budget_denial *ret)
{
	if (use->counter != NULL)
		return limits_allow(use, ask, ret);
	const struct budget_limit full = {.kind = BUDGET_TABLE, .allowed = BUDGET_COUNTERS_MAX};
	deny(ret, &full, 0, 0);
	(void)snprintf(ret->detail, sizeof(ret->detail),
		"more rules are in use than can be counted"); /* fits */
	return false;
}

/** What the rule says of a use from its beginning on. */
static void take_limits(struct budget_use *use, const struct rule *rule)
{
	bool ends = !rule->observe && rule->budget.time_ms != POLICY_UNLIMITED;
	use->limits = rule->budget;
	use->observe = rule->observe;
	use->deadline_ms = ends ? add(use->began_ms, rule->budget.time_ms) : 0;
}

void budget_renew(struct budget_use *use, const struct rule *rule)
{
	if (use->budget != NULL)
		take_limits(use, rule);
}

enum reason budget_begin(struct budget *b, const struct budget_ask *ask, struct budget_use *use,
	struct budget_denial *ret_denial)
{
	assert(use->budget == NULL); /* one at a time */
	*use = (struct budget_use){.budget = b,
		.counter = budget_counter_get(b, ask->sandbox, ask->rule->key, ask->now_ms),
		.began_ms = ask->now_ms,
		.would = REASON_ALLOW_RULE};
	take_limits(use, ask->rule);
	if (use->counter != NULL)
		roll(use, ask->now_ms);
	bool allowed = begin_allowed(use, ask, ret_denial);
	if (!allowed && !use->observe) {
		*use = (struct budget_use){0};
		return ret_denial->reason;
	}
	if (use->counter != NULL)
		count(use, ask->now_ms);
	if (allowed)
		return REASON_ALLOW_RULE;
	use->would = ret_denial->reason;
	return REASON_OBSERVE_WOULD_DENY;
}

void budget_end(struct budget_use *use)
{
	if (use->counter != NULL)
		--*budget_counter_in_flight(use->budget, use->counter);
	*use = (struct budget_use){0};
}

uint64_t budget_up_room(struct budget_use *use, uint64_t now_ms)
{
	if (use->observe)
		return POLICY_UNLIMITED;
	if (use->counter == NULL)
		return 0;
	roll(use, now_ms);
	return room(use->limits.up_bytes, use->counter->up_bytes);
}

uint64_t budget_down_room(struct budget_use *use, uint64_t now_ms)
{
	if (use->observe)
		return POLICY_UNLIMITED;
	if (use->counter == NULL)
		return 0;
	roll(use, now_ms);
	return room(use->limits.down_bytes, use->counter->down_bytes);
}

void budget_spend(struct budget_use *use, uint64_t up_bytes, uint64_t down_bytes)
{
	struct budget_counter *c = use->counter;
	if (c == NULL)
		return;
	c->up_bytes = add(c->up_bytes, up_bytes);
	c->down_bytes = add(c->down_bytes, down_bytes);
	bool over = c->up_bytes > use->limits.up_bytes || c->down_bytes > use->limits.down_bytes;
	if (over && use->observe && use->would == REASON_ALLOW_RULE)
		use->would = REASON_DENY_BUDGET;
}

void budget_explain(const struct budget_use *use, enum budget_kind kind, uint64_t now_ms,
	struct budget_denial *ret)
{
	const struct rule_budget *l = &use->limits;
	const struct budget_counter *c = use->counter;
	struct budget_limit limit = {.kind = kind};
	if (kind == BUDGET_UP) {
		limit.allowed = l->up_bytes;
		limit.used = c != NULL ? c->up_bytes : 0;
	} else if (kind == BUDGET_DOWN) {
		limit.allowed = l->down_bytes;
		limit.used = c != NULL ? c->down_bytes : 0;
	} else {
		assert(kind == BUDGET_TIME);
		limit.allowed = l->time_ms;
		limit.used = now_ms - use->began_ms;
	}
	deny_limit(use, &limit, now_ms, ret);
}

enum reason budget_would(const struct budget_use *use, uint64_t now_ms)
{
	if (!use->observe || use->would != REASON_ALLOW_RULE)
		return use->would;
	return now_ms - use->began_ms > use->limits.time_ms ? REASON_DENY_LIMIT : REASON_ALLOW_RULE;
}
