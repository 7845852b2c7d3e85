/*
 * The leaves a worker has, by sandbox and whole name: bounded, least recently used goes first. Each sandbox has leaves of its own, so that none
 * learns by the time that a handshake takes whom another one spoke with, and none has more than a share of a full cache.
 */
#ifndef ECLUSA_PROXY_LEAF_CACHE_H
#define ECLUSA_PROXY_LEAF_CACHE_H

#include "common/id.h"
#include "proxy/leaf.h"

struct leaf_cache;

/** Whose leaf it is, and for whom. */
struct leaf_place {
	const char *
		sandbox; /* id, which no other one ever has; at most SANDBOX_ID_BYTES with its NUL */
	const struct host *host;
};

/** @capacity at least 1; LEAF_CACHE_MAX in the product. @return NULL when out of memory. */
struct leaf_cache *leaf_cache_new(size_t capacity);
void leaf_cache_free(struct leaf_cache *c);
/** Borrowed until the next put; NULL: not there, or it ends within LEAF_RENEW_SECONDS. */
struct leaf *leaf_cache_find(struct leaf_cache *c, const struct leaf_place *place, int64_t now_s);
/**
 * Takes over @leaf, replaces an older one of this place. In a full cache it takes the room of the one used longest ago: of the sandbox's own, if it
 * has a LEAF_CACHE_SHARE-th of all, else of anybody's.
 */
void leaf_cache_put(struct leaf_cache *c, const struct leaf_place *place, struct leaf *leaf);
size_t leaf_cache_count(const struct leaf_cache *c);

#endif
