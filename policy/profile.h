/* A profile inside a compiled policy: its effective rules and what finds them. */
#ifndef ECLUSA_POLICY_PROFILE_H
#define ECLUSA_POLICY_PROFILE_H

#include "policy/matcher.h"

struct profile {
	const char *name;
	const struct rule_entry **rules; /* in the matcher's order */
	size_t rule_count;
	const struct rule_entry
		*observer;  /* set mode observe: decides where no rule does; else NULL */
	bool commit_before; /* set commit before */
	struct matcher matcher;
	char digest[DIGEST_TEXT_BYTES];
};

struct section;

/** What some addr= opens, for the packet filter. */
struct policy_opening {
	struct cidr prefix;
	struct port_range ports;
};

struct policy {
	struct arena arena;
	struct profile *profiles;
	size_t profile_count;
	struct policy_opening *openings; /* sorted, none twice */
	size_t opening_count;
	const struct section *sections; /* as written, in order of place; see syntax.h */
	const char *const *file_names;  /* in the order of the bundle */
	size_t file_count;
};

/** Index @rules (taken over, sorted in place; from the arena). @return 0 or -ENOMEM. */
int profile_build(
	struct profile *p, struct arena *arena, const struct rule_entry **rules, size_t rule_count);
/** Fill the digest from the canonical dump of the rules. @return 0, -ENOMEM, -EIO. */
int profile_seal(struct profile *p);

#endif
