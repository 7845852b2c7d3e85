/* Two rules of one profile, and how they stand to one another. See lint.h. Input: rules that the compiler checked. */
#include "policy/cover.h"
#include "policy/lint_pass.h"

#include "common/cleanup.h"

#include <assert.h>
#include <stddef.h>

#define PAIRS_MAX UINT64_C(20000000) /* of a policy: about a second */

static bool same_addresses(const struct rule *a, const struct rule *b)
{
	for (size_t i = 0; i < a->address_count && a->address_count == b->address_count; i++) {
		if (!address_equal(&a->addresses[i].base, &b->addresses[i].base) ||
			a->addresses[i].bits != b->addresses[i].bits)
			return false;
	}
	return a->address_count == b->address_count;
}

static bool same_headers(const struct rule *a, const struct rule *b)
{
	for (size_t i = 0; i < a->header_deny_count && a->header_deny_count == b->header_deny_count;
		i++) {
		if (!slice_equal(a->header_deny[i], b->header_deny[i]))
			return false;
	}
	return a->header_deny_count == b->header_deny_count;
}

static const char *differing_budget(const struct rule_budget *a, const struct rule_budget *b)
{
	static const struct {
		size_t offset;
		const char *key;
	} numbers[] = {
		{offsetof(struct rule_budget, up_bytes), "up"},
		{offsetof(struct rule_budget, down_bytes), "down"},
		{offsetof(struct rule_budget, requests), "requests"},
		{offsetof(struct rule_budget, window_ms), "window"},
		{offsetof(struct rule_budget, max_uses), "max-uses"},
		{offsetof(struct rule_budget, rate_uses), "rate"},
		{offsetof(struct rule_budget, rate_ms), "rate"},
		{offsetof(struct rule_budget, connections), "conns"},
		{offsetof(struct rule_budget, time_ms), "time"},
	};
	static_assert(array_size(numbers) * sizeof(uint64_t) == sizeof(struct rule_budget),
		"a key for every number");
	for (size_t i = 0; i < array_size(numbers); i++) {
		const char *left = (const char *)a + numbers[i].offset;
		if (memcmp(left, (const char *)b + numbers[i].offset, sizeof(uint64_t)) != 0)
			return numbers[i].key;
	}
	return NULL;
}

/** The first limit in which two rules differ, or NULL. */
static const char *differing_limit(const struct rule *a, const struct rule *b)
{
	if (a->req_body_bytes != b->req_body_bytes)
		return "req-body";
	if (a->resp_body_bytes != b->resp_body_bytes)
		return "resp-body";
	if (a->query_denied != b->query_denied)
		return "query";
	if (a->encoded_slash != b->encoded_slash)
		return "enc-slash";
	if (!same_addresses(a, b))
		return "addr";
	if (a->transport != b->transport)
		return "tls";
	if (a->observe != b->observe)
		return "mode";
	if (a->websocket != b->websocket)
		return "upgrade";
	return same_headers(a, b) ? differing_budget(&a->budget, &b->budget) : "header-deny";
}

static bool same_paths(const struct rule_entry *a, const struct rule_entry *b)
{
	for (size_t i = 0; i < a->path_count && a->path_count == b->path_count; i++) {
		if (!slice_equal(a->paths[i], b->paths[i]))
			return false;
	}
	return a->path_count == b->path_count;
}

/** Of two rules that say the same, the later one is the one to remove. */
static bool comes_later(const struct rule_entry *r, const struct rule_entry *other)
{
	return matcher_compare_places(r, other) > 0;
}

