/*
 * Leaves for names: from the worker's cache, else asked of the keeper. Requests of a sandbox for one name are
 * one; answers that nobody asked for are ignored, since a restarted worker gets its predecessor's.
 */
#ifndef ECLUSA_PROXY_KEEPER_CLIENT_H
#define ECLUSA_PROXY_KEEPER_CLIENT_H

#include "proxy/leaf_cache.h"

#include <uv.h>

struct keeper_client;

/** Told once: a leaf is in the cache now, or @failed: the keeper refused or is gone. */
typedef void keeper_wake(void *arg, bool failed);

/** Someone who waits; lies in the waiter's memory and may not move. Zero-initialise. */
struct keeper_wait {
	struct keeper_wait *next;
	struct keeper_wait **at; /* NULL: does not wait */
	keeper_wake *wake;
	void *arg;
};

/** Borrows everything; @fd is made non-blocking. */
int keeper_client_new(uv_loop_t *loop, int fd, const struct leaf_key *key,
	struct keeper_client **ret, struct failure *why);
/** Nobody is told. The loop has to run once more. */
void keeper_client_free(struct keeper_client *k);

/** The leaf, if it is there. Borrowed until the loop goes on. */
struct leaf *keeper_client_find(struct keeper_client *k, const struct leaf_place *place);
/** Ask for it and wait. @return 0; -ENOSPC: KEEPER_REQUESTS_MAX names wait; -ENOMEM, -EPIPE. */
int keeper_client_ask(
	struct keeper_client *k, const struct leaf_place *place, struct keeper_wait *wait);
/** Wait no longer. Harmless when it does not wait. */
void keeper_wait_end(struct keeper_wait *wait);

#endif
