/* Comparing two verdicts on one request, and keeping one change for all requests that change alike. */
#ifndef ECLUSA_POLICY_DIFF_CHANGE_H
#define ECLUSA_POLICY_DIFF_CHANGE_H

#include "policy/diff.h"
#include "policy/profile.h"

/** Two profiles and what was found so far. */
struct diff_sides {
	const struct profile *profiles[2]; /* old, new; NULL: denies all */
	struct policy_diff *diff;
	size_t room; /* changes that fit */
};

/** Ask both sides; without a method, whether bytes may pass unread. @return 0 or -ENOMEM. */
int diff_ask(struct diff_sides *s, const struct policy_question *q);

#endif
