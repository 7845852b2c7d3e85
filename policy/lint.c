/* See lint.h. Here is what needs the whole policy: the passes over it, groups, and requests that were seen. */
#include "policy/lint_pass.h"
#include "policy/syntax.h"

#include <stdio.h>

const char *lint_shown(const struct rule_entry *r, char to[static LINT_SHOWN_BYTES])
{
	char place[136];
	(void)snprintf(place, sizeof(place), "%.120s:%u", r->rule.file, r->rule.line);
	if (strcmp(place, r->rule.id) == 0)
		(void)snprintf(to, LINT_SHOWN_BYTES, "%s", place);
	else
		(void)snprintf(to, LINT_SHOWN_BYTES, "%.64s (%s)", r->rule.id, place);
	return to;
}

/** A group without rules holds expect lines: it is there to be judged, not to be used. */
static bool holds_rules(const struct section *group)
{
	for (const struct statement *st = group->statements.first; st != NULL; st = st->next) {
		if (st->kind != STATEMENT_EXPECT)
			return true;
	}
	return false;
}

static bool is_used(const struct policy *p, const struct section *group)
{
	for (const struct section *s = p->sections; s != NULL; s = s->next) {
		for (const struct statement *st = s->statements.first; st != NULL; st = st->next) {
			if (st->kind == STATEMENT_USE && strcmp(st->use->group, group->name) == 0)
				return true;
		}
	}
	return false;
}

/** Of a file of groups alone nobody expects that it uses them. */
static void lint_groups(struct lint *l, const struct policy *p)
{
	for (const struct section *s = p->sections; s != NULL && p->profile_count > 0;
		s = s->next) {
		if (!s->is_profile && holds_rules(s) && !is_used(p, s))
			report_warning(l->report, s->place, "unused-group",
				"no profile or group uses group %s: its rules allow and deny "
				"nothing",
				s->name);
	}
}

static void lint_profile(struct lint *l, const struct profile *p)
{
	bool more = true;
	l->profile = p;
	for (size_t i = 0; i < p->rule_count; i++) {
		lint_rule(l, p->rules[i]);
		more = more && lint_pairs(l, p->rules[i]);
	}
}

void lint_policy(
	const struct policy *p, const struct lint_options *options, struct policy_report *report)
{
	struct lint l = {.options = options, .report = report};
	for (size_t i = 0; i < p->profile_count; i++)
		lint_profile(&l, &p->profiles[i]);
	lint_groups(&l, p);
	for (size_t i = 0; i < p->profile_count; i++) {
		for (size_t j = 0; j < p->profiles[i].rule_count; j++)
			lint_rule_notes(&l, p->profiles[i].rules[j]);
	}
	report_sort(report, p->file_names, p->file_count);
}

/** Of a tunnel to be inspected the requests in it decide, one by one. */
static void observe_in(const struct profile *p, const struct policy_question *q, bool connect)
{
	struct policy_verdict v;
	if (connect)
		(void)policy_decide_tunnel(p, q, &v); /* of either scheme */
	else
		policy_decide_host(p, q, &v);
	if (v.reason == REASON_ALLOW_RULE && v.rule->transport == POLICY_INSPECT) {
		if (connect)
			return;
		policy_decide(p, q, &v);
	}
	if (v.reason == REASON_ALLOW_RULE || v.reason == REASON_ALLOW_SPLICE ||
		v.reason == REASON_DENY_RULE)
		rule_entry_of(v.rule)->source->tested = true;
}

void lint_observe(
	const struct policy *p, const char *profile, const struct policy_question *q, bool connect)
{
	struct policy_question enforced = *q;
	enforced.enforce = true; /* a rule that only observes did not decide */
	const struct profile *named = NULL;
	struct failure why = {0};
	if (profile != NULL && profile[0] != '\0' &&
		policy_profile(p, profile, &named, &why) == 0) {
		observe_in(named, &enforced, connect);
		return;
	}
	for (size_t i = 0; i < p->profile_count; i++)
		observe_in(&p->profiles[i], &enforced, connect);
}
