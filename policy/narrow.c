/* See narrow.h. A rule that changes is copied first: the group's own stays as it was written. */
#include "policy/narrow.h"

#include "policy/value.h"

#include "common/cleanup.h"

#include <stdio.h>
#include <stdlib.h>

struct narrowing {
	struct resolver *resolver;
	size_t from;
	const struct use *use;
};

static void report_widening(const struct narrowing *n, enum attribute_key key, const char *text)
{
	report_error(n->resolver->tree->report, n->use->narrow.places[key], "widens",
		"%s of group %s; use only narrows", text, n->use->group);
}

/** Rule @i if @change may be made to it: an allow rule; NULL: it denies. */
static const struct rule_entry *allow_rule(const struct narrowing *n, size_t i)
{
	const struct rule_entry *r = n->resolver->rules[i];
	return r->rule.allow ? r : NULL;
}

static void report_limit(const struct narrowing *n, enum limit limit, bool any, uint64_t highest)
{
	char said[160];
	struct buf wanted = {.limit = 0};
	struct buf most = {.limit = 0};
	limit_write(limit, n->use->narrow.limits[limit], &wanted);
	if (limit == LIMIT_WINDOW && highest == 0)
		(void)buf_append_text(&most, "the sandbox's life, which is the window");
	else
		limit_write(limit, highest, &most);
	struct slice w = buf_slice(&wanted);
	struct slice m = buf_slice(&most);
	if (any)
		(void)snprintf(said, sizeof(said), "%s=%.*s is beyond %.*s, the most that a rule",
			limit_name(limit), (int)w.len, w.ptr, (int)m.len, m.ptr);
	else
		(void)snprintf(
			said, sizeof(said), "%s= has no meaning on the rules", limit_name(limit));
	report_widening(n, attribute_of_limit(limit), said);
	buf_fini(&wanted);
	buf_fini(&most);
}

/** Lower what is above the wanted value; if even the highest is below it, the line says something wrong. */
static void narrow_limit(const struct narrowing *n, enum limit limit)
{
	uint64_t wanted = n->use->narrow.limits[limit];
	uint64_t highest = 0;
	bool any = false;
	for (size_t i = n->from; i < n->resolver->rule_count; i++) {
		const struct rule_entry *r = allow_rule(n, i);
		if (r == NULL || !limit_applies(r, limit))
			continue;
		uint64_t value = limit_get(r, limit);
		highest = value > highest ? value : highest;
		any = true;
		struct rule_entry *own = value > wanted ? resolver_own_rule(n->resolver, i) : NULL;
		if (own != NULL)
			limit_set(own, limit, wanted);
	}
	if (wanted > highest || !any)
		report_limit(n, limit, any, highest);
}

/** Rates have no one order: of 60/m and 2/s neither lies within the other. */
static void narrow_rate(const struct narrowing *n)
{
	const struct attributes *a = &n->use->narrow;
	struct rule_budget wanted = {.rate_uses = a->rate_uses, .rate_ms = a->rate_ms};
	bool narrows = false;
	for (size_t i = n->from; i < n->resolver->rule_count; i++) {
		const struct rule_entry *r = allow_rule(n, i);
		if (r == NULL)
			continue;
		if (!limit_rate_within(&wanted, &r->rule.budget)) {
			if (!limit_rate_within(&r->rule.budget, &wanted)) {
				report_widening(n, ATTRIBUTE_RATE,
					"rate= allows more at once, or in the long run, than a rule");
				return;
			}
			continue;
		}
		narrows = true;
		struct rule_entry *own = resolver_own_rule(n->resolver, i);
		if (own == NULL)
			return;
		own->rule.budget.rate_uses = wanted.rate_uses;
		own->rule.budget.rate_ms = wanted.rate_ms;
	}
	if (!narrows)
		report_widening(n, ATTRIBUTE_RATE, "rate= is beyond that of every rule");
}

/** Both lists as one, sorted; NULL when out of memory. */
static const struct slice *join_fields(
	struct arena *arena, const struct rule *rule, const struct attributes *a, size_t *ret_count)
{
	size_t count = 0;
	struct slice *list =
		arena_alloc(arena, rule->header_deny_count + a->header_deny_count, sizeof(*list));
	if (list == NULL)
		return NULL;
	for (size_t i = 0; i < rule->header_deny_count; i++)
		list[count++] = rule->header_deny[i];
	for (size_t i = 0; i < a->header_deny_count; i++) {
		bool known = false;
		for (size_t k = 0; k < rule->header_deny_count; k++)
			known = known || slice_equal(list[k], a->header_deny[i]);
		if (!known)
			list[count++] = a->header_deny[i];
	}
	qsort(list, count, sizeof(*list), value_compare_slices);
	*ret_count = count;
	return list;
}

