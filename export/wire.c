/*
 * See wire.h. Why an end counts: a program that closes its socket, or dies, while bytes wait there unread makes its kernel answer with a
 * reset and not with an end (RFC 2525, 2.17; RFC 9293, 3.10.4), and bytes that come later are never acknowledged.
 */
#include "export/wire_io.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <limits.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define REACH_BYTES_MIN ((uint64_t)1 << 20) /* what is given again at least */
#define DISCARD_BYTES   4096

struct wire {
	int fd;
	struct tls_link *tls; /* NULL: none */
	unsigned timeout_ms;
	uint64_t written; /* without TLS */
	uint64_t
		window_max; /* the largest that the receiver offered; UINT64_MAX: the kernel can't tell */
};

/** Wait for the socket. @return 0, -ETIMEDOUT, another negative errno. */
static int await(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd wait = {.fd = fd, .events = events};
	for (;;) {
		uint64_t now = clock_monotonic_ns();
		uint64_t left_ms = now >= deadline_ns ? 0 : (deadline_ns - now) / NS_PER_MS + 1;
		int r = poll(&wait, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
		if (r > 0)
			return 0;
		if (r == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

static uint64_t deadline_in(unsigned ms)
{
	return clock_monotonic_ns() + ms * NS_PER_MS;
}

/** @return a connected descriptor, or negative errno. */
static int dial(const struct addrinfo *a, unsigned timeout_ms)
{
	int one = 1, error = 0;
	socklen_t len = sizeof(error);
	auto_fd fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* only faster */
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
		if (errno != EINPROGRESS)
			return -errno;
		int r = await(fd, POLLOUT, deadline_in(timeout_ms));
		if (r < 0)
			return r;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0)
			return error != 0 ? -error : -errno;
	}
	return fd_take(&fd);
}

/** Each address of the name until one answers. @return descriptor or negative errno with a line. */
static int dial_name(const struct wire_options *o, struct failure *why)
{
	char port[8];
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *all;
	(void)snprintf(port, sizeof(port), "%u", o->port);
	int r = getaddrinfo(o->host, port, &hints, &all);
	if (r != 0)
		return failure_set(why, -EHOSTUNREACH, "%s: %s", o->host,
			r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
	int fd = -EHOSTUNREACH;
	for (const struct addrinfo *a = all; a != NULL && fd < 0; a = a->ai_next)
		fd = dial(a, o->timeout_ms);
	freeaddrinfo(all);
	return fd < 0 ? failure_errno(why, fd, "%s port %u", o->host, o->port) : fd;
}

/** What TLS wants of the socket. */
static int await_tls(const struct wire *w, int wants, uint64_t deadline_ns)
{
	return await(w->fd, wants == TLS_STEP_WANTS_READ ? POLLIN : POLLOUT, deadline_ns);
}

static bool wants(int r)
{
	return r == TLS_STEP_WANTS_READ || r == TLS_STEP_WANTS_WRITE;
}

static int handshake(struct wire *w, const struct tls_client *t, struct failure *why)
{
	uint64_t deadline_ns = deadline_in(w->timeout_ms);
	int r = tls_link_new(t, w->fd, &w->tls);
	if (r < 0)
		return failure_errno(why, r, "TLS");
	while (wants(r = tls_link_handshake(w->tls, why))) {
		r = await_tls(w, r, deadline_ns);
		if (r < 0)
			return failure_errno(why, r, "TLS handshake");
	}
	return r < 0 ? r : 0;
}

int wire_connect(const struct wire_options *o, struct wire **ret, struct failure *why)
{
	struct wire *w = calloc(1, sizeof(*w));
	if (w == NULL)
		return failure_errno(why, -ENOMEM, "%s", o->host);
	w->timeout_ms = o->timeout_ms;
	w->fd = dial_name(o, why);
	int r = w->fd < 0 ? w->fd : 0;
	if (r == 0 && o->tls != NULL)
		r = handshake(w, o->tls, why);
	if (r < 0) {
		wire_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void wire_free(struct wire *w)
{
	if (w == NULL)
		return;
	tls_link_free(w->tls);
	fd_close(&w->fd);
	free(w);
}

/** One piece. @return bytes, enum tls_step, negative errno with a line. */
static int write_some(struct wire *w, struct slice text, struct failure *why)
{
	if (w->tls != NULL)
		return tls_link_write(w->tls, text, why);
	ssize_t put = send(w->fd, text.ptr, text.len > INT_MAX ? INT_MAX : text.len, MSG_NOSIGNAL);
	if (put >= 0) {
		w->written += (uint64_t)put;
		return (int)put;
	}
	if (errno == EAGAIN || errno == EINTR)
		return TLS_STEP_WANTS_WRITE;
	return failure_errno(why, -errno, "sending");
}

int wire_write(struct wire *w, struct slice text, struct failure *why)
{
	uint64_t deadline_ns = deadline_in(w->timeout_ms);
	while (text.len > 0) {
		int r = write_some(w, text, why);
		if (r > 0) {
			text = slice_part(text, (size_t)r, text.len);
			deadline_ns = deadline_in(w->timeout_ms);
			continue;
		}
		if (r == 0)
			return failure_set(why, -ECONNRESET, "sending: the receiver ended TLS");
		if (!wants(r))
			return r;
		r = await_tls(w, r, deadline_ns);
		if (r < 0)
			return failure_errno(why, r, "sending: the receiver takes nothing");
	}
	return 0;
}

uint64_t wire_position(const struct wire *w)
{
	return w->tls != NULL ? tls_link_written(w->tls) : w->written;
}

/** Read what there is and throw it away. @return bytes, 0 at the end, enum tls_step, negative errno with a line. */
static int read_some(struct wire *w, struct failure *why)
{
	char discarded[DISCARD_BYTES];
	if (w->tls != NULL)
		return tls_link_read(w->tls, discarded, sizeof(discarded), why);
	ssize_t got = recv(w->fd, discarded, sizeof(discarded), 0);
	if (got >= 0)
		return (int)got;
	if (errno == EAGAIN || errno == EINTR)
		return TLS_STEP_WANTS_READ;
	return failure_errno(why, -errno, "connection");
}

int wire_check(struct wire *w, unsigned wait_ms, struct failure *why)
{
	uint64_t deadline_ns = deadline_in(wait_ms);
	for (;;) {
		int r = read_some(w, why);
		if (r == 0)
			return failure_set(why, -ECONNRESET, "the receiver closed the connection");
		if (r < 0 && !wants(r))
			return r;
		if (r > 0)
			continue;
		r = wait_ms == 0 ? -ETIMEDOUT : await_tls(w, r, deadline_ns);
		if (r == -ETIMEDOUT)
			return 0;
		if (r < 0)
			return failure_errno(why, r, "connection");
	}
}

/** What the receiver's kernel has not acknowledged. */
static uint64_t unacknowledged(const struct wire *w)
{
	int queued;
	return ioctl(w->fd, SIOCOUTQ, &queued) < 0 || queued < 0 ? UINT64_MAX : (uint64_t)queued;
}

/** A kernel takes a little more than it offers, and its offer may have been larger between two looks. */
static uint64_t reach(const struct wire *w)
{
	uint64_t most = w->window_max + w->window_max / 4;
	return most < REACH_BYTES_MIN ? REACH_BYTES_MIN : most;
}

uint64_t wire_read_up_to(struct wire *w)
{
	struct tcp_info info = {.tcpi_snd_wnd = 0};
	socklen_t len = sizeof(info);
	uint64_t queued = unacknowledged(w), position = wire_position(w);
	if (getsockopt(w->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
		len < offsetof(struct tcp_info, tcpi_snd_wnd) + sizeof(info.tcpi_snd_wnd))
		return 0; /* older than 5.4: only an end tells */
	if (info.tcpi_snd_wnd > w->window_max)
		w->window_max = info.tcpi_snd_wnd;
	return queued > position || position - queued < reach(w) ? 0 : position - queued - reach(w);
}

bool wire_may_tell(const struct wire *w, uint64_t place)
{
	return w->window_max > 0 && wire_position(w) - place >= reach(w);
}

/** Behind TLS's end comes TCP's: an end, or a reset. @return as read_some(). */
static int read_raw(const struct wire *w, struct failure *why)
{
	char discarded[DISCARD_BYTES];
	ssize_t got = recv(w->fd, discarded, sizeof(discarded), 0);
	if (got >= 0)
		return (int)got;
	if (errno == EAGAIN || errno == EINTR)
		return TLS_STEP_WANTS_READ;
	return failure_errno(why, -errno, "ending");
}

/** Until the receiver's end. @return 0 or negative errno with a line. */
static int await_end(struct wire *w, uint64_t deadline_ns, struct failure *why)
{
	bool tls_ended = w->tls == NULL;
	for (;;) {
		struct failure said = {0};
		int r = tls_ended ? read_raw(w, &said) : read_some(w, &said);
		if (r == 0 && tls_ended)
			return 0;
		if (r == -EPIPE && !tls_ended)
			return 0; /* TCP ended, TLS did not say so */
		if (r == 0)
			tls_ended = true;
		else if (r < 0 && !wants(r))
			return failure_set(why, r, "%s", said.text);
		else if (r < 0) {
			r = await_tls(w, r, deadline_ns);
			if (r < 0)
				return failure_errno(
					why, r, "ending: the receiver does not end the connection");
		}
	}
}

int wire_finish(struct wire *w, unsigned wait_ms, struct failure *why)
{
	uint64_t deadline_ns = deadline_in(wait_ms);
	int r = 0;
	while (w->tls != NULL && wants(r = tls_link_close(w->tls, why))) {
		r = await_tls(w, r, deadline_ns);
		if (r < 0)
			return failure_errno(why, r, "ending TLS");
	}
	if (r < 0)
		return r;
	if (shutdown(w->fd, SHUT_WR) < 0)
		return failure_errno(why, -errno, "ending");
	r = await_end(w, deadline_ns, why);
	if (r == 0 && unacknowledged(w) != 0)
		return failure_set(
			why, -ECONNRESET, "ending: the receiver went away before it took all");
	return r;
}
