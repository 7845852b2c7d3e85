/* From the tree to profiles: sections with what they extend and use, flattened, narrowed, indexed. */
#ifndef ECLUSA_POLICY_RESOLVE_H
#define ECLUSA_POLICY_RESOLVE_H

#include "policy/profile.h"
#include "policy/syntax.h"

#define RESOLVE_INSTANCES_MAX 200000 /* rules of all profiles together */

/** Growing list of one section's effective rules. */
struct resolver {
	struct syntax *tree;
	const struct rule_entry **rules; /* room for SYNTAX_RULES_MAX; heap */
	size_t rule_count;
	size_t visits;         /* statements looked at for this section */
	size_t instance_count; /* rules of all sections so far */
	bool full;             /* a limit was reported; the section is not usable */
};

/** @return 0 or -ENOMEM. */
int resolver_init(struct resolver *r, struct syntax *tree);
void resolver_fini(struct resolver *r);
/**
 * Effective rules of one section: the deny rules of every file's head, what it extends, its own, what it
 * uses. Errors go to the tree's report. @return 0 or -ENOMEM.
 */
int resolver_profile(struct resolver *r, const struct section *s, struct profile *ret);

/** The rule in place @i of the list as one that only this section has; NULL when out of memory. */
struct rule_entry *resolver_own_rule(struct resolver *r, size_t i);

#endif
