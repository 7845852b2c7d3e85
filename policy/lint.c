/* See lint.h. */
#include "policy/lint.h"

#include "policy/cover.h"
#include "policy/profile.h"
#include "policy/suffix.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define DAY_MS           UINT64_C(86400000)
#define PAIRS_MAX        UINT64_C(20000000) /* of a policy: about a second */
#define BODY_BYTES_LARGE (UINT64_C(1) << 20)
#define SHOWN_BYTES      208
#define DATE_BYTES       16

struct lint {
	const struct lint_options *options;
	struct policy_report *report;
	const struct profile *profile;
	uint64_t pair_count;
};

/** How a finding names another rule: its id, and its place unless the id is one. */
static const char *shown(const struct rule_entry *r, char to[static SHOWN_BYTES])
{
	char place[136];
	(void)snprintf(place, sizeof(place), "%.120s:%u", r->rule.file, r->rule.line);
	if (strcmp(place, r->rule.id) == 0)
		(void)snprintf(to, SHOWN_BYTES, "%s", place);
	else
		(void)snprintf(to, SHOWN_BYTES, "%.64s (%s)", r->rule.id, place);
	return to;
}

/** The last day on which the rule holds. */
static char *format_day(uint64_t expires_ms, char to[static DATE_BYTES])
{
	time_t seconds = (time_t)((expires_ms - 1) / 1000);
	struct tm day;
	if (expires_ms == 0 || gmtime_r(&seconds, &day) == NULL ||
		strftime(to, DATE_BYTES, "%Y-%m-%d", &day) == 0)
		to[0] = '\0';
	return to;
}

static void check_expiry(struct lint *l, const struct rule_entry *r)
{
	char day[DATE_BYTES];
	uint64_t now_ms = l->options->now_ms;
	if (!r->rule.allow || r->expires_ms == RULE_NEVER_MS)
		return;
	(void)format_day(r->expires_ms, day);
	if (now_ms >= r->expires_ms && l->options->strict)
		report_error(l->report, r->place, "expired",
			"this rule ended with %s in profile %s and matches nothing", day,
			l->profile->name);
	else if (now_ms >= r->expires_ms)
		report_warning(l->report, r->place, "expired",
			"this rule ended with %s in profile %s and matches nothing", day,
			l->profile->name);
	else if (r->expires_ms - now_ms < LINT_SOON_DAYS * DAY_MS)
		report_warning(l->report, r->place, "expires-soon",
			"this rule ends with %s in profile %s, in less than %d days", day,
			l->profile->name, LINT_SOON_DAYS);
}

/** The shared host at or above the name, or NULL. */
static const char *shared_host(struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		/* names end in the NUL that arena_dup() put there */
		if ((i == 0 || name.ptr[i - 1] == '.') &&
			suffix_classify(name.ptr + i) == SUFFIX_HOSTING)
			return name.ptr + i;
	}
	return NULL;
}

static bool writes(const struct rule_entry *r)
{
	return rule_has_method(r, SLICE("POST")) || rule_has_method(r, SLICE("PUT")) ||
		rule_has_method(r, SLICE("PATCH"));
}

static void check_hosting(struct lint *l, const struct rule_entry *r)
{
	const char *shared = r->rule.allow ? shared_host(r->name) : NULL;
	if (shared == NULL)
		return;
	if (r->kind != PATTERN_EXACT && shared == r->name.ptr)
		report_warning(l->report, r->place, "shared-hosting",
			"names below '%.100s' belong to customers of one company (private part of "
			"the public suffix list); better name the hosts",
			shared);
	if (writes(r) && r->rule.req_body_bytes > BODY_BYTES_LARGE)
		report_warning(l->report, r->place, "exfiltration",
			"up to %" PRIu64
			" bytes a request may be sent to a host of '%.100s', where "
			"anybody may rent one",
			r->rule.req_body_bytes, shared);
}

static bool same_addresses(const struct rule *a, const struct rule *b)
{
	for (size_t i = 0; i < a->address_count && a->address_count == b->address_count; i++) {
		if (!address_equal(&a->addresses[i].base, &b->addresses[i].base) ||
			a->addresses[i].bits != b->addresses[i].bits)
			return false;
	}
	return a->address_count == b->address_count;
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
	return same_addresses(a, b) ? NULL : "addr";
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
	char text[SHOWN_BYTES];
	if (!comes_later(r, other)) /* each pair once */
		return;
	const char *limit = differing_limit(&r->rule, &other->rule);
	if (limit != NULL && cover_ties(r, other)) {
		report_error(l->report, r->place, "equal-specificity",
			"as specific as %s for some requests, with another %s=; make one of them "
			"more specific, or their limits the same",
			shown(other, text), limit);
	} else if (limit == NULL && r->kind == other->kind && same_paths(r, other) &&
		r->method_count == other->method_count && r->expires_ms <= other->expires_ms &&
		cover_rule(other, r)) {
		report_warning(l->report, r->place, "shadowed",
			"%s allows all of this in the same way", shown(other, text));
	}
}

static void check_denied(struct lint *l, const struct rule_entry *r, const struct rule_entry *deny)
{
	char text[SHOWN_BYTES];
	if (!cover_rule(deny, r))
		return;
	if (r->rule.allow)
		report_warning(l->report, r->place, "unreachable",
			"never decides: %s denies all that this rule allows", shown(deny, text));
	else if (comes_later(r, deny) || !cover_rule(r, deny))
		report_warning(l->report, r->place, "shadowed", "%s denies all of this already",
			shown(deny, text));
}

static void check_pair(struct lint *l, const struct rule_entry *r, const struct rule_entry *other)
{
	if (matcher_compare_places(r, other) == 0) /* itself, or its copy by another use line */
		return;
	if (!other->rule.allow)
		check_denied(l, r, other);
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

/** Compare a rule with those whose name is its own or above it. */
static bool check_others(struct lint *l, const struct rule_entry *r)
{
	struct matcher_span spans[MATCHER_SPANS_MAX];
	const struct matcher *m = &l->profile->matcher;
	size_t count = matcher_find(m, r->name, spans);
	for (size_t i = 0; i < count; i++) {
		for (uint32_t g = 0; g < spans[i].count; g++) {
			const struct matcher_group *group = &m->groups[spans[i].first + g];
			bool allow = m->rules[group->first]->rule.allow;
			bool relevant = !allow || (r->rule.allow && spans[i].labels_before == 0);
			if (relevant && !check_group(l, r, group))
				return false;
		}
	}
	return true;
}

static void lint_profile(struct lint *l, const struct profile *p)
{
	bool more = true;
	l->profile = p;
	for (size_t i = 0; i < p->rule_count; i++) {
		check_expiry(l, p->rules[i]);
		check_hosting(l, p->rules[i]);
		more = more && check_others(l, p->rules[i]);
	}
}

void lint_policy(
	const struct policy *p, const struct lint_options *options, struct policy_report *report)
{
	struct lint l = {.options = options, .report = report};
	for (size_t i = 0; i < p->profile_count; i++)
		lint_profile(&l, &p->profiles[i]);
	report_sort(report, p->file_names, p->file_count);
}
