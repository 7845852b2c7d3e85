/* Why a request gets its verdict: the rules that nearly decided otherwise, and the smallest edit that would allow it. */
#ifndef ECLUSA_POLICY_EXPLAIN_H
#define ECLUSA_POLICY_EXPLAIN_H

#include "policy/ask.h"

#define EXPLAIN_MISSES_MAX 8

/** What of a request lies outside of a rule; also bits, 1 << difference. */
enum explain_difference {
	EXPLAIN_HOST,
	EXPLAIN_PORT,
	EXPLAIN_SCHEME,
	EXPLAIN_METHOD,
	EXPLAIN_PATH,
	EXPLAIN_ENCODED_SLASH,
	EXPLAIN_QUERY,
	EXPLAIN_EXPIRED,
	EXPLAIN_DIFFERENCE_COUNT
};

/** An allow rule that does not admit the request. Borrowed from the policy. */
struct explain_miss {
	const struct rule *rule;
	unsigned differs; /* not 0 */
};

enum explain_edit {
	EXPLAIN_EDIT_NONE,   /* allowed already, or no rule can allow it; @why says which */
	EXPLAIN_EDIT_ADD,    /* add @rule_text to the profile */
	EXPLAIN_EDIT_CHANGE, /* change @at as @why says */
	EXPLAIN_EDIT_REMOVE, /* remove or narrow the deny rule @at; then add @rule_text unless empty */
};

#define EXPLAIN_RULE_BYTES 1536 /* a host, a path of a rule, and words */

struct explanation {
	struct policy_verdict verdict;
	struct policy_verdict
		enforced; /* the same unless something observes; the edit is about this one */
	struct explain_miss misses[EXPLAIN_MISSES_MAX]; /* fewest differences first */
	size_t miss_count;
	enum explain_edit edit;
	const struct rule *at;
	const char *why;
	char rule_text[EXPLAIN_RULE_BYTES]; /* as --allow takes it; printable ASCII */
};

/** "host", "port", ... */
const char *explain_difference_name(enum explain_difference d);
/** @return 0 or -ENOMEM. */
int policy_explain(const struct profile *p, const struct policy_ask *ask, struct explanation *ret);

#endif
