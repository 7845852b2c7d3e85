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
static const char *const limit_names[] = {
	[DIFF_REQ_BODY] = "req-body",
	[DIFF_RESP_BODY] = "resp-body",
	[DIFF_EXPIRES] = "expires",
	[DIFF_ADDR] = "addr",
};

static_assert(array_size(kind_names) == DIFF_KIND_COUNT, "a name for every kind");
static_assert(array_size(limit_names) == DIFF_LIMIT_COUNT, "a name for every limit");

const char *diff_kind_name(enum diff_kind kind)
{
	return kind_names[kind];
}

const char *diff_limit_name(enum diff_limit limit)
{
	return limit_names[limit];
}

/** Whether every address that @inner opens is opened by @outer, prefix by prefix. */
static bool opens_all(const struct rule *outer, const struct rule *inner)
{
	for (size_t i = 0; i < inner->address_count; i++) {
		const struct cidr *in = &inner->addresses[i];
		bool found = false;
		for (size_t o = 0; o < outer->address_count && !found; o++)
			found = outer->addresses[o].bits <= in->bits &&
				cidr_contains(&outer->addresses[o], &in->base);
		if (!found)
			return false;
	}
	return true;
}

/** Limits in which @a goes beyond @b. */
static unsigned beyond(const struct rule *a, const struct rule *b)
{
	const uint64_t numbers[][2] = {
		[DIFF_REQ_BODY] = {a->req_body_bytes, b->req_body_bytes},
		[DIFF_RESP_BODY] = {a->resp_body_bytes, b->resp_body_bytes},
		[DIFF_EXPIRES] = {rule_entry_of(a)->expires_ms, rule_entry_of(b)->expires_ms},
	};
	unsigned bits = opens_all(b, a) ? 0 : 1u << DIFF_ADDR;
	for (unsigned i = 0; i < array_size(numbers); i++)
		bits |= numbers[i][0] > numbers[i][1] ? 1u << i : 0;
	return bits;
}

static char *describe(const struct policy_question *q)
{
	struct buf text = {.limit = 0};
	bool plain = q->scheme == POLICY_SCHEME_HTTP;
	(void)buf_printf(&text, "%.*s %s://%s", (int)q->method.len, q->method.ptr,
		plain ? "http" : "https", q->host->name);
	if (q->port != (plain ? 80 : 443))
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

static void decide(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret)
{
	if (p == NULL)
		*ret = (struct policy_verdict){.reason = REASON_DENY_DEFAULT};
	else
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
