/* Memory that lives and dies together: a compiled policy's strings and rules. Never shrinks. */
#ifndef ECLUSA_POLICY_ARENA_H
#define ECLUSA_POLICY_ARENA_H

#include "common/slice.h"

struct arena_chunk;

/** Zero-initialise. */
struct arena {
	struct arena_chunk *chunks;
	size_t left; /* bytes free in the first chunk */
	bool failed; /* sticky: memory ran out */
};

/** @count zeroed things of @size bytes, aligned for any type. NULL when out of memory (sticky). */
void *arena_alloc(struct arena *a, size_t count, size_t size);
/** A NUL-terminated copy. NULL when out of memory. */
char *arena_dup(struct arena *a, struct slice text);
/** Free everything. */
void arena_fini(struct arena *a);

#endif
