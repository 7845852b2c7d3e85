/* See expect.h. */
#include "policy/expect.h"

#include "policy/ask.h"
#include "policy/profile.h"

/** CONNECT takes host:port, every other method a URL. */
static bool target_shaped(const struct expect *e)
{
	static const struct slice schemes[] = {{"https://", 8}, {"http://", 7}};
	return slice_equal(e->method, SLICE("CONNECT")) || slice_starts(e->url, schemes[0]) ||
		slice_starts(e->url, schemes[1]);
}

/** A class of addresses says no before a deny rule is asked: the line tests such a rule as well. */
static void mark_denied_address(const struct profile *p, const struct host *host)
{
	for (size_t i = 0; i < p->rule_count; i++) {
		if (!p->rules[i]->rule.allow && rule_covers_host(p->rules[i], host))
			p->rules[i]->source->tested = true;
	}
}

/**
 * What the rules say once they are enforced, so that the day on which observing ends changes no test. Only a line
 * that asks for it learns what observing makes of a denial.
 */
static void ask_rules(const struct expect *e, const struct profile *p, struct policy_ask *ask,
	struct policy_verdict *ret)
{
	policy_ask_init(ask, e->method, e->url, e->at_ms);
	if (e->code != NULL && strcmp(e->code, reason_code(REASON_OBSERVE_WOULD_DENY)) == 0)
		policy_ask_decide(p, ask, ret);
	else
		policy_ask_enforce(p, ask, ret);
	if (ret->reason == REASON_DENY_ADDRESS_METADATA ||
		ret->reason == REASON_DENY_ADDRESS_PRIVATE)
		mark_denied_address(p, &ask->host);
}

static bool allows(enum reason reason)
{
	return reason_allows(reason) && reason != REASON_OBSERVE_WOULD_DENY;
}

static bool has_lower_case(struct slice method)
{
	for (size_t i = 0; i < method.len; i++) {
		if (method.ptr[i] >= 'a' && method.ptr[i] <= 'z')
			return true;
	}
	return false;
}

/** A slip of the pen is denied by every policy: a line that only says "deny" would pass for ever, and say nothing of the rules. */
static void warn_vacuous(const struct expect *e, struct place at, const struct policy_ask *ask,
	struct policy_report *report)
{
	bool refused = ask->refused != REASON_ALLOW_RULE || ask->path_refused != REASON_ALLOW_RULE;
	if (e->allow || e->code != NULL || e->by != NULL)
		return;
	if (refused)
		report_warning(report, at, "vacuous",
			"this is no valid request, and denied whatever the rules say: %s; code= says "
			"that it is meant",
			ask->why);
	else if (has_lower_case(e->method))
		report_warning(report, at, "vacuous",
			"methods are written in upper case; code= says that another one is meant");
}

void expect_judge(const struct expect *e, struct place at, const struct profile *p,
	struct policy_report *report)
{
	struct policy_verdict v;
	struct policy_ask ask;
	size_t errors = report->errors;
	report->expects++;
	if (!target_shaped(e)) {
		report_error(report, e->url_place, "url", "a URL starts with https:// or http://");
		report->expects_failed++;
		return;
	}
	ask_rules(e, p, &ask, &v);
	warn_vacuous(e, at, &ask, report);
	if (v.rule != NULL && (allows(v.reason) || v.reason == REASON_DENY_RULE))
		rule_entry_of(v.rule)->source->tested = true;
	const char *code = reason_code(v.reason);
	if (allows(v.reason) != e->allow)
		report_error(report, at, "expect", "expected %s, got %s%s%s",
			e->allow ? "allow" : "deny", code, v.detail[0] == '\0' ? "" : ": ",
			v.detail);
	else if (e->code != NULL && strcmp(e->code, code) != 0)
		report_error(
			report, at, "expect", "expected %s, got %s: %s", e->code, code, v.detail);
	else if (e->by != NULL && (v.rule == NULL || strcmp(e->by, v.rule->id) != 0))
		report_error(report, at, "expect", "expected it by=%s, but by %s it is %s", e->by,
			v.rule == NULL ? "no rule" : v.rule->id, code);
	report->expects_failed += report->errors > errors;
}
