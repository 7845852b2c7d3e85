/* What a matcher's tables hold. For the files of the matcher and its measurements only. */
#ifndef ECLUSA_POLICY_MATCHER_TABLE_H
#define ECLUSA_POLICY_MATCHER_TABLE_H

#include "policy/matcher.h"

#define MATCHER_HASH_START UINT32_C(2166136261)

static inline uint32_t matcher_hash_step(uint32_t hash, char c)
{
	return (hash ^ (unsigned char)c) * UINT32_C(16777619);
}

/** The low bits of what the steps give follow the last byte too closely. */
static inline uint32_t matcher_hash_end(uint32_t hash)
{
	hash ^= hash >> 16;
	hash *= UINT32_C(0x85ebca6b);
	return hash ^ hash >> 13;
}

/** A name with exact rules. Free: no groups. */
struct matcher_exact {
	const char *name;
	uint32_t hash;
	uint32_t name_len;
	uint32_t first;
	uint32_t count;
};

/** From @parent by a label to @child. Free: child 0, which is the root and nobody's child. */
struct matcher_edge {
	const char *label;
	uint32_t hash;
	uint32_t label_len;
	uint32_t parent;
	uint32_t child;
};

/** A suffix. Without rules of its own: no groups. */
struct matcher_node {
	uint32_t first;
	uint32_t count;
	bool above; /* an allow rule names something below it */
};

/** A prefix of ip: rules. Free: no groups. */
struct matcher_prefix {
	struct cidr prefix;
	uint32_t hash;
	uint32_t first;
	uint32_t count;
};

/** Rules whose path patterns start with the same literal segments. Free: no entries. */
struct matcher_path_slot {
	uint32_t hash;
	uint32_t first;
	uint32_t count;
};

struct matcher_paths {
	uint64_t depths; /* bit d: some pattern starts with d literal segments */
	struct matcher_path_slot *slots;
	uint32_t mask;
	uint32_t *rules; /* the entries: places in matcher.rules */
};

#endif
