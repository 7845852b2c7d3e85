/* Effective rules as text in one spelling: nothing left to defaults, sections or use lines. One profile's text loads again, to the same digest. */
#ifndef ECLUSA_POLICY_CANONICAL_H
#define ECLUSA_POLICY_CANONICAL_H

#include "common/buf.h"
#include "policy/policy.h"

/** One rule. @text is owned by the list. */
struct canonical_line {
	const struct rule *rule; /* borrowed from the policy */
	char *text;
};

struct canonical_list {
	struct canonical_line *lines; /* in order of text, none twice */
	size_t count;
};

/** Append the rule, its verb first, without newline. @return 0, -ENOBUFS, -ENOMEM. */
int canonical_rule(const struct rule *rule, struct buf *to);
/** As canonical_rule(), without what only people read: id, owner, ticket. */
int canonical_effect(const struct rule *rule, struct buf *to);
/** Append " addr=..." where the rule opens addresses. Its failure is the buffer's. */
void canonical_addresses(const struct rule *rule, struct buf *to);
/** All rules of a profile, and its `set mode observe` as the line of the rule with id "observe". @return 0 or -ENOMEM. */
int canonical_list(const struct profile *p, struct canonical_list *ret);
void canonical_list_free(struct canonical_list *list);

/** "64m", "1000": bytes in the largest unit that says them exactly. */
int canonical_size(uint64_t bytes, struct buf *to);
/** YYYY-MM-DD: the last day before the moment that an expires= became. */
int canonical_date(uint64_t expires_ms, struct buf *to);

#endif
