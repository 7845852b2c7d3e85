/*
 * Paths that were asked for, as patterns of rules: what only names one of many things (a number, a hash, a version, an
 * identifier) becomes '*' where several siblings show that it does. Input: normalised paths, with redaction marks.
 */
#ifndef ECLUSA_CLI_SUGGEST_PATH_H
#define ECLUSA_CLI_SUGGEST_PATH_H

#include "policy/arena.h"

#define SUGGEST_SIBLINGS 3  /* different segments of one kind at one place that make a '*' */
#define SUGGEST_DEPTH    64 /* segments that are looked at; further ones stay as they are */

/** A path, and where its pattern goes: the arena's, or NULL when no rule can have it. */
struct suggest_path {
	struct slice path;
	const char **pattern_at;
};

/** Fill in the patterns. @return 0 or -ENOMEM. */
int suggest_paths(const struct suggest_path *paths, size_t count, struct arena *arena);

#endif
