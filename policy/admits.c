/* Whether a host is within a policy at all. Asked by the process that signs certificates, about what a worker asks for. */
#include "policy/profile.h"

static bool admits_port(const struct profile *p, struct policy_question *q, unsigned port)
{
	struct policy_verdict verdict;
	if (port == 0 || port > 65535)
		return false;
	q->port = (uint16_t)port;
	policy_decide_host(p, q, &verdict);
	return reason_allows(verdict.reason) && verdict.rule->transport == POLICY_INSPECT;
}

/** The first port that is within a list, and those behind the end of one: answers change there and nowhere else. */
static bool admits_some_port(
	const struct profile *p, struct policy_question *q, const struct rule_entry *r)
{
	for (size_t i = 0; i < r->port_count; i++) {
		if (admits_port(p, q, r->ports[i].first) ||
			admits_port(p, q, r->ports[i].last + 1u))
			return true;
	}
	return false;
}

/** The usual ports first; 1 and 81 begin what no list of ports begins. */
static bool profile_admits(const struct profile *p, struct policy_question q)
{
	struct matcher_span spans[MATCHER_SPANS_MAX];
	const struct matcher *m = &p->matcher;
	size_t count = matcher_find(m, q.host, spans);
	if (count == 0 && p->observer == NULL)
		return false;
	if (admits_port(p, &q, 443) || admits_port(p, &q, 1) || admits_port(p, &q, 80) ||
		admits_port(p, &q, 81))
		return true;
	for (size_t i = 0; i < count; i++) {
		for (uint32_t g = 0; g < spans[i].count; g++) {
			const struct rule_entry *r = m->rules[m->groups[spans[i].first + g].first];
			if (admits_some_port(p, &q, r))
				return true;
		}
	}
	return false;
}

bool policy_admits_name(const struct policy *p, const struct host *host, uint64_t now_ms)
{
	struct policy_question q = {.host = host, .scheme = POLICY_SCHEME_HTTPS, .now_ms = now_ms};
	for (size_t i = 0; i < p->profile_count; i++) {
		if (profile_admits(&p->profiles[i], q))
			return true;
	}
	return false;
}
