/* See serve.h. The socket, the poll over all leases, and their deadlines; one descriptor of the proxy alone's own loop. */
#include "proxy/serve_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#define ACCEPTS_A_TURN  64
#define ACCEPT_PAUSE_NS (100 * NS_PER_MS) /* where a launcher can't be accepted: no descriptors */
#define NETD_END_NS     NS_PER_SEC

static int serve_watch(struct serve *s, int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_polls(struct serve *s, struct failure *why)
{
	const char *roots = s->alone->options->upstream_ca;
	int r = 0;
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->epoll_fd < 0 || s->timer_fd < 0)
		r = -errno;
	if (r == 0)
		r = serve_watch(s, s->timer_fd, &s->timer_fd);
	if (r == 0 && roots != NULL)
		r = s->roots_fd = open(roots, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return r < 0 ? failure_errno(why, r, "can't wait for launchers") : 0;
}

int serve_open(struct alone *a, int netd_side, struct failure *why)
{
	struct serve *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "service");
	s->alone = a;
	s->netd = PROGRAM_NONE;
	s->listener_fd = s->epoll_fd = s->timer_fd = s->roots_fd = -1;
	s->limits = limits_default();
	a->serve = s;
	int r = limits_of_environment(&s->limits, why);
	if (r == 0)
		r = open_polls(s, why);
	if (r == 0)
		r = serve_log_open(s, why);
	return r == 0 ? serve_start_netd(s, netd_side, why) : r;
}

/** systemd's Type=notify: sd_notify(3), which is one datagram. */
static void notify_ready(void)
{
	static const char state[] = "READY=1";
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	if (path == NULL || (path[0] != '/' && path[0] != '@') ||
		slice_copy(slice_of(path), sa.sun_path, sizeof(sa.sun_path)) < 0)
		return;
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (path[0] == '@')
		sa.sun_path[0] = '\0';
	auto_fd fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
		sendto(fd, state, sizeof(state) - 1, MSG_NOSIGNAL, (struct sockaddr *)&sa, len) < 0)
		log_event(LOG_LEVEL_WARN, "not-notified", "error=%s", strerror(errno));
}

int serve_ready(struct alone *a, const struct message_proxy_ready *ready, struct failure *why)
{
	struct serve *s = a->serve;
	char folder[sizeof(((struct sockaddr_un *)0)->sun_path)];
	s->ready = *ready;
	int r = slice_copy(slice_of(a->options->socket), folder, sizeof(folder));
	if (r == 0)
		r = file_make_dirs(dirname(folder), 0755);
	if (r < 0)
		return failure_errno(why, r, "--socket");
	r = s->listener_fd = service_listen(a->options->socket, why);
	if (r >= 0)
		r = serve_watch(s, s->listener_fd, &s->listener_fd);
	if (r >= 0)
		notify_ready();
	return r < 0 ? failure_errno(why, r, "--socket") : 0;
}

void serve_leave(struct serve *s)
{
	if (s == NULL || s->listener_fd < 0)
		return;
	(void)unlink(s->alone->options->socket); /* the next start replaces it */
	fd_close(&s->listener_fd);
}

int serve_fd(const struct serve *s)
{
	return s == NULL ? -1 : s->epoll_fd;
}

/** Connections of a process that have not asked yet. */
static unsigned asking_of(const struct serve *s, pid_t pid)
{
	unsigned count = 0;
	for (const struct serve_lease *l = s->leases; l != NULL; l = l->next)
		count += l->state == SERVE_ASKS && l->pid == pid;
	return count;
}

/**
 * Room for one more that has not asked yet. Of the process that has most of them, the one that has been silent longest leaves, so that who
 * connects without asking costs itself.
 */
static void make_room(struct serve *s)
{
	struct serve_lease *out = NULL;
	unsigned most = 0;
	for (struct serve_lease *l = s->leases; l != NULL && s->asking >= SERVE_ASKING_MAX;
		l = l->next) {
		unsigned count = l->state == SERVE_ASKS ? asking_of(s, l->pid) : 0;
		if (count == 0 || count < most)
			continue;
		out = l; /* new ones are put first: of one process the last is the oldest */
		most = count;
	}
	if (out != NULL)
		serve_lease_expired(out);
}

