/* See pipe.h. */
#include "proxy/pipe.h"

#include "common/cleanup.h"

#include <fcntl.h>

int pipe_get(struct pipe_pool *pool, struct pipe *ret)
{
	int ends[2];
	if (pool->count > 0) {
		*ret = pool->idle[--pool->count];
		return 0;
	}
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	/* A smaller one does as well: what the kernel gives beyond a user's share of pipe memory. */
	(void)fcntl(ends[1], F_SETPIPE_SZ, PIPE_BYTES);
	*ret = (struct pipe){.read_fd = ends[0], .write_fd = ends[1], .open = true};
	return 0;
}

static void pipe_close(struct pipe *p)
{
	fd_close(&p->read_fd);
	fd_close(&p->write_fd);
}

void pipe_put(struct pipe_pool *pool, struct pipe *p)
{
	if (p->open && p->len == 0 && pool->count < PIPE_POOL_MAX)
		pool->idle[pool->count++] = *p;
	else if (p->open)
		pipe_close(p);
	*p = (struct pipe){0};
}

void pipe_pool_close(struct pipe_pool *pool)
{
	while (pool->count > 0)
		pipe_close(&pool->idle[--pool->count]);
}
