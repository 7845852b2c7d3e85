/*
 * Pipes that bytes take from one socket to another without being copied (splice(2)). A connection has one only
 * while bytes are in it; empty ones wait in a worker's pool.
 */
#ifndef ECLUSA_PROXY_PIPE_H
#define ECLUSA_PROXY_PIPE_H

#include "proxy/limits.h"

/** Zero-initialise: none. */
struct pipe {
	int read_fd, write_fd; /* meaningless unless @open */
	bool open;
	size_t len; /* bytes inside */
};

/** Zero-initialise. */
struct pipe_pool {
	struct pipe idle[PIPE_POOL_MAX];
	size_t count;
};

/** An empty one. @return 0, negative errno. */
int pipe_get(struct pipe_pool *pool, struct pipe *ret);
/** Done with it: an empty one goes back to the pool, another is closed with what it holds. Accepts none. */
void pipe_put(struct pipe_pool *pool, struct pipe *p);
void pipe_pool_close(struct pipe_pool *pool);

#endif
