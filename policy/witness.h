/* Witnesses: paths that stand for all paths, as far as some patterns can tell them apart. */
#ifndef ECLUSA_POLICY_WITNESS_H
#define ECLUSA_POLICY_WITNESS_H

#include "policy/arena.h"
#include "policy/pattern.h"

#define WITNESS_PATTERNS_MAX 256

struct witness_paths {
	struct slice *paths; /* normalised; NUL-terminated, too */
	size_t count;
	bool complete; /* false: the patterns have too many combinations */
};

/**
 * Paths for every combination of @patterns that one path can match (segments with several partial
 * wildcards are tried, not solved). @encoded: paths with an encoded slash as well. Everything is @arena's.
 * @return 0 or -ENOMEM.
 */
int witness_paths(const struct slice *patterns, size_t pattern_count, bool encoded,
	struct arena *arena, struct witness_paths *ret);

#endif
