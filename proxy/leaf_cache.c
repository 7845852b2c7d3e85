/* See leaf_cache.h. Keys are canonical hosts that policy admitted; values are the cache's own. */
#include "proxy/leaf_cache.h"
#include "common/file.h"

#include <assert.h>
#include <stdlib.h>

#define NONE UINT32_MAX

/** Indices link entries: a hash chain, and the order of use. */
struct entry {
	struct leaf *leaf;
	uint32_t chain_next;
	uint32_t newer;
	uint32_t older;
	char sandbox[SANDBOX_ID_BYTES];
	char name[HOST_NAME_BYTES];
};

struct leaf_cache {
	size_t capacity;
	size_t count;
	size_t bucket_count; /* a power of two */
	uint64_t seed;
	uint32_t newest;
	uint32_t oldest;
	uint32_t *buckets;
	struct entry *entries;
};

struct leaf_cache *leaf_cache_new(size_t capacity)
{
	assert(capacity > 0 && capacity < NONE);
	struct leaf_cache *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return NULL;
	c->capacity = capacity;
	c->newest = NONE;
	c->oldest = NONE;
	c->bucket_count = 1;
	while (c->bucket_count < capacity)
		c->bucket_count *= 2;
	c->buckets = calloc(c->bucket_count, sizeof(*c->buckets));
	c->entries = calloc(capacity, sizeof(*c->entries));
	if (c->buckets == NULL || c->entries == NULL) {
		leaf_cache_free(c);
		return NULL;
	}
	for (size_t i = 0; i < c->bucket_count; i++)
		c->buckets[i] = NONE;
	random_bytes(&c->seed, sizeof(c->seed));
	return c;
}

void leaf_cache_free(struct leaf_cache *c)
{
	if (c == NULL)
		return;
	for (size_t i = 0; i < c->count; i++)
		leaf_free(c->entries[i].leaf);
	free(c->entries);
	free(c->buckets);
	free(c);
}

/** FNV-1a from a seed; a name that collides costs at most a walk over the bounded cache. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
	return hash;
}

static uint32_t *bucket_of(const struct leaf_cache *c, const char *sandbox, const char *name)
{
	uint64_t hash = hash_text(hash_text(c->seed, sandbox), name);
	return &c->buckets[(hash ^ hash >> 32) & (c->bucket_count - 1)];
}

static bool is_of(const struct entry *e, const char *sandbox)
{
	return strcmp(e->sandbox, sandbox) == 0;
}

static uint32_t find(const struct leaf_cache *c, const struct leaf_place *place)
{
	uint32_t i = *bucket_of(c, place->sandbox, place->host->name);
	while (i != NONE &&
		(strcmp(c->entries[i].name, place->host->name) != 0 ||
			!is_of(&c->entries[i], place->sandbox)))
		i = c->entries[i].chain_next;
	return i;
}

static void order_remove(struct leaf_cache *c, uint32_t i)
{
	struct entry *e = &c->entries[i];
	*(e->newer == NONE ? &c->newest : &c->entries[e->newer].older) = e->older;
	*(e->older == NONE ? &c->oldest : &c->entries[e->older].newer) = e->newer;
}

static void order_push(struct leaf_cache *c, uint32_t i)
{
	struct entry *e = &c->entries[i];
	e->newer = NONE;
	e->older = c->newest;
	*(c->newest == NONE ? &c->oldest : &c->entries[c->newest].newer) = i;
	c->newest = i;
}

static void chain_remove(struct leaf_cache *c, uint32_t i)
{
	uint32_t *link = bucket_of(c, c->entries[i].sandbox, c->entries[i].name);
	while (*link != i)
		link = &c->entries[*link].chain_next;
	*link = c->entries[i].chain_next;
}

/** Which leaf of a full cache goes for one more of this sandbox. A mint takes a hundred times as long as this look at all. */
static uint32_t dispensable(const struct leaf_cache *c, const char *sandbox)
{
	size_t own = 0;
	uint32_t oldest_own = NONE;
	for (uint32_t i = c->newest; i != NONE; i = c->entries[i].older) {
		if (!is_of(&c->entries[i], sandbox))
			continue;
		own++;
		oldest_own = i;
	}
	return own >= (c->capacity + LEAF_CACHE_SHARE - 1) / LEAF_CACHE_SHARE ? oldest_own
									      : c->oldest;
}

/** An entry without name: a fresh one, or another's. */
static uint32_t entry_make_room(struct leaf_cache *c, const char *sandbox)
{
	if (c->count < c->capacity)
		return (uint32_t)c->count++;
	uint32_t i = dispensable(c, sandbox);
	order_remove(c, i);
	chain_remove(c, i);
	leaf_free(c->entries[i].leaf);
	return i;
}

struct leaf *leaf_cache_find(struct leaf_cache *c, const struct leaf_place *place, int64_t now_s)
{
	uint32_t i = find(c, place);
	if (i == NONE || leaf_expires_s(c->entries[i].leaf) - LEAF_RENEW_SECONDS < now_s)
		return NULL;
	order_remove(c, i);
	order_push(c, i);
	return c->entries[i].leaf;
}

void leaf_cache_put(struct leaf_cache *c, const struct leaf_place *place, struct leaf *leaf)
{
	uint32_t i = find(c, place);
	if (i != NONE) {
		leaf_free(c->entries[i].leaf);
		order_remove(c, i);
	} else {
		i = entry_make_room(c, place->sandbox);
		struct entry *e = &c->entries[i];
		(void)slice_copy(
			slice_of(place->host->name), e->name, sizeof(e->name)); /* same size */
		(void)slice_copy(
			slice_of(place->sandbox), e->sandbox, sizeof(e->sandbox)); /* likewise */
		uint32_t *bucket = bucket_of(c, e->sandbox, e->name);
		e->chain_next = *bucket;
		*bucket = i;
	}
	c->entries[i].leaf = leaf;
	order_push(c, i);
}

size_t leaf_cache_count(const struct leaf_cache *c)
{
	return c->count;
}
