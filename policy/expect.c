/* See expect.h. */
#include "policy/expect.h"

#include "policy/ask.h"
#include "policy/rule.h"

void expect_judge(const struct expect *e, struct place at, const struct profile *p,
	struct policy_report *report)
{
	static const struct slice schemes[] = {{"https://", 8}, {"http://", 7}};
	struct policy_ask ask;
	struct policy_verdict v;
	size_t errors = report->errors;
	report->expects++;
	if (!slice_starts(e->url, schemes[0]) && !slice_starts(e->url, schemes[1])) {
		report_error(report, e->url_place, "url", "a URL starts with https:// or http://");
		report->expects_failed++;
		return;
	}
	policy_ask_init(&ask, e->method, e->url, e->at_ms);
	policy_ask_decide(p, &ask, &v);
	if (v.reason == REASON_ALLOW_RULE || v.reason == REASON_DENY_RULE)
		rule_entry_of(v.rule)->source->tested = true;
	const char *code = reason_code(v.reason);
	if (reason_allows(v.reason) != e->allow)
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
