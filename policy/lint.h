/* What loads and yet deserves a look: rules that never decide, contradict one another, or end soon. */
#ifndef ECLUSA_POLICY_LINT_H
#define ECLUSA_POLICY_LINT_H

#include "policy/policy.h"

#define LINT_SOON_DAYS 14

struct lint_options {
	uint64_t now_ms; /* wall clock */
	bool strict;     /* an expired rule is an error */
};

/**
 * Look at every profile of a compiled policy and add to the report that its compilation left. Codes:
 * unreachable, shadowed, expired, expires-soon, shared-hosting, exfiltration (warnings), equal-specificity
 * (error), lint-limit (too many pairs of rules of one name to compare them all). Items come in order of
 * place again.
 */
void lint_policy(
	const struct policy *p, const struct lint_options *options, struct policy_report *report);

#endif
