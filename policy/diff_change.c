/* See diff_change.h. */
#include "policy/diff_change.h"

#include "common/buf.h"
#include "common/cleanup.h"

#include <assert.h>

static const char *const kind_names[] = {
	[DIFF_ALLOWED] = "allowed",
	[DIFF_DENIED] = "denied",
	[DIFF_WIDER] = "wider",
	[DIFF_NARROWER] = "narrower",
};
/** Those that limit.h does not name. */
static const char *const limit_names[] = {
	[DIFF_ADDR - LIMIT_COUNT] = "addr",
	[DIFF_RATE - LIMIT_COUNT] = "rate",
	[DIFF_HEADER_DENY - LIMIT_COUNT] = "header-deny",
	[DIFF_UPGRADE - LIMIT_COUNT] = "upgrade",
	[DIFF_MODE - LIMIT_COUNT] = "mode",
};

static_assert(array_size(kind_names) == DIFF_KIND_COUNT, "a name for every kind");
static_assert(array_size(limit_names) + LIMIT_COUNT == DIFF_LIMIT_COUNT, "a name for every limit");
static_assert(DIFF_LIMIT_COUNT <= 32, "a bit for every limit");

const char *diff_kind_name(enum diff_kind kind)
{
	return kind_names[kind];
}

const char *diff_limit_name(enum diff_limit limit)
{
	unsigned index = limit;
	return index < LIMIT_COUNT ? limit_name((enum limit)index)
				   : limit_names[index - LIMIT_COUNT];
}

/** Whether the rule opens all of a prefix. Of a metadata address a prefix around it says nothing. */
static bool opens(const struct rule *rule, const struct cidr *prefix)
{
	bool whole = prefix->bits == (prefix->base.family == 4 ? 32 : 128);
	if (whole && !reason_allows(policy_admit_address(rule, &prefix->base)))
		return false;
	for (size_t i = 0; i < rule->address_count; i++) {
		if (rule->addresses[i].bits <= prefix->bits &&
			cidr_contains(&rule->addresses[i], &prefix->base))
			return true;
	}
	return false;
}

/** Whether every address that @inner opens is opened by @outer, prefix by prefix. */
static bool opens_all(const struct rule *outer, const struct rule *inner)
{
	for (size_t i = 0; i < inner->address_count; i++) {
		if (!opens(outer, &inner->addresses[i]))
			return false;
	}
	return true;
}

/** Whether every field that @inner refuses is refused by @outer. */
static bool refuses_all(const struct rule *outer, const struct rule *inner)
{
	for (size_t i = 0; i < inner->header_deny_count; i++) {
		bool found = false;
		for (size_t o = 0; o < outer->header_deny_count && !found; o++)
			found = slice_equal(outer->header_deny[o], inner->header_deny[i]);
		if (!found)
			return false;
	}
	return true;
}

static unsigned bit(unsigned limit, bool beyond)
{
	return beyond ? 1u << limit : 0;
}

/** Limits in which @a goes beyond @b. */
static unsigned beyond(const struct rule *a, const struct rule *b)
{
	/* What else an ip: rule opens is nothing to the one address that was asked for. */
	bool named = rule_entry_of(a)->kind != PATTERN_ADDRESS;
	unsigned bits = bit(DIFF_ADDR, named && !opens_all(b, a)) |
		bit(DIFF_RATE, !limit_rate_within(&a->budget, &b->budget)) |
		bit(DIFF_HEADER_DENY, !refuses_all(a, b)) |
		bit(DIFF_UPGRADE, a->websocket && !b->websocket) |
		bit(DIFF_MODE, a->observe && !b->observe);
	for (enum limit l = 0; l < LIMIT_COUNT; l++)
		bits |= bit(l, limit_get(rule_entry_of(a), l) > limit_get(rule_entry_of(b), l));
	return bits;
}

