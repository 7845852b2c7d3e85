/* Whether a name is within a policy at all. Asked by the process that signs certificates, about what a worker asks for. */
#include "policy/profile.h"

/** Whether the profile lets TLS to this host begin on some port that this allow rule names. */
static bool rule_admits(
	const struct profile *p, const struct rule_entry *r, struct policy_question q)
{
	static const struct port_range any = {443, 443};
	const struct port_range *ports = r->port_count > 0 ? r->ports : &any;
	size_t count = r->port_count > 0 ? r->port_count : 1;
	for (size_t i = 0; i < 2 * count; i++) {
		struct policy_verdict verdict;
		q.port = i % 2 == 0 ? ports[i / 2].first : ports[i / 2].last;
		policy_decide_host(p, &q, &verdict);
		if (reason_allows(verdict.reason))
			return true;
	}
	return false;
}

/** Each group of rules that covers the name, once: its rules share ports. */
static bool profile_admits(const struct profile *p, const struct policy_question *q)
{
	struct matcher_span spans[MATCHER_SPANS_MAX];
	const struct matcher *m = &p->matcher;
	size_t count = matcher_find(m, slice_of(q->host->name), spans);
	for (size_t i = 0; i < count; i++) {
		for (uint32_t g = 0; g < spans[i].count; g++) {
			const struct rule_entry *r = m->rules[m->groups[spans[i].first + g].first];
			if (r->rule.allow && pattern_covers(r->kind, spans[i].labels_before) &&
				rule_admits(p, r, *q))
				return true;
		}
	}
	return false;
}

bool policy_admits_name(const struct policy *p, const struct host *host, uint64_t now_ms)
{
	struct policy_question q = {.host = host, .scheme = POLICY_SCHEME_HTTPS, .now_ms = now_ms};
	if (host->kind != HOST_NAME)
		return false;
	for (size_t i = 0; i < p->profile_count; i++) {
		if (profile_admits(&p->profiles[i], &q))
			return true;
	}
	return false;
}