static void narrow_header_deny(const struct narrowing *n)
{
	for (size_t i = n->from; i < n->resolver->rule_count; i++) {
		const struct rule_entry *r = allow_rule(n, i);
		if (r == NULL || r->rule.transport != POLICY_INSPECT)
			continue;
		size_t count = 0;
		const struct slice *list =
			join_fields(n->resolver->tree->arena, &r->rule, &n->use->narrow, &count);
		struct rule_entry *own = list == NULL ? NULL : resolver_own_rule(n->resolver, i);
		if (own == NULL)
			return; /* the arena's failure is seen at the end */
		own->rule.header_deny = list;
		own->rule.header_deny_count = count;
	}
}

enum flag { FLAG_QUERY, FLAG_MODE, FLAG_UPGRADE };

static void set_flag(struct rule *rule, enum flag flag)
{
	switch (flag) {
	case FLAG_QUERY:
		rule->query_denied = true;
		break;
	case FLAG_MODE:
		rule->observe = false;
		break;
	case FLAG_UPGRADE:
		rule->websocket = false;
		break;
	}
}

/** One of two values; @wide: the use line has the one that allows more. */
static void narrow_flag(
	const struct narrowing *n, enum attribute_key key, enum flag flag, const char *wide)
{
	if (!attribute_given(n->use->narrow.given, key))
		return;
	if (wide != NULL) {
		report_widening(n, key, wide);
		return;
	}
	for (size_t i = n->from; i < n->resolver->rule_count; i++) {
		const struct rule_entry *r = allow_rule(n, i);
		if (r == NULL || (flag == FLAG_QUERY && r->rule.transport != POLICY_INSPECT))
			continue;
		struct rule_entry *own = resolver_own_rule(n->resolver, i);
		if (own != NULL)
			set_flag(&own->rule, flag);
	}
}

/** Of rules that pass bytes unread nobody sees what these words are about: said once, since the line looks as if it held for all. */
static void warn_unread(const struct narrowing *n, enum attribute_key key, const char *word)
{
	const struct rule *first = NULL;
	size_t count = 0;
	for (size_t i = n->from; i < n->resolver->rule_count; i++) {
		const struct rule_entry *r = allow_rule(n, i);
		if (r == NULL || r->rule.transport == POLICY_INSPECT)
			continue;
		first = first == NULL ? &r->rule : first;
		count++;
	}
	if (first != NULL)
		report_warning(n->resolver->tree->report, n->use->narrow.places[key], "unread",
			"%s= narrows nothing of %zu rule%s of group %s that pass%s bytes unread "
			"(%.100s:%u)",
			word, count, count == 1 ? "" : "s", n->use->group, count == 1 ? "es" : "",
			first->file, first->line);
}

/** What requests and responses have, and bytes have not. */
static void warn_of_unread(const struct narrowing *n)
{
	static const struct {
		enum attribute_key key;
		const char *word;
	} words[] = {{ATTRIBUTE_HEADER_DENY, "header-deny"}, {ATTRIBUTE_QUERY, "query"},
		{ATTRIBUTE_REQ_BODY, "req-body"}, {ATTRIBUTE_RESP_BODY, "resp-body"}};
	for (size_t i = 0; i < array_size(words); i++) {
		if (attribute_given(n->use->narrow.given, words[i].key))
			warn_unread(n, words[i].key, words[i].word);
	}
}

void narrow_rules(struct resolver *r, size_t from, const struct use *use)
{
	const struct attributes *a = &use->narrow;
	const struct narrowing n = {r, from, use};
	for (enum limit l = 0; l < LIMIT_COUNT; l++) {
		if (attribute_given(a->given, attribute_of_limit(l)))
			narrow_limit(&n, l);
	}
	if (attribute_given(a->given, ATTRIBUTE_RATE))
		narrow_rate(&n);
	if (attribute_given(a->given, ATTRIBUTE_HEADER_DENY))
		narrow_header_deny(&n);
	narrow_flag(&n, ATTRIBUTE_QUERY, FLAG_QUERY,
		a->query_denied ? NULL : "query=allow would widen the rules");
	narrow_flag(&n, ATTRIBUTE_MODE, FLAG_MODE,
		a->observe ? "mode=observe would widen the rules" : NULL);
	narrow_flag(&n, ATTRIBUTE_UPGRADE, FLAG_UPGRADE,
		a->websocket ? "upgrade=websocket would widen the rules" : NULL);
	warn_of_unread(&n);
}
