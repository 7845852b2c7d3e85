/* See arena.h. */
#include "policy/arena.h"

#include <stdalign.h>
#include <stdlib.h>

#define CHUNK_BYTES ((size_t)16384)

struct arena_chunk {
	struct arena_chunk *next;
	size_t size;
	alignas(max_align_t) char bytes[];
};

static bool arena_grow(struct arena *a, size_t need)
{
	size_t size = need > CHUNK_BYTES ? need : CHUNK_BYTES;
	struct arena_chunk *chunk = calloc(1, sizeof(*chunk) + size);
	if (chunk == NULL) {
		a->failed = true;
		return false;
	}
	chunk->next = a->chunks;
	chunk->size = size;
	a->chunks = chunk;
	a->left = size;
	return true;
}

void *arena_alloc(struct arena *a, size_t count, size_t size)
{
	const size_t align = alignof(max_align_t);
	size_t need;
	if (__builtin_mul_overflow(count, size, &need) || need > SIZE_MAX / 2) {
		a->failed = true;
		return NULL;
	}
	need = need == 0 ? align : (need + align - 1) / align * align;
	if (need > a->left && !arena_grow(a, need))
		return NULL;
	void *got = a->chunks->bytes + (a->chunks->size - a->left);
	a->left -= need;
	return got;
}

char *arena_dup(struct arena *a, struct slice text)
{
	char *copy = arena_alloc(a, text.len + 1, 1);
	if (copy != NULL && text.len > 0)
		memcpy(copy, text.ptr, text.len);
	return copy;
}

void arena_fini(struct arena *a)
{
	struct arena_chunk *chunk = a->chunks;
	while (chunk != NULL) {
		struct arena_chunk *next = chunk->next;
		free(chunk);
		chunk = next;
	}
	*a = (struct arena){0};
}
