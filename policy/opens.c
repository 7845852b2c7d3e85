/* Which rule opens an address for a host, whatever the request: asked when a tunnel is dialled, before there is one. */
#include "policy/profile.h"

static bool rule_opens(
	const struct rule_entry *r, const struct policy_question *q, const struct address *a)
{
	if (!r->rule.allow || q->now_ms >= r->expires_ms || !rule_has_port(r, q->port) ||
		!rule_has_scheme(r, q->port, q->scheme))
		return false;
	for (size_t i = 0; i < r->rule.address_count; i++) {
		if (cidr_contains(&r->rule.addresses[i], a))
			return reason_allows(policy_admit_address(&r->rule, a));
	}
	return false;
}

const struct rule *policy_rule_opening(
	const struct profile *p, const struct policy_question *q, const struct address *a)
{
	struct matcher_span spans[MATCHER_SPANS_MAX];
	const struct matcher *m = &p->matcher;
	size_t count = matcher_find(m, q->host, spans);
	for (size_t i = 0; i < count; i++) {
		for (uint32_t g = 0; g < spans[i].count; g++) {
			const struct matcher_group *group = &m->groups[spans[i].first + g];
			if (!pattern_covers(m->rules[group->first]->kind, spans[i].labels_before))
				continue;
			for (uint32_t r = group->first; r < group->first + group->count; r++) {
				if (rule_opens(m->rules[r], q, a))
					return &m->rules[r]->rule;
			}
		}
	}
	return NULL;
}

void policy_asked_by_address(const struct profile *p, policy_visit_prefix *visit, void *arg)
{
	for (size_t i = 0; i < p->rule_count; i++) {
		if (p->rules[i]->rule.allow && p->rules[i]->kind == PATTERN_ADDRESS)
			visit(&p->rules[i]->prefix, arg);
	}
}
