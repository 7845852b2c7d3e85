/* What changes between two policies: decisions, not text. Found by asking both about requests that stand for all requests that their rules tell apart. */
#ifndef ECLUSA_POLICY_DIFF_H
#define ECLUSA_POLICY_DIFF_H

#include "policy/limit.h"

enum diff_kind {
	DIFF_ALLOWED,  /* was denied */
	DIFF_DENIED,   /* was allowed */
	DIFF_WIDER,    /* allowed before and after, with a limit that is wider now */
	DIFF_NARROWER, /* likewise, narrower */
	DIFF_KIND_COUNT
};

/** Limits of an allowed request: first those of limit.h, then the others; also bits, 1 << limit. */
enum diff_limit {
	DIFF_ADDR = LIMIT_COUNT,
	DIFF_RATE,
	DIFF_HEADER_DENY,
	DIFF_UPGRADE,
	DIFF_MODE,
	DIFF_LIMIT_COUNT
};

#define DIFF_EXAMPLE_BYTES 2048

/** Requests that change for the same reason. Rules are borrowed from their policies. */
struct diff_change {
	enum diff_kind kind;
	const struct rule *old_rule; /* that decided; NULL: none */
	const struct rule *new_rule;
	enum reason old_reason;
	enum reason new_reason;
	unsigned limits; /* bits of enum diff_limit: which are wider, or narrower */
	char *example;   /* one such request: "GET https://a.test/x", or "CONNECT a.test:22" */
};

struct policy_diff {
	struct diff_change *changes;
	size_t count;
	size_t kinds[DIFF_KIND_COUNT];
	bool complete; /* false: some host has more combinations than are tried */
};

const char *diff_kind_name(enum diff_kind kind);
/** "req-body", "expires", ... */
const char *diff_limit_name(enum diff_limit limit);

/** Either profile may be NULL: then it allows nothing. @return 0 or -ENOMEM. */
int policy_diff(const struct profile *old_profile, const struct profile *new_profile,
	uint64_t now_ms, struct policy_diff *ret);
void policy_diff_free(struct policy_diff *diff);

#endif
