/* A profile inside a compiled policy: its effective rules, indexed by the name in their host patterns. */
#ifndef ECLUSA_POLICY_PROFILE_H
#define ECLUSA_POLICY_PROFILE_H

#include "policy/rule.h"

/** The rules that share a name: rules[first] to rules[first + count - 1]. Unused: count 0. */
struct profile_slot {
	struct slice name;
	uint32_t hash;
	uint32_t first;
	uint32_t count;
};

struct profile {
	const char *name;
	const struct rule_entry **rules; /* sorted by name, then by place */
	size_t rule_count;
	struct profile_slot *slots; /* open addressing, a power of two, at most half full */
	size_t slot_mask;
	char digest[DIGEST_TEXT_BYTES];
};

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
};

/** Index @rules (taken over, sorted in place; from the arena). @return 0 or -ENOMEM. */
int profile_build(
	struct profile *p, struct arena *arena, const struct rule_entry **rules, size_t rule_count);
/** Fill the digest from the canonical dump of the rules. @return 0, -ENOMEM, -EIO. */
int profile_seal(struct profile *p);

#define PROFILE_HASH_START UINT32_C(2166136261)

/** Hash of a name, from its end to its start, so that a suffix's hash is a step of the name's. */
static inline uint32_t profile_hash_step(uint32_t hash, char c)
{
	return (hash ^ (unsigned char)c) * UINT32_C(16777619);
}

/** The slot of a name, or NULL. */
const struct profile_slot *profile_find(const struct profile *p, struct slice name, uint32_t hash);

#endif
