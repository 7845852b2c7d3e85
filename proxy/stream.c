/* See stream.h. */
#include "proxy/stream.h"

#include "common/cleanup.h"

#include <assert.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Beyond the limit for payload: heads and what frames a payload. */
#define OUT_BYTES_MAX ((size_t)4 * STREAM_BUFFER_BYTES)
/* Once so many came at once, the next ones are read to where they stay. */
#define STREAM_MUCH_BYTES ((size_t)2048)

static void on_ready(struct poller_target *target, uint32_t events)
{
	struct stream *s = target->memory;
	bool over = (events & (EPOLLERR | EPOLLHUP)) != 0; /* reading or writing tells how */
	bool reads = over || (events & (EPOLLIN | EPOLLRDHUP)) != 0;
	bool writes = over || (events & EPOLLOUT) != 0;
	s->asked = false;
	s->stepwise |= over || (events & (EPOLLRDHUP | EPOLLPRI)) != 0;
	s->readable |= reads;
	s->writable |= writes;
	if ((reads && (s->wanted & STREAM_READS) != 0) ||
		(writes && (s->wanted & STREAM_WRITES) != 0))
		s->wake(s->arg);
}

struct stream *stream_new(struct poller *poller, int fd, stream_wake *wake, void *arg)
{
	struct stream *s = calloc(1, sizeof(*s));
	if (s == NULL) {
		fd_close(&fd);
		return NULL;
	}
	s->poller = poller;
	s->target = (struct poller_target){.ready = on_ready, .memory = s};
	s->fd = fd;
	s->wake = wake;
	s->arg = arg;
	s->readable = true;
	s->writable = true;
	buf_init(&s->in, STREAM_BUFFER_BYTES);
	buf_init(&s->out, OUT_BYTES_MAX);
	return s;
}

static void stream_count(struct stream *s, size_t bytes)
{
	if (s->account == NULL)
		return;
	s->account->bytes += bytes - s->counted;
	s->counted = bytes;
}

void stream_free(struct stream *s)
{
	if (s == NULL)
		return;
	tls_session_free(ptr_take(s->tls));
	stream_count(s, 0);
	fd_close(&s->fd);
	buf_fini(&s->in);
	buf_fini(&s->out);
	poller_let_go(s->poller, &s->target);
}