/** Launchers wait in the listener's queue, of which the poll would tell without end. */
static void serve_pause(struct serve *s, int error)
{
	log_event(LOG_LEVEL_WARN, "not-accepted", "error=%s", strerror(-error));
	if (epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, s->listener_fd, NULL) == 0)
		s->paused_until_ns = clock_monotonic_ns() + ACCEPT_PAUSE_NS;
}

static void serve_accept(struct serve *s)
{
	for (unsigned i = 0; i < ACCEPTS_A_TURN; i++) {
		uid_t uid;
		pid_t pid;
		int fd = service_accept(s->listener_fd, &uid, &pid);
		if (fd == -EPERM || fd == -ECONNABORTED)
			continue;
		if (fd < 0 && fd != -EAGAIN)
			serve_pause(s, fd);
		if (fd < 0)
			return;
		make_room(s);
		serve_lease_new(s, fd, uid, pid);
	}
}

static void serve_dispatch(struct serve *s, void *what)
{
	uint64_t ticks;
	if (what == &s->listener_fd) {
		serve_accept(s);
	} else if (what == &s->timer_fd) {
		(void)!read(s->timer_fd, &ticks, sizeof(ticks)); /* only that it is time */
	} else {
		struct serve_source *source = what;
		serve_lease_hear(source->lease, source->netd);
	}
}

/** Those whose time is over, and those that have more to read. @return when there is something to do again. */
static uint64_t serve_clock(struct serve *s)
{
	uint64_t now = clock_monotonic_ns(), next = UINT64_MAX;
	if (s->paused_until_ns != 0 && s->paused_until_ns <= now && s->listener_fd >= 0 &&
		serve_watch(s, s->listener_fd, &s->listener_fd) == 0)
		s->paused_until_ns = 0;
	if (s->paused_until_ns > now)
		next = s->paused_until_ns;
	for (struct serve_lease *l = s->leases; l != NULL; l = l->next) {
		if (l->state == SERVE_READS)
			serve_lease_go_on(l);
		else if (l->deadline_ns <= now)
			serve_lease_expired(l);
		uint64_t due = l->state == SERVE_READS && l->queued == 0 ? now : l->deadline_ns;
		next = due < next ? due : next;
	}
	return next;
}

static void serve_sweep(struct serve *s)
{
	struct serve_lease **at = &s->leases;
	while (*at != NULL) {
		struct serve_lease *l = *at;
		if (l->state != SERVE_GONE) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		s->count--;
		serve_lease_free(l);
	}
}

void serve_turn(struct serve *s)
{
	struct epoll_event events[SERVE_EVENTS];
	int count = epoll_wait(s->epoll_fd, events, SERVE_EVENTS, 0);
	for (int i = 0; i < count; i++)
		serve_dispatch(s, events[i].data.ptr);
	uint64_t next = serve_clock(s);
	serve_sweep(s);
	struct itimerspec when = {0};
	if (next != UINT64_MAX) {
		when.it_value.tv_sec = (time_t)(next / NS_PER_SEC);
		when.it_value.tv_nsec = (long)(next % NS_PER_SEC);
	}
	(void)timerfd_settime(
		s->timer_fd, TFD_TIMER_ABSTIME, &when, NULL); /* can't fail with these */
}

void serve_close(struct serve *s)
{
	if (s == NULL)
		return;
	serve_leave(s);
	while (s->leases != NULL) {
		struct serve_lease *l = s->leases;
		s->leases = l->next;
		serve_lease_free(l);
	}
	serve_log_close(s);
	program_end(&s->netd, clock_monotonic_ns() + NETD_END_NS); /* its channel has ended */
	program_fini(&s->netd);
	policy_free(s->policy);
	policy_free(s->checked);
	fd_close(&s->roots_fd);
	fd_close(&s->timer_fd);
	fd_close(&s->epoll_fd);
	free(s);
}