static void check_allows(struct lint *l, const struct rule_entry *r, const struct rule_entry *other)
{
	char text[LINT_SHOWN_BYTES];
	if (!comes_later(r, other)) /* each pair once */
		return;
	const char *limit = differing_limit(&r->rule, &other->rule);
	if (limit != NULL && cover_ties(r, other)) {
		report_error(l->report, r->place, "equal-specificity",
			"as specific as %s for some requests, with another %s=; make one of them "
			"more specific, or their limits the same",
			lint_shown(other, text), limit);
	} else if (limit == NULL && r->kind == other->kind && same_paths(r, other) &&
		r->method_count == other->method_count && r->expires_ms <= other->expires_ms &&
		cover_rule(other, r)) {
		report_warning(l->report, r->place, "shadowed",
			"%s allows all of this in the same way", lint_shown(other, text));
	}
}

/** What the tunnel's host and port already decide: of the requests inside, this deny rule sees nothing. */
static bool denies_whole(const struct rule_entry *deny)
{
	return deny->method_count == 0 && deny->path_count == 0;
}

static void check_denied(struct lint *l, const struct rule_entry *r, const struct rule_entry *deny)
{
	char text[LINT_SHOWN_BYTES];
	bool unseen = r->rule.transport != POLICY_INSPECT && !denies_whole(deny);
	if (unseen || !cover_rule(deny, r))
		return;
	if (r->rule.allow)
		report_warning(l->report, r->place, "unreachable",
			"never decides: %s denies all that this rule allows",
			lint_shown(deny, text));
	else if (comes_later(r, deny) || !cover_rule(r, deny))
		report_warning(l->report, r->place, "shadowed", "%s denies all of this already",
			lint_shown(deny, text));
}

/** A deny rule that takes a part of what an allow rule names. */
static void check_part(
	struct lint *l, const struct rule_entry *allow, const struct rule_entry *deny)
{
	char text[LINT_SHOWN_BYTES];
	if (denies_whole(deny) || !cover_connections_meet(allow, deny))
		return;
	if (allow->rule.transport == POLICY_INSPECT && deny->path_count > 0 &&
		cover_requests_meet(allow, deny) && !cover_rule(deny, allow))
		report_warning(l->report, deny->place, "deny-path",
			"only this deny path protects within what %s allows; the server may read another "
			"spelling as the same path; allow what is needed instead",
			lint_shown(allow, text));
}

static void check_pair(struct lint *l, const struct rule_entry *r, const struct rule_entry *other)
{
	if (matcher_compare_places(r, other) == 0) /* itself, or its copy by another use line */
		return;
	if (!other->rule.allow)
		check_denied(l, r, other);
	if (r->rule.allow != other->rule.allow)
		check_part(l, r->rule.allow ? r : other, r->rule.allow ? other : r);
	else if (r->rule.allow && slice_equal(r->name, other->name))
		check_allows(l, r, other);
}

static bool check_group(struct lint *l, const struct rule_entry *r, const struct matcher_group *g)
{
	const struct matcher *m = &l->profile->matcher;
	for (uint32_t i = g->first; i < g->first + g->count; i++) {
		if (l->pair_count++ == PAIRS_MAX)
			report_warning(l->report, r->place, "lint-limit",
				"too many rules of one name: from here on rules are not compared "
				"with one another");
		if (l->pair_count > PAIRS_MAX)
			return false;
		check_pair(l, r, m->rules[i]);
	}
	return true;
}

/** Whether a rule has to do with allow rules whose name stands @labels_before labels above its own. */
static bool minds_allows(const struct rule_entry *r, uint32_t labels_before)
{
	return r->rule.allow ? labels_before == 0 : !denies_whole(r);
}

bool lint_pairs(struct lint *l, const struct rule_entry *r)
{
	struct matcher_span spans[MATCHER_SPANS_MAX];
	const struct matcher *m = &l->profile->matcher;
	size_t count = matcher_find_rule(m, r, spans);
	for (size_t i = 0; i < count; i++) {
		for (uint32_t g = 0; g < spans[i].count; g++) {
			const struct matcher_group *group = &m->groups[spans[i].first + g];
			bool allow = m->rules[group->first]->rule.allow;
			bool relevant = !allow || minds_allows(r, spans[i].labels_before);
			if (relevant && !check_group(l, r, group))
				return false;
		}
	}
	return true;
}
