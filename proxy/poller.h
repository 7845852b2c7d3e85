/*
 * What a worker waits for: sockets of streams, each told to the kernel once and by edges, and libuv's loop with all the rest. libuv
 * would be told of a socket anew whenever more or less is wanted of it, by a system call each time. Knows descriptors, and nothing
 * of what they carry.
 */
#ifndef ECLUSA_PROXY_POLLER_H
#define ECLUSA_PROXY_POLLER_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/** Who is told of a descriptor; part of something on the heap. */
struct poller_target {
	/** @events: EPOLLIN ... of epoll_ctl(2). It may let go of any target, its own too. */
	void (*ready)(struct poller_target *target, uint32_t events);
	void *memory; /* what it is part of: freed when it is let go of */
	bool gone;
	struct poller_target *next_gone;
};

struct poller {
	uv_loop_t *loop; /* borrowed */
	int fd;
	bool telling;
	struct poller_target *gone; /* that were let go of while others are told */
};

/** @return 0 or negative errno. */
int poller_open(struct poller *p, uv_loop_t *loop);
void poller_close(struct poller *p);
/**
 * Tell @target of each change of @fd to one of @events from now on, and now if one of them holds already (epoll(7),
 * EPOLLET). @again: it is told of that descriptor, and shall be of these. Ends with the descriptor. @return 0 or negative errno.
 */
int poller_watch(
	struct poller *p, struct poller_target *target, int fd, uint32_t events, bool again);
/** The descriptor is closed: nobody is told anymore, and the memory is freed. */
void poller_let_go(struct poller *p, struct poller_target *target);
/** Wait, tell, and run the loop, until *stopping. */
void poller_run(struct poller *p, const bool *stopping);

#endif
