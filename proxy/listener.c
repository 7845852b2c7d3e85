/*
 * The doors for connections: accept, know the sandbox, begin a flow. Always drains: what nobody may have
 * and what is over a limit is accepted and reset, so that it never fills the queue of others.
 */
#include "proxy/flow.h"
#include "proxy/worker_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

void listener_reset(int fd)
{
	struct linger now = {.l_onoff = 1, .l_linger = 0};
	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); /* else it ends in order */
	(void)close(fd); /* nothing can be done about a failing close */
}

static int name_of(int fd, struct address *ret, uint16_t *ret_port)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	if (getsockname(fd, (struct sockaddr *)&own, &len) < 0)
		return -errno;
	return address_from_sockaddr((struct sockaddr *)&own, ret, ret_port);
}

static int ends_of(const struct listener *l, int fd, const struct sockaddr_storage *peer,
	struct flow_ends *ret)
{
	int r = address_from_sockaddr(
		(const struct sockaddr *)peer, &ret->source, &ret->source_port);
	if (r < 0 || l->own.family == 0)
		return r < 0 ? r : name_of(fd, &ret->proxy, &ret->proxy_port);
	ret->proxy = l->own;
	ret->proxy_port = l->own_port;
	return 0;
}

/** Of a listener at one address and port all connections have these; captured ones have those that the client asked for. */
static void listener_name(struct listener *l)
{
	static const struct address none = {0};
	struct address own = {0};
	uint16_t port = 0;
	if (name_of(l->fd, &own, &port) == 0 &&
		memcmp(own.bytes, none.bytes, sizeof(own.bytes)) != 0) {
		l->own = own;
		l->own_port = port;
	}
}

static void accepted(
	struct worker *w, int fd, const struct sockaddr_storage *peer, enum flow_door door)
{
	struct flow_ends ends = {.door = door};
	const struct listener *l =
		&w->listeners[door == FLOW_DOOR_EXPLICIT ? WORKER_EXPLICIT : WORKER_TRANSPARENT];
	struct sandbox *s = NULL;
	if (ends_of(l, fd, peer, &ends) == 0)
		s = ident_find(&w->ident, &ends.source);
	if (s == NULL) { /* not, or no longer, a sandbox of this worker */
		listener_reset(fd);
		return;
	}
	if (s->connections >= w->limits.connections)
		flow_start_refused(w, s, fd, &ends);
	else
		flow_start(w, s, fd, &ends);
}

static void take_explicit(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	accepted(w, fd, peer, FLOW_DOOR_EXPLICIT);
}

static void take_transparent(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	accepted(w, fd, peer, FLOW_DOOR_TRANSPARENT);
}

/** Some descriptor; -1 if there is none, which only makes refuse_one() wait. */
static int spare_new(void)
{
	return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

/** Out of descriptors: with the spare one take a connection off the queue and reset it. */
static bool refuse_one(struct worker *w, int listener)
{
	if (w->spare_fd < 0)
		return false;
	fd_close(&w->spare_fd);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		listener_reset(fd);
	w->spare_fd = spare_new();
	log_event(LOG_LEVEL_WARN, "descriptors", "worker=%u left=none", w->context->index);
	return fd >= 0;
}

void listener_accept(struct worker *w, int listener, listener_take *take)
{
	for (unsigned i = 0; i < LISTENER_TURN_ACCEPTS; i++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer);
		int fd = accept4(
			listener, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			take(w, fd, &peer);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE) {
			if (!refuse_one(w, listener))
				return;
			continue;
		}
		/* Of those that end in errors of the connection the queue may hold more. */
		if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EBADF || errno == EINVAL)
			return;
	}
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
	const struct listener *l = poll->data;
	(void)status; /* accept4() says it, too */
	(void)events;
	listener_accept(l->worker, l->fd, l->take);
}

static int watch(struct worker *w, struct listener *l, struct failure *why)
{
	int on = 1;
	l->worker = w;
	l->poll.data = l;
	if (l->fd < 0)
		return 0;
	int flags = fcntl(l->fd, F_GETFL);
	if (flags < 0 || fcntl(l->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return failure_errno(why, -errno, "the listener");
	/* Speed only; what it accepts has it as well. */
	(void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	int r = uv_poll_init(&w->loop, &l->poll, l->fd);
	return r < 0 ? failure_set(why, r, "the listener can't be watched") : 0;
}

int listener_start(struct worker *w, struct failure *why)
{
	int r = 0;
	w->spare_fd = spare_new();
	w->listeners[WORKER_EXPLICIT] =
		(struct listener){.fd = w->context->explicit_fd, .take = take_explicit};
	w->listeners[WORKER_TRANSPARENT] =
		(struct listener){.fd = w->context->transparent_fd, .take = take_transparent};
	for (size_t i = 0; i < WORKER_LISTENERS && r == 0; i++)
		r = watch(w, &w->listeners[i], why);
	if (w->context->explicit_fd >= 0)
		listener_name(&w->listeners[WORKER_EXPLICIT]);
	return r;
}

void listener_serve(struct worker *w)
{
	for (size_t i = 0; i < WORKER_LISTENERS; i++) {
		if (w->listeners[i].fd >= 0)
			(void)uv_poll_start(&w->listeners[i].poll, UV_READABLE,
				on_listener); /* open, with a callback: can't fail */
	}
}

void listener_stop(struct worker *w)
{
	for (size_t i = 0; i < WORKER_LISTENERS; i++) {
		if (w->listeners[i].fd < 0)
			continue;
		(void)uv_poll_stop(&w->listeners[i].poll); /* can't fail */
		/* The socket is super's, too, and takes no connection all the same: who comes is refused at once. */
		(void)shutdown(w->listeners[i].fd, SHUT_RDWR); /* it is one that listens */
	}
}
