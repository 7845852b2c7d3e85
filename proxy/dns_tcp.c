/*
 * DNS over TCP (RFC 7766): messages after their length, one after the other, answered in order. A connection has
 * limits.question_ms for each question, and as long until the next one has come whole; then it is closed.
 */
#include "proxy/dns_state.h"

#include "common/cleanup.h"
#include "proxy/stream.h"

#include <sys/socket.h>

#define LENGTH_BYTES 2

struct dns_connection {
	struct dns_connection *next, **at; /* in the client's list */
	struct worker *worker;
	struct sandbox *sandbox;
	struct dns_from from;
	struct stream *stream;
	uv_timer_t timer;
};

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void connection_close(struct dns_connection *c)
{
	*c->at = c->next;
	if (c->next != NULL)
		c->next->at = c->at;
	c->sandbox->dns->connections--;
	stream_free(ptr_take(c->stream));
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

void dns_tcp_close_all(struct dns_client *client)
{
	struct dns_connection *next;
	for (struct dns_connection *c = client->first; c != NULL; c = next) {
		next = c->next;
		stream_free(ptr_take(c->stream));
		uv_close((uv_handle_t *)&c->timer, on_timer_closed);
	}
	client->first = NULL;
}

static void on_timer(uv_timer_t *timer)
{
	connection_close(timer->data);
}

static void await_question(struct dns_connection *c)
{
	(void)uv_timer_start(&c->timer, on_timer, c->worker->limits.question_ms,
		0); /* has a callback, so can't fail */
}

static void append(struct dns_connection *c, const char *answer, size_t len)
{
	char length[LENGTH_BYTES] = {(char)(len >> 8), (char)len};
	(void)buf_append(&c->stream->out, (struct slice){length, sizeof(length)});
	(void)buf_append(&c->stream->out, (struct slice){answer, len}); /* there is room */
}

enum question_result { QUESTION_ANSWERED, QUESTION_LAST, QUESTION_MORE, QUESTION_BAD };

/** Answer the first message, if it is there as a whole. */
static enum question_result answer_next(struct dns_connection *c)
{
	char out[DNS_MESSAGE_BYTES_MAX];
	struct slice in = buf_slice(&c->stream->in);
	if (in.len < LENGTH_BYTES)
		return QUESTION_MORE;
	size_t len = (size_t)(uint8_t)in.ptr[0] << 8 | (uint8_t)in.ptr[1];
	if (len > DNS_MESSAGE_BYTES_MAX) {
		dns_complain(c->worker, c->sandbox, &c->from, REASON_DENY_PROTOCOL,
			"the question is longer than one may be");
		return QUESTION_BAD;
	}
	if (in.len < LENGTH_BYTES + len)
		return QUESTION_MORE;
	struct slice message = slice_part(in, LENGTH_BYTES, LENGTH_BYTES + len);
	size_t answer_len = dns_respond(c->worker, c->sandbox, &c->from, message, out);
	if (answer_len == 0)
		return QUESTION_BAD;
	append(c, out, answer_len);
	buf_consume(&c->stream->in, LENGTH_BYTES + len);
	/* Whoever asks too much is told so once for each connection. */
	return c->sandbox->dns->questions > c->worker->limits.questions ? QUESTION_LAST
									: QUESTION_ANSWERED;
}

/** Answer what is there and fits. @return false: it is over. */
static bool answer_all(struct dns_connection *c, bool *ret_moved)
{
	struct stream *s = c->stream;
	while (stream_room(s) >= LENGTH_BYTES + DNS_MESSAGE_BYTES_MAX) {
		switch (answer_next(c)) {
		case QUESTION_ANSWERED:
			await_question(c);
			*ret_moved = true;
			break;
		case QUESTION_MORE:
			return true;
		case QUESTION_LAST:
			(void)stream_flush(s); /* all that is offered */
			return false;
		case QUESTION_BAD:
			return false;
		}
	}
	return true;
}

/** Until it waits; how often is bounded by limits.questions. @return false: it is over. */
static bool go_on(struct dns_connection *c)
{
	struct stream *s = c->stream;
	bool moved = true;
	while (moved) {
		moved = stream_flush(s);
		if (!answer_all(c, &moved))
			return false;
		moved |= stream_fill(s);
		if (s->broken || s->mute)
			return false;
	}
	if (s->ended && buf_len(&s->out) == 0)
		return false;
	stream_trim(s);
	stream_watch(s, true);
	return !s->broken;
}

static void connection_run(void *arg)
{
	struct dns_connection *c = arg;
	if (!go_on(c))
		connection_close(c);
}

static void connection_open(
	struct worker *w, struct sandbox *s, int fd, const struct dns_from *from)
{
	struct dns_connection *c = calloc(1, sizeof(*c));
	if (c != NULL)
		c->stream = stream_new(&w->poller, fd, connection_run, c);
	else
		(void)close(fd); /* nothing can be done about a failing close */
	if (c == NULL || c->stream == NULL) {
		free(c);
		return;
	}
	c->worker = w;
	c->sandbox = s;
	c->from = *from;
	(void)uv_timer_init(&w->loop, &c->timer); /* can't fail */
	c->timer.data = c;
	c->next = s->dns->first;
	c->at = &s->dns->first;
	if (c->next != NULL)
		c->next->at = &c->next;
	s->dns->first = c;
	s->dns->connections++;
	await_question(c);
	connection_run(c);
}

static void accepted(struct worker *w, int fd, const struct sockaddr_storage *peer)
{
	struct dns_from from = {0};
	struct sandbox *s = NULL;
	if (address_from_sockaddr((const struct sockaddr *)peer, &from.source, &from.source_port) ==
		0)
		s = ident_find(&w->ident, &from.source);
	struct dns_client *client = s != NULL ? dns_client_of(s) : NULL;
	if (client == NULL) {
		listener_reset(fd);
	} else if (client->connections >= DNS_CONNECTIONS_MAX) {
		dns_complain(w, s, &from, REASON_DENY_LIMIT,
			"the sandbox has as many connections for questions as it may have");
		listener_reset(fd);
	} else {
		connection_open(w, s, fd, &from);
	}
}

void dns_tcp_accept(uv_poll_t *poll, int status, int events)
{
	struct worker *w = poll->data;
	(void)status; /* accept4() says it, too */
	(void)events;
	listener_accept(w, w->context->dns_tcp_fd, accepted);
}
