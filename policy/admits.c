/*
 * Whether a host is within a policy at all, on whatever port. Asked by the process that signs certificates, about what a worker asks for, and
 * by the worker's DNS.
 */
#include "policy/profile.h"

/** A search over ports. */
struct ports {
	const struct profile *p;
	struct policy_question q;
	bool inspected;              /* only inspected TLS counts */
	struct policy_verdict *best; /* else: what says most of the host as a whole */
	bool asked;
};

/** How much a verdict says of the host as a whole. */
static int rank(enum reason reason)
{
	switch ((int)reason) {
	case REASON_ALLOW_RULE:
	case REASON_ALLOW_SPLICE:
		return 5;
	case REASON_OBSERVE_WOULD_DENY:
		return 4;
	case REASON_DENY_RULE:
		return 3;
	case REASON_DENY_EXPIRED:
		return 2;
	case REASON_DENY_PORT:
	case REASON_DENY_SCHEME:
		return 0;
	default:
		return 1;
	}
}

/** @return whether nothing better can be found. */
static bool ask(struct ports *s, enum policy_scheme scheme)
{
	struct policy_verdict verdict;
	s->q.scheme = scheme;
	policy_decide_host(s->p, &s->q, &verdict);
	if (!s->asked || rank(verdict.reason) > rank(s->best->reason))
		*s->best = verdict;
	s->asked = true;
	return rank(s->best->reason) == rank(REASON_ALLOW_RULE);
}

static bool admits_port(struct ports *s, unsigned port)
{
	struct policy_verdict verdict;
	if (port == 0 || port > 65535)
		return false;
	s->q.port = (uint16_t)port;
	if (s->inspected) {
		policy_decide_host(s->p, &s->q, &verdict);
		return reason_allows(verdict.reason) && verdict.rule->transport == POLICY_INSPECT;
	}
	return ask(s, POLICY_SCHEME_HTTPS) || ask(s, POLICY_SCHEME_HTTP);
}

/** The first port that is within a list, and those behind the end of one: answers change there and nowhere else. */
static bool admits_some_port(struct ports *s, const struct rule_entry *r)
{
	for (size_t i = 0; i < r->port_count; i++) {
		if (admits_port(s, r->ports[i].first) || admits_port(s, r->ports[i].last + 1u))
			return true;
	}
	return false;
}

/** The usual ports first; 1 and 81 begin what no list of ports begins. */
static bool search(struct ports *s)
{
	static const unsigned usual[] = {443, 1, 80, 81};
	struct matcher_span spans[MATCHER_SPANS_MAX];
	const struct matcher *m = &s->p->matcher;
	size_t count = matcher_find(m, s->q.host, spans);
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
		if (admits_port(s, usual[i]))
			return true;
	}
	for (size_t i = 0; i < count; i++) {
		for (uint32_t g = 0; g < spans[i].count; g++) {
			if (admits_some_port(s, m->rules[m->groups[spans[i].first + g].first]))
				return true;
		}
	}
	return false;
}

bool policy_admits_name(const struct policy *p, const struct host *host, uint64_t now_ms)
{
	struct ports s = {.q = {.host = host, .scheme = POLICY_SCHEME_HTTPS, .now_ms = now_ms},
		.inspected = true};
	for (size_t i = 0; i < p->profile_count; i++) {
		s.p = &p->profiles[i];
		if (search(&s))
			return true;
	}
	return false;
}

bool policy_has_below(const struct profile *p, const struct host *host)
{
	return host->kind == HOST_NAME && matcher_has_below(&p->matcher, slice_of(host->name));
}

void policy_admits_host(const struct profile *p, const struct host *host, uint64_t now_ms,
	struct policy_verdict *ret)
{
	struct ports s = {.p = p, .q = {.host = host, .now_ms = now_ms}, .best = ret};
	(void)search(&s);
}
