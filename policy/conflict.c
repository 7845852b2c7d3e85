/* See conflict.h. Input: rules that the compiler checked. */
#include "policy/conflict.h"

#include "policy/cover.h"

/** Whether TLS on some port of @range belongs to a rule. Beside 80, what is true of one port is true of all. */
static bool tls_within(const struct rule_entry *r, struct port_range range)
{
	return rule_has_scheme(r, range.first, POLICY_SCHEME_HTTPS) ||
		(range.last > range.first && rule_has_scheme(r, range.last, POLICY_SCHEME_HTTPS));
}

/** Whether a spliced port carries TLS that the other rule is about, too. */
static bool tls_meets(const struct rule_entry *splice, const struct rule_entry *other)
{
	static const struct port_range every = {1, 65535};
	size_t count = other->port_count == 0 ? 1 : other->port_count;
	for (size_t i = 0; i < splice->port_count; i++) {
		for (size_t j = 0; j < count; j++) {
			struct port_range a = splice->ports[i];
			struct port_range b = other->port_count == 0 ? every : other->ports[j];
			struct port_range both = {a.first > b.first ? a.first : b.first,
				a.last < b.last ? a.last : b.last};
			if (both.first <= both.last && tls_within(other, both))
				return true;
		}
	}
	return false;
}

/** Why two rules that allow can't stand beside one another, or NULL. */
static const char *allows_conflict(const struct rule_entry *r, const struct rule_entry *other)
{
	enum policy_transport left = r->rule.transport;
	enum policy_transport right = other->rule.transport;
	if (left == right)
		return NULL;
	if (left == POLICY_TCP || right == POLICY_TCP)
		return cover_connections_meet(r, other)
			? "raw bytes and HTTP can't share a host and port"
			: NULL;
	bool tied = cover_hosts_tie(r, other) &&
		(left == POLICY_SPLICE ? tls_meets(r, other) : tls_meets(other, r));
	return tied ? "one host and port is either spliced or inspected" : NULL;
}

/** A deny rule for some requests, where nobody would see them. On tcp there are none: HTTP is cut. */
static const char *deny_conflicts(const struct rule_entry *allow, const struct rule_entry *deny)
{
	bool whole = deny->method_count == 0 && deny->path_count == 0;
	if (allow->rule.transport != POLICY_SPLICE || whole || !cover_hosts_meet(allow, deny) ||
		!tls_meets(allow, deny))
		return NULL;
	return "splice passes what that deny rule's methods and paths would refuse";
}

static void check_pair(
	const struct rule_entry *r, const struct rule_entry *other, struct policy_report *report)
{
	const char *why = NULL;
	if (r->rule.allow && other->rule.allow)
		why = allows_conflict(r, other);
	else if (r->rule.allow != other->rule.allow)
		why = r->rule.allow ? deny_conflicts(r, other) : deny_conflicts(other, r);
	if (why == NULL)
		return;
	/* Blame the rule that reads nothing. */
	bool swap = !r->rule.allow || r->rule.transport == POLICY_INSPECT;
	const struct rule_entry *blamed = swap ? other : r;
	const struct rule_entry *beside = swap ? r : other;
	report_error(report, blamed->place, "transport", "%s: %.80s stands at %.80s:%u", why,
		beside->target, beside->rule.file, beside->rule.line);
}

static bool reads_all(const struct profile *p)
{
	for (size_t i = 0; i < p->rule_count; i++) {
		if (p->rules[i]->rule.transport != POLICY_INSPECT)
			return false;
	}
	return true;
}

/** All groups that may meet this one, of its own name or a wider one. Rules of a group share what is asked here. */
static void check_group(
	const struct matcher *m, const struct matcher_group *g, struct policy_report *report)
{
	struct matcher_span spans[MATCHER_SPANS_MAX];
	const struct rule_entry *r = m->rules[g->first];
	size_t count = matcher_find_rule(m, r, spans);
	for (size_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < spans[i].count; k++)
			check_pair(r, m->rules[m->groups[spans[i].first + k].first], report);
	}
}

void conflict_check(const struct profile *p, struct policy_report *report)
{
	const struct matcher *m = &p->matcher;
	if (reads_all(p))
		return;
	for (size_t first = 0, g = 0; first < p->rule_count; g++) {
		check_group(m, &m->groups[g], report);
		first += m->groups[g].count;
	}
}
