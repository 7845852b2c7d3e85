/* The rules of one place: which patterns go together, and the rule's text. See suggest.h. */
#ifndef ECLUSA_CLI_SUGGEST_RULE_H
#define ECLUSA_CLI_SUGGEST_RULE_H

#include "cli/suggest.h"
#include "policy/value.h"

#define SUGGEST_RULE_PATHS 16

/** Requests [from, to) of one pattern, which are in the text, and what their rule has to say. */
struct suggest_leaf {
	size_t from, to;
	struct slice methods[VALUE_LIST_MAX]; /* in order, none twice */
	size_t method_count;
	bool query, encoded_slash, websocket;
	bool taken; /* by a rule */
	uint64_t count, first_ms;
	uint64_t request_body_bytes, response_body_bytes;
};

/** A rule: leaves that differ in nothing but their pattern. */
struct suggest_rule {
	size_t from, to; /* all requests of the place */
	const struct suggest_leaf *leaves[SUGGEST_RULE_PATHS];
	size_t leaf_count;
};

/** The next leaf of the requests [*at, end) of one place. @return false: there is none. */
bool suggest_leaf_next(const struct suggest *s, size_t *at, size_t end, struct suggest_leaf *ret);
/** Make what they allow beyond their methods and paths the same. */
void suggest_leaves_level(struct suggest_leaf *leaves, size_t count);
bool suggest_leaves_join(const struct suggest_leaf *a, const struct suggest_leaf *b);
/** Append a comment that says where it comes from, then the rule. */
void suggest_rule_write(const struct suggest *s, const struct suggest_rule *rule, struct buf *to);

#endif