void stream_reset(struct stream *s)
{
	if (s == NULL)
		return;
	struct linger now = {.l_onoff = 1, .l_linger = 0};
	/* Fails only on a socket that is no longer connected, which is a reset already. */
	(void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	stream_free(s);
}

static bool stream_break(struct stream *s)
{
	s->broken = true;
	s->readable = false;
	buf_clear(&s->out);
	return true;
}

static size_t fill_room(const struct stream *s)
{
	size_t used = buf_len(&s->in);
	size_t capacity = stream_capacity(s);
	size_t room = used < capacity ? capacity - used : 0;
	size_t most = s->plenty ? STREAM_BUFFER_BYTES : STREAM_READ_BYTES;
	return room < most ? room : most;
}

/**
 * Where to read up to @room bytes: into the buffer, or into @little, so that what says little takes little memory.
 * @return NULL when out of memory.
 */
static char *fill_begin(struct stream *s, size_t room, char little[static STREAM_READ_BYTES])
{
	char *to;
	if (!s->much && room <= STREAM_READ_BYTES)
		return little;
	return buf_reserve(&s->in, room, &to) < 0 ? NULL : to;
}

/** @len bytes were read to where fill_begin() said. @return false: out of memory. */
static bool fill_end(struct stream *s, const char *from, size_t len, const char *little)
{
	s->much = len >= STREAM_MUCH_BYTES;
	if (from != little) {
		buf_grew(&s->in, len);
		return true;
	}
	return buf_append(&s->in, (struct slice){from, len}) == 0;
}

static bool receive(struct stream *s, int flags)
{
	char little[STREAM_READ_BYTES];
	size_t room = fill_room(s);
	char *to = fill_begin(s, room, little);
	ssize_t n;
	if (to == NULL)
		return stream_break(s);
	do {
		n = recv(s->fd, to, room, flags | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
		s->readable = false;
		return false;
	}
	if (n < 0)
		return stream_break(s);
	if (n == 0) {
		s->readable = false;
		s->ended = true;
		return true;
	}
	if (!fill_end(s, to, (size_t)n, little))
		return stream_break(s);
	s->plenty = (size_t)n == room;
	s->readable = s->plenty || s->stepwise; /* what had come already is not told again */
	if ((flags & MSG_PEEK) != 0)
		s->peeked = (size_t)n;
	return true;
}

static bool fill_tls(struct stream *s)
{
	char little[STREAM_READ_BYTES];
	size_t room = fill_room(s);
	size_t len = 0;
	char *to = fill_begin(s, room, little);
	if (to == NULL)
		return stream_break(s);
	switch (tls_read(s->tls, to, room, &len, &s->fault)) {
	case TLS_DONE:
		s->readable = tls_may_have_more(s->tls) || s->stepwise;
		return fill_end(s, to, len, little) || stream_break(s);
	case TLS_WANT_WRITE: /* only a renegotiation, which is off */
	case TLS_WANT_READ:
		s->readable = false;
		return false;
	case TLS_CLOSED:
		s->ended = true;
		s->readable = false;
		return true;
	case TLS_PARKED:
	case TLS_ERROR:
		return stream_break(s);
	}
	return stream_break(s);
}

bool stream_fill(struct stream *s)
{
	if (!s->readable || s->ended || s->broken || s->handshaking || fill_room(s) == 0)
		return false;
	assert(s->peeked == 0);
	if (s->tls == NULL)
		return receive(s, 0);
	bool progress = fill_tls(s);
	/* What came with it, so that it can go on by one write. */
	while (s->readable && tls_has_more(s->tls) && fill_room(s) == STREAM_READ_BYTES)
		progress |= fill_tls(s);
	return progress;
}

/** Nothing waits to be received, not even an end. */
static bool socket_is_empty(const struct stream *s)
{
	char byte;
	return recv(s->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) < 0 &&
		(errno == EAGAIN || errno == EWOULDBLOCK);
}

bool stream_is_silent(struct stream *s)
{
	bool more_inside = s->tls != NULL && tls_may_have_more(s->tls);
	s->readable = more_inside || !socket_is_empty(s);
	(void)stream_fill(s); /* which TLS may have all to itself */
	return buf_len(&s->in) == 0 && !s->ended && !s->broken && !s->mute;
}

bool stream_peek(struct stream *s)
{
	assert(s->tls == NULL);
	if (!s->readable || s->ended || s->broken || s->peeked > 0 || fill_room(s) == 0)
		return false;
	return receive(s, MSG_PEEK);
}

void stream_take(struct stream *s, size_t len)
{
	assert(len <= s->peeked);
	while (len > 0) {
		ssize_t n =
			recv(s->fd, NULL, len, MSG_TRUNC | MSG_DONTWAIT); /* tcp(7): thrown away */
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			(void)stream_break(s);
			break;
		}
		len -= (size_t)n;
		s->peeked -= (size_t)n;
	}
	buf_drop_end(&s->in, s->peeked);
	s->readable |= s->peeked > 0;
	s->peeked = 0;
}

size_t stream_discard(struct stream *s)
{
	if (!s->readable || s->broken)
		return 0;
	buf_clear(&s->in);
	ssize_t n = recv(s->fd, NULL, STREAM_BUFFER_BYTES, MSG_TRUNC | MSG_DONTWAIT); /* tcp(7) */
	s->readable = n == STREAM_BUFFER_BYTES || (n > 0 && s->stepwise);
	if (n > 0)
		return (size_t)n;
	if (n == 0)
		s->ended = true;
	else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
		(void)stream_break(s);
	return 0;
}

static bool send_plain(struct stream *s, struct slice text, size_t *ret_len)
{
	ssize_t n = send(s->fd, text.ptr, text.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n >= 0) {
		*ret_len = (size_t)n;
		return true;
	}
	if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK) {
		s->writable = false;
		return false;
	}
	s->mute = true;
	buf_clear(&s->out);
	return true;
}

static bool send_tls(struct stream *s, struct slice text, size_t *ret_len)
{
	switch (tls_write(s->tls, text, ret_len, &s->fault)) {
	case TLS_DONE:
		return true;
	case TLS_WANT_READ:
	case TLS_WANT_WRITE:
		s->writable = false;
		return false;
	case TLS_CLOSED:
	case TLS_PARKED:
	case TLS_ERROR:
		return stream_break(s);
	}
	return stream_break(s);
}

