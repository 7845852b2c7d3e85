/* The leaves a worker has, by whole name: bounded, least recently used goes first. */
#ifndef ECLUSA_PROXY_LEAF_CACHE_H
#define ECLUSA_PROXY_LEAF_CACHE_H

#include "proxy/leaf.h"

struct leaf_cache;

/** @capacity at least 1; LEAF_CACHE_MAX in the product. @return NULL when out of memory. */
struct leaf_cache *leaf_cache_new(size_t capacity);
void leaf_cache_free(struct leaf_cache *c);
/** Borrowed until the next put; NULL: not there, or it ends within LEAF_RENEW_SECONDS. */
struct leaf *leaf_cache_find(struct leaf_cache *c, const struct host *host, int64_t now_s);
/** Takes over @leaf, replaces an older one of this name. */
void leaf_cache_put(struct leaf_cache *c, const struct host *host, struct leaf *leaf);
size_t leaf_cache_count(const struct leaf_cache *c);

#endif
