/* See dns.h: what UDP and TCP have in common, and UDP. */
#include "proxy/dns.h"

#include "proxy/dns_state.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <fcntl.h>
#include <sys/socket.h>

#define SECOND_MS 1000

struct dns_client *dns_client_of(struct sandbox *s)
{
	if (s->dns == NULL)
		s->dns = calloc(1, sizeof(*s->dns));
	return s->dns;
}

static void write_notes(struct sandbox *s, void *arg)
{
	if (s->dns != NULL)
		dns_notes_write(ptr_take(s->dns->notes), arg, s);
}

static void on_notes(uv_timer_t *timer)
{
	struct worker *w = timer->data;
	ident_each(&w->ident, write_notes, w);
}

static void note(struct worker *w, struct sandbox *s, const struct dns_from *from,
	const struct dns_question *q, const struct dns_reply *reply)
{
	const struct dns_asked asked = {.question = q,
		.reply = reply,
		.source = from->source,
		.source_port = from->source_port,
		.proxy = w->dns->address,
		.proxy_port = w->dns->port,
		.udp = from->udp};
	dns_note(s->dns->notes, w, s, &asked);
	if (!uv_is_active((uv_handle_t *)&w->dns->notes))
		(void)uv_timer_start(&w->dns->notes, on_notes, w->limits.note_ms,
			0); /* has a callback, so can't fail */
}

/** Where notes go. @return false: no memory, and what can't be recorded is not done. */
static bool has_notes(struct sandbox *s)
{
	struct dns_client *c = dns_client_of(s);
	if (c != NULL && c->notes == NULL)
		c->notes = dns_notes_new();
	return c != NULL && c->notes != NULL;
}

/** Count a question. @return whether the sandbox may ask one more in this second. */
static bool may_ask(const struct worker *w, struct dns_client *c)
{
	uint64_t now_ms = uv_now(&w->loop);
	if (now_ms - c->second_ms >= SECOND_MS) {
		c->second_ms = now_ms;
		c->questions = 0;
	}
	return ++c->questions <= w->limits.questions;
}

/** Why a name that has no address yet gets none. */
static enum reason fullness(const struct worker *w, const struct dns_client *c)
{
	if (!audit_ring_has_room(w->context->ring, 0))
		return REASON_DENY_AUDIT_FULL;
	return dns_notes_have_room(c->notes) ? REASON_ALLOW_RULE : REASON_DENY_LIMIT;
}

size_t dns_respond(struct worker *w, struct sandbox *s, const struct dns_from *from,
	struct slice message, char to[static DNS_MESSAGE_BYTES_MAX])
{
	struct dns_question q = {0};
	struct dns_reply reply;
	int parsed = dns_question_parse(message, &q);
	if (!has_notes(s))
		return 0;
	if (parsed == -EBADMSG) {
		dns_complain(w, s, from, REASON_DENY_PROTOCOL, "what came is no question");
		return 0;
	}
	if (may_ask(w, s->dns)) {
		const struct dns_asker asker = {.profile = s->profile,
			.synthetic = w->context->synthetic,
			.sandbox = s->budget,
			.now_ms = clock_wall_ms(),
			.full = fullness(w, s->dns)};
		dns_reply_make(&asker, &q, parsed, &reply);
	} else {
		dns_reply_refuse(REASON_DENY_RATE,
			"the sandbox asks for more names in a second than it may", &reply);
	}
	if (reply.recorded)
		note(w, s, from, &q, &reply);
	size_t room = from->udp ? dns_answer_room(&q) : DNS_MESSAGE_BYTES_MAX;
	return dns_answer_write(&q, &reply.answer, to, room);
}

void dns_complain(struct worker *w, struct sandbox *s, const struct dns_from *from,
	enum reason reason, const char *text)
{
	const struct dns_question nothing = {0};
	struct dns_reply reply;
	dns_reply_refuse(reason, text, &reply);
	if (has_notes(s))
		note(w, s, from, &nothing, &reply);
}

/** One datagram. @return false: there is none. */
static bool answer_datagram(struct worker *w, int fd)
{
	char in[DNS_MESSAGE_BYTES_MAX + 1], out[DNS_MESSAGE_BYTES_MAX];
	struct sockaddr_storage peer;
	socklen_t peer_len = sizeof(peer);
	struct dns_from from = {.udp = true};
	ssize_t len =
		recvfrom(fd, in, sizeof(in), MSG_DONTWAIT, (struct sockaddr *)&peer, &peer_len);
	if (len < 0)
		return errno != EAGAIN && errno != EWOULDBLOCK && errno != EBADF;
	if (address_from_sockaddr((struct sockaddr *)&peer, &from.source, &from.source_port) < 0)
		return true;
	struct sandbox *s = ident_find(&w->ident, &from.source);
	if (s == NULL) /* not, or no longer, a sandbox of this worker */
		return true;
	/* One that is too long has bytes behind its end, however long it is: it is malformed. */
	size_t answer_len = dns_respond(w, s, &from, (struct slice){in, (size_t)len}, out);
	if (answer_len > 0) /* a lost answer is asked for again, as one is that the net lost */
		(void)sendto(fd, out, answer_len, MSG_DONTWAIT | MSG_NOSIGNAL,
			(struct sockaddr *)&peer, peer_len);
	return true;
}

static void on_udp(uv_poll_t *poll, int status, int events)
{
	struct worker *w = poll->data;
	(void)status; /* receiving says it, too */
	(void)events;
	for (unsigned i = 0; i < DNS_TURN_QUESTIONS; i++) {
		if (!answer_datagram(w, w->context->dns_udp_fd))
			return;
	}
}

static int watch(struct worker *w, uv_poll_t *poll, int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	poll->data = w;
	return uv_poll_init(&w->loop, poll, fd);
}

int dns_start(struct worker *w, struct failure *why)
{
	struct sockaddr_storage own;
	socklen_t len = sizeof(own);
	if (w->context->dns_udp_fd < 0)
		return 0;
	w->dns = calloc(1, sizeof(*w->dns));
	if (w->dns == NULL)
		return failure_errno(why, -ENOMEM, "DNS");
	(void)uv_timer_init(&w->loop, &w->dns->notes); /* can't fail */
	w->dns->notes.data = w;
	int r = watch(w, &w->dns->udp, w->context->dns_udp_fd);
	if (r == 0)
		r = watch(w, &w->dns->tcp, w->context->dns_tcp_fd);
	if (r == 0 && getsockname(w->context->dns_udp_fd, (struct sockaddr *)&own, &len) < 0)
		r = -errno;
	if (r == 0)
		r = address_from_sockaddr((struct sockaddr *)&own, &w->dns->address, &w->dns->port);
	return r < 0 ? failure_errno(why, r, "the sockets of DNS can't be watched") : 0;
}

void dns_serve(struct worker *w)
{
	if (w->dns == NULL)
		return;
	(void)uv_poll_start(&w->dns->udp, UV_READABLE, on_udp); /* open: can't fail */
	(void)uv_poll_start(&w->dns->tcp, UV_READABLE, dns_tcp_accept);
}

void dns_stop(struct worker *w)
{
	if (w->dns == NULL)
		return;
	(void)uv_poll_stop(&w->dns->udp); /* can't fail */
	(void)uv_poll_stop(&w->dns->tcp);
}

void dns_forget(struct worker *w, struct sandbox *s)
{
	struct dns_client *c = ptr_take(s->dns);
	if (c == NULL)
		return;
	dns_tcp_close_all(c);
	dns_notes_write(c->notes, w, s);
	free(c);
}

void dns_end(struct worker *w)
{
	free(ptr_take(w->dns));
}
