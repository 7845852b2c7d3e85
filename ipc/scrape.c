/* See scrape.h. A connection is one question and one answer (RFC 9112), then it is closed. */
#include "ipc/scrape.h"

#include "common/address.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/exposition.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>

#define BACKLOG 16

struct scrape_client {
	int fd;
	uint64_t deadline_ns;
	char request[SCRAPE_REQUEST_BYTES_MAX];
	size_t request_len;
	struct buf answer; /* empty: the question is not whole yet */
};

struct scrape {
	int fd;       /* the listener */
	int epoll_fd; /* all descriptors in one */
	int timer_fd; /* of the clients' deadlines */
	unsigned port;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* empty: no Unix socket */
	struct scrape_client clients[SCRAPE_CLIENTS_MAX];
};

static bool is_loopback(const struct address *a)
{
	static const struct cidr local[] = {
		{{.family = 4, .bytes = {127}}, 8}, {{.family = 6, .bytes = {[15] = 1}}, 128}};
	return cidr_contains(&local[0], a) || cidr_contains(&local[1], a);
}

/** A socket that nobody listens on anymore may be replaced, and nothing else. */
static int remove_stale(const struct sockaddr_un *sa)
{
	struct stat st;
	if (lstat(sa->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!S_ISSOCK(st.st_mode) || connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0 ||
		errno != ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(sa->sun_path) < 0 ? -errno : 0;
}

static int listen_path(struct scrape *s, const char *path, struct failure *why)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	if (slice_copy(slice_of(path), sa.sun_path, sizeof(sa.sun_path)) < 0)
		return failure_set(why, -ENAMETOOLONG,
			"metrics: %s: the path of a socket has at most %zu bytes", path,
			sizeof(sa.sun_path) - 1);
	int r = remove_stale(&sa);
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* fchmod() before bind(): the file never has another mode. */
	if (r == 0 &&
		(fd < 0 || fchmod(fd, 0600) < 0 ||
			bind(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0))
		r = -errno;
	if (r < 0)
		return failure_errno(why, r, "metrics: can't listen on %s", path);
	memcpy(s->path, sa.sun_path, sizeof(s->path));
	if (listen(fd, BACKLOG) < 0)
		return failure_errno(why, -errno, "metrics: can't listen on %s", path);
	s->fd = fd_take(&fd);
	return 0;
}

static int listen_port(struct scrape *s, const char *where, struct failure *why)
{
	struct address address;
	uint16_t port = 0;
	struct sockaddr_storage sa;
	int on = 1;
	struct slice endpoint = slice_of(where);
	bool any_port = slice_ends(endpoint, SLICE(":0"));
	if (any_port)
		endpoint = slice_part(endpoint, 0, endpoint.len - 2);
	/* A port has to be said: 0 is none that it would take instead. */
	if (address_parse_endpoint(endpoint, any_port ? 1 : 0, &address, &port) < 0 ||
		!is_loopback(&address))
		return failure_set(why, -EINVAL,
			"metrics: %s is no path from / on and no ADDRESS:PORT of the loopback, such as "
			"127.0.0.1:9187",
			where);
	socklen_t len = address_to_sockaddr(&address, any_port ? 0 : port, &sa);
	auto_fd fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
		bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, BACKLOG) < 0)
		return failure_errno(why, -errno, "metrics: can't listen on %s", where);
	len = sizeof(sa);
	if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0 ||
		address_from_sockaddr((struct sockaddr *)&sa, &address, &port) < 0)
		return failure_set(why, -EIO, "metrics: %s", where);
	s->port = port;
	s->fd = fd_take(&fd);
	return 0;
}

/** What a descriptor is watched for, from now on or (EPOLL_CTL_MOD) instead. */
static int watch(const struct scrape *s, int how, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events};
	return epoll_ctl(s->epoll_fd, how, fd, &event) < 0 ? -errno : 0;
}

static int watch_begin(struct scrape *s, struct failure *why)
{
	s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	s->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (s->epoll_fd < 0 || s->timer_fd < 0)
		return failure_errno(why, -errno, "metrics");
	int r = watch(s, EPOLL_CTL_ADD, s->fd, EPOLLIN);
	if (r == 0)
		r = watch(s, EPOLL_CTL_ADD, s->timer_fd, EPOLLIN);
	return r < 0 ? failure_errno(why, r, "metrics") : 0;
}

