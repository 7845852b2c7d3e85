/* See poller.h. */
#include "proxy/poller.h"

#include "common/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#define EVENTS_AT_ONCE 256

int poller_open(struct poller *p, uv_loop_t *loop)
{
	auto_fd fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, uv_backend_fd(loop), &event) < 0)
		return -errno;
	*p = (struct poller){.loop = loop, .fd = fd_take(&fd)};
	return 0;
}

void poller_close(struct poller *p)
{
	fd_close(&p->fd);
}

int poller_watch(
	struct poller *p, struct poller_target *target, int fd, uint32_t events, bool again)
{
	struct epoll_event event = {.events = events | EPOLLET, .data.ptr = target};
	return epoll_ctl(p->fd, again ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

void poller_let_go(struct poller *p, struct poller_target *target)
{
	if (!p->telling) {
		free(target->memory);
		return;
	}
	target->gone = true; /* it may be among those that are told next */
	target->next_gone = p->gone;
	p->gone = target;
}

/** @return whether the loop has something to do. */
static bool tell(struct poller *p, const struct epoll_event *events, int count)
{
	bool loop = false;
	p->telling = true;
	for (int i = 0; i < count; i++) {
		struct poller_target *target = events[i].data.ptr;
		if (target == NULL)
			loop = true;
		else if (!target->gone)
			target->ready(target, events[i].events);
	}
	p->telling = false;
	while (p->gone != NULL) {
		struct poller_target *target = p->gone;
		p->gone = target->next_gone;
		free(target->memory);
	}
	return loop;
}

void poller_run(struct poller *p, const bool *stopping)
{
	while (!*stopping) {
		struct epoll_event events[EVENTS_AT_ONCE];
		/* An interrupted wait finds nothing, and is begun anew. */
		int count = epoll_wait(p->fd, events, EVENTS_AT_ONCE, uv_backend_timeout(p->loop));
		uv_update_time(p->loop);
		bool loop = tell(p, events, count);
		/* 0: timers are due, or handles are to be closed or watched. */
		if (!*stopping && (loop || uv_backend_timeout(p->loop) == 0))
			(void)uv_run(
				p->loop, UV_RUN_NOWAIT); /* whether handles are left is known */
	}
}
