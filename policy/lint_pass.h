/* Inside lint: what its parts share. lint_rule.c looks at one rule, lint_pair.c at two, lint.c at the whole. */
#ifndef ECLUSA_POLICY_LINT_PASS_H
#define ECLUSA_POLICY_LINT_PASS_H

#include "policy/lint.h"
#include "policy/profile.h"

#define LINT_SHOWN_BYTES 208

struct lint {
	const struct lint_options *options;
	struct policy_report *report;
	const struct profile *profile;
	uint64_t pair_count; /* compared so far, in all profiles */
};

/** How a finding names another rule: its id, and its place unless the id is one. @return to */
const char *lint_shown(const struct rule_entry *r, char to[static LINT_SHOWN_BYTES]);

void lint_rule(struct lint *l, const struct rule_entry *r);
/** What a rule comes to: not findings, so it waits until all those are there. */
void lint_rule_notes(struct lint *l, const struct rule_entry *r);
/** Compare a rule with those whose name is its own or above it. @return false when that got too much */
bool lint_pairs(struct lint *l, const struct rule_entry *r);

#endif
