/* What loads and yet deserves a look: rules that never decide, contradict one another, end soon or open more than they say. */
#ifndef ECLUSA_POLICY_LINT_H
#define ECLUSA_POLICY_LINT_H

#include "policy/policy.h"

#define LINT_SOON_DAYS 14

struct lint_options {
	uint64_t now_ms; /* wall clock */
	bool strict;     /* an expired rule is an error */
	bool observed;   /* requests were shown to lint_observe(): every rule has to be hit */
};

/**
 * Look at every profile of a compiled policy and add to the report that its compilation left. Items come in
 * order of place again. Errors: equal-specificity, and expired when strict. Warnings: unreachable, shadowed,
 * expired, expires-soon, untested, unused-group, shared-hosting, splice-hosting, exfiltration, plain-http, up-budget,
 * deny-path, lint-limit (too many pairs of rules of one name to compare them all). Notes: wildcard, observe.
 */
void lint_policy(
	const struct policy *p, const struct lint_options *options, struct policy_report *report);

/**
 * A request that was seen, or a tunnel (@connect): the rule that decides it in @profile (NULL or unknown: in each) counts as
 * hit. Before lint_policy().
 */
void lint_observe(
	const struct policy *p, const char *profile, const struct policy_question *q, bool connect);

#endif