int scrape_open(const char *where, struct scrape **ret, struct failure *why)
{
	struct scrape *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "metrics");
	s->fd = s->epoll_fd = s->timer_fd = -1;
	for (size_t i = 0; i < SCRAPE_CLIENTS_MAX; i++)
		s->clients[i].fd = -1;
	int r = where[0] == '/' ? listen_path(s, where, why) : listen_port(s, where, why);
	if (r == 0)
		r = watch_begin(s, why);
	if (r < 0) {
		scrape_close(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void client_end(struct scrape_client *c)
{
	fd_close(&c->fd);
	buf_fini(&c->answer);
	c->request_len = 0;
}

void scrape_close(struct scrape *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < SCRAPE_CLIENTS_MAX; i++)
		client_end(&s->clients[i]);
	fd_close(&s->timer_fd);
	fd_close(&s->epoll_fd);
	fd_close(&s->fd);
	if (s->path[0] != '\0')
		(void)unlink(s->path); /* the next start replaces it */
	free(s);
}

void scrape_leave(struct scrape *s)
{
	if (s != NULL)
		s->path[0] = '\0';
	scrape_close(s);
}

unsigned scrape_port(const struct scrape *s)
{
	return s->port;
}

int scrape_fd(const struct scrape *s)
{
	return s == NULL ? -1 : s->epoll_fd;
}

/** Who finds no room waits in the listener's queue: each that is served has a deadline. */
static void watch_again(struct scrape *s)
{
	uint64_t least = UINT64_MAX;
	bool room = false;
	for (size_t i = 0; i < SCRAPE_CLIENTS_MAX; i++) {
		const struct scrape_client *c = &s->clients[i];
		room |= c->fd < 0;
		if (c->fd >= 0 && c->deadline_ns < least)
			least = c->deadline_ns;
	}
	const struct itimerspec at = {
		.it_value = {.tv_sec = least == UINT64_MAX ? 0 : (time_t)(least / NS_PER_SEC),
			.tv_nsec = least == UINT64_MAX ? 0 : (long)(least % NS_PER_SEC)}};
	(void)timerfd_settime(s->timer_fd, TFD_TIMER_ABSTIME, &at, NULL); /* 0: none; valid */
	(void)watch(s, EPOLL_CTL_MOD, s->fd, room ? EPOLLIN : 0);
}

static void accept_all(struct scrape *s)
{
	for (size_t i = 0; i < SCRAPE_CLIENTS_MAX; i++) {
		struct scrape_client *c = &s->clients[i];
		if (c->fd >= 0)
			continue;
		c->fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (c->fd < 0) {
			c->fd = -1;
			return; /* nobody, or no descriptor: the next turn tries again */
		}
		c->deadline_ns = clock_monotonic_ns() + SCRAPE_DEADLINE_MS * NS_PER_MS;
		buf_init(&c->answer, SCRAPE_TEXT_BYTES_MAX + 4096);
		if (watch(s, EPOLL_CTL_ADD, c->fd, EPOLLIN) < 0)
			client_end(c); /* no memory: it may ask again */
	}
}

/** "GET /metrics HTTP/1.1": the path may also be / alone, or have a query, which is not looked at. */
static const char *status_of(struct slice request)
{
	struct slice line = request, method, target, rest;
	(void)slice_split(line, '\n', &line, &rest); /* false: it is all one line */
	if (!slice_split(line, ' ', &method, &line) || !slice_split(line, ' ', &target, &rest) ||
		!slice_starts(rest, SLICE("HTTP/1.")))
		return "400 Bad Request";
	if (!slice_equal(method, SLICE("GET")))
		return "405 Method Not Allowed";
	(void)slice_split(target, '?', &target, &rest); /* false: it has none */
	return slice_equal(target, SLICE("/metrics")) || slice_equal(target, SLICE("/"))
		? "200 OK"
		: "404 Not Found";
}

static void answer(struct scrape_client *c, scrape_fill *fill, void *arg)
{
	const char *status = status_of((struct slice){c->request, c->request_len});
	struct buf text = {.limit = SCRAPE_TEXT_BYTES_MAX};
	if (status[0] == '2')
		fill(arg, &text);
	else
		(void)buf_printf(&text, "%s\n", status);
	if (text.failed) {
		status = "503 Service Unavailable";
		buf_clear(&text);
	}
	(void)buf_printf(
		&c->answer, /* has room; else it is empty, and the client's deadline ends it */
		"HTTP/1.1 %s\r\nContent-Type: " EXPOSITION_TYPE "\r\n"
		"Content-Length: %zu\r\nConnection: close\r\n\r\n",
		status, buf_len(&text));
	(void)buf_append(&c->answer, buf_slice(&text));
	buf_fini(&text);
}

/** A head ends in an empty line. */
static bool is_whole(const struct scrape_client *c)
{
	return memmem(c->request, c->request_len, "\r\n\r\n", 4) != NULL ||
		memmem(c->request, c->request_len, "\n\n", 2) != NULL;
}

static void client_read(struct scrape_client *c, scrape_fill *fill, void *arg)
{
	ssize_t got =
		recv(c->fd, c->request + c->request_len, sizeof(c->request) - c->request_len, 0);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		client_end(c);
		return;
	}
	c->request_len += (size_t)got;
	if (is_whole(c))
		answer(c, fill, arg);
	else if (c->request_len == sizeof(c->request))
		client_end(c); /* no head of a scraper's is so long */
}

static void client_write(struct scrape_client *c)
{
	struct slice rest = buf_slice(&c->answer);
	ssize_t sent = send(c->fd, rest.ptr, rest.len, MSG_NOSIGNAL);
	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (sent > 0)
		buf_consume(&c->answer, (size_t)sent);
	if (sent <= 0 || buf_len(&c->answer) == 0)
		client_end(c);
}

void scrape_turn(struct scrape *s, scrape_fill *fill, void *arg)
{
	if (s == NULL)
		return;
	accept_all(s);
	for (size_t i = 0; i < SCRAPE_CLIENTS_MAX; i++) {
		struct scrape_client *c = &s->clients[i];
		if (c->fd >= 0 && buf_len(&c->answer) == 0)
			client_read(c, fill, arg);
		if (c->fd >= 0 && buf_len(&c->answer) > 0)
			client_write(c);
		if (c->fd >= 0 && buf_len(&c->answer) > 0)
			(void)watch(s, EPOLL_CTL_MOD, c->fd, EPOLLOUT);
		if (c->fd >= 0 && clock_monotonic_ns() >= c->deadline_ns)
			client_end(c);
	}
	watch_again(s);
}