static char *describe(const struct policy_question *q)
{
	struct buf text = {.limit = 0};
	bool connection = q->method.len == 0;
	bool plain = q->scheme == POLICY_SCHEME_HTTP;
	bool six = q->host->kind == HOST_ADDRESS && q->host->address.family == 6;
	if (connection)
		(void)buf_append_text(&text, "CONNECT ");
	else
		(void)buf_printf(&text, "%.*s %s://", (int)q->method.len, q->method.ptr,
			plain ? "http" : "https");
	(void)buf_printf(&text, "%s%s%s", six ? "[" : "", q->host->name, six ? "]" : "");
	if (connection || q->port != (plain ? 80 : 443))
		(void)buf_printf(&text, ":%u", q->port);
	(void)buf_append(&text, q->path);
	if (q->has_query)
		(void)buf_append_text(&text, "?any");
	char *copy = text.failed ? NULL : slice_dup(buf_slice(&text));
	buf_fini(&text);
	return copy;
}

/** The rule that stands for a change: the new one for what is allowed, the old one for what was. */
static bool same_change(const struct diff_change *a, const struct diff_change *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == DIFF_ALLOWED)
		return a->new_rule == b->new_rule;
	if (a->kind == DIFF_DENIED)
		return a->old_rule == b->old_rule;
	return a->old_rule == b->old_rule && a->new_rule == b->new_rule;
}

static int make_room(struct diff_sides *s)
{
	size_t room = s->room == 0 ? 64 : 2 * s->room;
	struct diff_change *more = reallocarray(s->diff->changes, room, sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	s->diff->changes = more;
	s->room = room;
	return 0;
}

/** Keep a change unless it is known; the last ones are looked at first, hosts come in order. */
static int add(struct diff_sides *s, struct diff_change change, const struct policy_question *q)
{
	struct policy_diff *diff = s->diff;
	for (size_t i = diff->count; i > 0; i--) {
		if (same_change(&diff->changes[i - 1], &change))
			return 0;
	}
	if (diff->count == s->room && make_room(s) < 0)
		return -ENOMEM;
	change.example = describe(q);
	if (change.example == NULL)
		return -ENOMEM;
	diff->changes[diff->count++] = change;
	diff->kinds[change.kind]++;
	return 0;
}

static bool passes_unread(const struct policy_verdict *v)
{
	return reason_allows(v->reason) && v->rule->transport != POLICY_INSPECT;
}

/** A question without a method: may bytes that nobody reads pass to this host and port? */
static void decide_connection(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret)
{
	policy_decide_host(p, q, ret);
	if (reason_allows(ret->reason) && !passes_unread(ret))
		*ret = (struct policy_verdict){.reason = REASON_DENY_PROTOCOL, .rule = ret->rule};
}

static void decide(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret)
{
	if (p == NULL) {
		*ret = (struct policy_verdict){.reason = REASON_DENY_DEFAULT};
		return;
	}
	if (q->method.len == 0) {
		decide_connection(p, q, ret);
		return;
	}
	if (q->scheme == POLICY_SCHEME_HTTPS) {
		policy_decide_host(p, q, ret);
		if (passes_unread(ret) && ret->rule->transport == POLICY_SPLICE)
			return;
		if (passes_unread(ret)) {
			*ret = (struct policy_verdict){.reason = REASON_DENY_PROTOCOL};
			return;
		}
	}
	policy_decide(p, q, ret);
}

int diff_ask(struct diff_sides *s, const struct policy_question *q)
{
	struct policy_verdict before;
	struct policy_verdict after;
	decide(s->profiles[0], q, &before);
	decide(s->profiles[1], q, &after);
	bool was = reason_allows(before.reason);
	bool is = reason_allows(after.reason);
	struct diff_change change = {.kind = is ? DIFF_ALLOWED : DIFF_DENIED,
		.old_rule = before.rule,
		.new_rule = after.rule,
		.old_reason = before.reason,
		.new_reason = after.reason};
	if (was != is)
		return add(s, change, q);
	if (!is)
		return 0;
	change.kind = DIFF_WIDER;
	change.limits = beyond(after.rule, before.rule);
	int r = change.limits != 0 ? add(s, change, q) : 0;
	change.kind = DIFF_NARROWER;
	change.limits = beyond(before.rule, after.rule);
	return r == 0 && change.limits != 0 ? add(s, change, q) : r;
}

void policy_diff_free(struct policy_diff *diff)
{
	for (size_t i = 0; i < diff->count; i++)
		free(diff->changes[i].example);
	free(diff->changes);
	*diff = (struct policy_diff){.count = 0};
}