bool stream_flush(struct stream *s)
{
	bool progress = false;
	while (buf_len(&s->out) > 0 && s->writable && !s->broken && !s->handshaking) {
		size_t len = 0;
		struct slice text = buf_slice(&s->out);
		bool sent = s->tls != NULL ? send_tls(s, text, &len) : send_plain(s, text, &len);
		progress |= sent;
		if (!s->broken && !s->mute)
			buf_consume(&s->out, len);
	}
	return progress;
}

static ssize_t splice_some(int from, int to, size_t len)
{
	ssize_t n;
	do {
		n = splice(from, NULL, to, NULL, len, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
	} while (n < 0 && errno == EINTR);
	return n;
}

size_t stream_to_pipe(struct stream *s, int pipe_fd, size_t len)
{
	assert(s->tls == NULL && buf_len(&s->in) == 0);
	ssize_t n = splice_some(s->fd, pipe_fd, len);
	if (n > 0)
		return (size_t)n;
	s->readable = false;
	if (n == 0)
		s->ended = true;
	else if (errno != EAGAIN)
		(void)stream_break(s);
	return 0;
}

size_t stream_from_pipe(struct stream *s, int pipe_fd, size_t len)
{
	assert(s->tls == NULL && buf_len(&s->out) == 0);
	ssize_t n = splice_some(pipe_fd, s->fd, len);
	if (n > 0)
		return (size_t)n;
	s->writable = false;
	s->mute = n == 0 || errno != EAGAIN;
	return 0;
}

void stream_start_tls(struct stream *s, struct tls_session *session)
{
	assert(s->tls == NULL && buf_len(&s->out) == 0 && buf_len(&s->in) == 0);
	s->tls = session;
	s->handshaking = true;
	s->handshake_writes = false;
}

enum tls_result stream_handshake(struct stream *s)
{
	enum tls_result result = tls_handshake(s->tls, &s->fault);
	s->handshake_writes = result == TLS_WANT_WRITE;
	if (result == TLS_WANT_READ)
		s->readable = false;
	if (result == TLS_WANT_WRITE)
		s->writable = false;
	if (result == TLS_DONE) {
		s->handshaking = false;
		s->readable = true; /* what came behind the last handshake message */
	}
	if (result == TLS_ERROR)
		(void)stream_break(s);
	return result;
}

void stream_end_last(struct stream *s)
{
	if (s->said_end || s->broken || s->mute)
		return;
	s->said_end = true;
	/* If it can't be said now, the peer sees a connection without a proper end: a cut, never more. */
	if (s->tls != NULL && !s->handshaking)
		(void)tls_shutdown(s->tls);
}

void stream_end(struct stream *s)
{
	if (s->said_end || s->broken || s->mute)
		return;
	stream_end_last(s);
	(void)shutdown(s->fd, SHUT_WR); /* fails only where there is nobody to tell */
}

/** What it waits for. */
static unsigned wanted_of(const struct stream *s, bool reading)
{
	unsigned wanted = 0;
	if (s->broken)
		return 0;
	if (reading && !s->held && !s->ended && (s->handshaking || fill_room(s) > 0))
		wanted |= STREAM_READS;
	if ((buf_len(&s->out) > 0 || s->owed || s->handshake_writes) && !s->writable)
		wanted |= STREAM_WRITES;
	return wanted;
}

void stream_watch(struct stream *s, bool reading)
{
	stream_count(s, buf_len(&s->in) + buf_len(&s->out));
	s->wanted = wanted_of(s, reading);
	uint32_t events = s->watched | EPOLLIN | EPOLLPRI | EPOLLRDHUP;
	if ((s->wanted & STREAM_WRITES) != 0)
		events |= EPOLLOUT; /* of most sockets nobody ever asks that */
	/* What came while nobody wanted it is not told again, unless it is asked for. */
	bool ask = (s->wanted & STREAM_READS) != 0 && s->readable && !s->asked;
	if (s->wanted == 0 || (events == s->watched && !ask))
		return;
	if (poller_watch(s->poller, &s->target, s->fd, events, s->watched != 0) < 0) {
		(void)stream_break(s);
		return;
	}
	s->watched = events;
	s->asked = true;
}

void stream_trim(struct stream *s)
{
	if (buf_len(&s->in) == 0)
		buf_fini(&s->in);
	if (buf_len(&s->out) == 0)
		buf_fini(&s->out);
}
