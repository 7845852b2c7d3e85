/* Judging expect lines: the tests that stand in policy text. */
#ifndef ECLUSA_POLICY_EXPECT_H
#define ECLUSA_POLICY_EXPECT_H

#include "policy/profile.h"
#include "policy/syntax.h"

/** Judge one expect line by @p; a wrong one is an error in @report. */
void expect_judge(const struct expect *e, struct place at, const struct profile *p,
	struct policy_report *report);

#endif
