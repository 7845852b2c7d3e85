/* Streams: how much is read at once, what silence is, and that what waits in those of one owner is counted. */
#include "tests/unit/tls_lab.h"

#include "proxy/limits.h"
#include "proxy/stream.h"

#define MUCH ((size_t)4 * STREAM_BUFFER_BYTES)

struct loop {
	uv_loop_t loop;
	struct poller poller;
};

static void loop_open(struct loop *l)
{
	assert_int_equal(uv_loop_init(&l->loop), 0);
	assert_int_equal(poller_open(&l->poller, &l->loop), 0);
}

static void loop_close(struct loop *l)
{
	poller_close(&l->poller);
	assert_int_equal(uv_loop_close(&l->loop), 0);
}

struct end {
	struct stream *stream;
	int peer;
};

static void wake(void *arg)
{
	(void)arg;
}

/** A stream whose peer has said as much as the socket takes. */
static struct end end_open(struct poller *poller, struct stream_account *account)
{
	static const char bytes[4096];
	int fds[2];
	int size = (int)MUCH;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	size_t sent = 0;
	while (sent < MUCH && send(fds[1], bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
		sent += sizeof(bytes);
	assert_true(sent > STREAM_BUFFER_BYTES);
	struct end e = {stream_new(poller, fds[0], wake, NULL), fds[1]};
	assert_non_null(e.stream);
	e.stream->account = account;
	return e;
}

/** Read until it has no room. @return how much waits. */
static size_t fill(struct stream *s)
{
	for (size_t before = SIZE_MAX; before != buf_len(&s->in);) {
		before = buf_len(&s->in);
		(void)stream_fill(s);
	}
	stream_watch(s, true);
	return buf_len(&s->in);
}

static void end_close(struct end *e)
{
	stream_free(e->stream);
	fd_close(&e->peer);
}

static void what_waits_is_counted_and_streams_shrink_over_the_limit(void **state)
{
	(void)state;
	struct loop l;
	struct stream_account account = {.limit = STREAM_BUFFER_BYTES};
	loop_open(&l);
	struct end greedy = end_open(&l.poller, &account);
	struct end late = end_open(&l.poller, &account);
	struct end stranger = end_open(&l.poller, NULL);
	assert_int_equal(fill(greedy.stream), STREAM_BUFFER_BYTES);
	assert_int_equal(account.bytes, STREAM_BUFFER_BYTES);
	assert_int_equal(fill(late.stream), STREAM_READ_BYTES);
	assert_int_equal(stream_room(late.stream), STREAM_READ_BYTES);
	assert_int_equal(fill(stranger.stream), STREAM_BUFFER_BYTES);
	assert_int_equal(account.bytes, STREAM_BUFFER_BYTES + STREAM_READ_BYTES);
	/* nobody waits for another's bytes for ever: each goes on with what it may hold */
	buf_consume(&late.stream->in, STREAM_READ_BYTES);
	assert_int_equal(fill(late.stream), STREAM_READ_BYTES);
	end_close(&greedy);
	assert_int_equal(account.bytes, STREAM_READ_BYTES);
	assert_int_equal(fill(late.stream), STREAM_BUFFER_BYTES);
	end_close(&late);
	assert_int_equal(account.bytes, 0);
	end_close(&stranger);
	loop_close(&l);
}

static void more_is_read_at_once_where_much_comes(void **state)
{
	(void)state;
	struct loop l;
	loop_open(&l);
	struct end e = end_open(&l.poller, NULL);
	assert_true(stream_fill(e.stream));
	assert_int_equal(buf_len(&e.stream->in), STREAM_READ_BYTES); /* as if it were little */
	buf_clear(&e.stream->in);
	assert_true(stream_fill(e.stream));
	assert_int_equal(buf_len(&e.stream->in), STREAM_BUFFER_BYTES);
	while (e.stream->readable) { /* what is left */
		buf_clear(&e.stream->in);
		(void)stream_fill(e.stream);
	}
	char *much = calloc(1, STREAM_BUFFER_BYTES);
	assert_non_null(much);
	buf_clear(&e.stream->in);
	assert_int_equal(send(e.peer, much, STREAM_BUFFER_BYTES, 0), STREAM_BUFFER_BYTES);
	free(much);
	e.stream->readable = true; /* as the loop says */
	assert_true(stream_fill(e.stream));
	assert_int_equal(buf_len(&e.stream->in), STREAM_READ_BYTES); /* begins anew */
	end_close(&e);
	loop_close(&l);
}

/** A stream that nothing was said to. */
static struct end end_silent(struct poller *poller)
{
	int fds[2];
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	struct end e = {stream_new(poller, fds[0], wake, NULL), fds[1]};
	assert_non_null(e.stream);
	return e;
}

static void a_byte_or_an_end_breaks_silence(void **state)
{
	(void)state;
	struct loop l;
	loop_open(&l);
	struct end speaks = end_silent(&l.poller);
	struct end ends = end_silent(&l.poller);
	assert_true(stream_is_silent(speaks.stream));
	assert_false(speaks.stream->readable);
	assert_true(stream_is_silent(speaks.stream)); /* whatever was known before */
	assert_int_equal(send(speaks.peer, "x", 1, 0), 1);
	assert_false(stream_is_silent(speaks.stream));
	assert_false(stream_is_silent(speaks.stream)); /* it waits in the buffer */
	assert_true(stream_is_silent(ends.stream));
	fd_close(&ends.peer);
	assert_false(stream_is_silent(ends.stream));
	assert_true(ends.stream->ended);
	end_close(&speaks);
	end_close(&ends);
	loop_close(&l);
}

/** A stream inside of TLS, towards a host that is @far. */
static struct stream *tls_open(struct poller *poller, struct tls_upstream_context *c,
	struct far *far, const struct lab *leaf)
{
	struct host host;
	struct tls_session *session;
	int size = (int)MUCH;
	far_open(far, TLS_server_method());
	assert_int_equal(setsockopt(far->fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	assert_int_equal(SSL_use_certificate(far->ssl, leaf->certificate), 1);
	assert_int_equal(SSL_use_PrivateKey(far->ssl, leaf->key), 1);
	SSL_set_accept_state(far->ssl);
	struct stream *s = stream_new(poller, far->our_fd, wake, NULL);
	assert_int_equal(host_parse(SLICE("allowed.test"), &host), 0);
	assert_int_equal(tls_session_new_upstream(c, s->fd, &host, &session, NULL), 0);
	stream_start_tls(s, session);
	for (int i = 0; s->handshaking || !SSL_is_init_finished(far->ssl); i++) {
		assert_in_range(i, 0, ROUNDS_MAX);
		if (s->handshaking)
			(void)stream_handshake(s);
		(void)SSL_do_handshake(far->ssl);
		ERR_clear_error();
	}
	far->our_fd = -1; /* the stream's */
	return s;
}

/** Sixteen bytes tell where they are. */
static void pattern(char *to, size_t len)
{
	for (size_t i = 0; i + 16 <= len; i += 16)
		(void)snprintf(to + i, 16, "%015zu", i);
}

static void records_that_come_together_are_read_and_sent_together(void **state)
{
	(void)state;
	static char text[4 * SSL3_RT_MAX_PLAIN_LENGTH], back[sizeof(text)];
	struct loop l;
	struct far far;
	struct tls_upstream_context *c;
	struct lab authority =
		lab_make(NULL, &(struct wish){.common_name = "lab", .constraints = ""});
	struct lab leaf = lab_make(&authority, &(struct wish){.san = "DNS:allowed.test"});
	auto_fd roots = pem_fd(authority.certificate);
	assert_int_equal(tls_upstream_context_new(roots, -1, &c, NULL), 0);
	loop_open(&l);
	struct stream *s = tls_open(&l.poller, c, &far, &leaf);
	pattern(text, sizeof(text));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(SSL_write(far.ssl, text, sizeof(text)), sizeof(text));
		s->readable = true; /* as the loop would say */
		assert_true(stream_fill(s));
		if (i > 0) /* no tickets before the first record */
			assert_true(buf_len(&s->in) > STREAM_READ_BYTES);
		assert_int_equal(fill(s), sizeof(text));
		assert_memory_equal(buf_slice(&s->in).ptr, text, sizeof(text));
		assert_int_equal(buf_append(&s->out, buf_slice(&s->in)), 0);
		buf_clear(&s->in);
		assert_true(stream_flush(s));
		assert_int_equal(buf_len(&s->out), 0);
		for (size_t at = 0; at < sizeof(back);) {
			int n = SSL_read(far.ssl, back + at, (int)(sizeof(back) - at));
			assert_true(n > 0);
			at += (size_t)n;
		}
		assert_memory_equal(back, text, sizeof(text));
	}
	stream_free(s);
	loop_close(&l);
	far_close(&far);
	tls_upstream_context_free(c);
	lab_free(&leaf);
	lab_free(&authority);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_is_read_at_once_where_much_comes),
		cmocka_unit_test(a_byte_or_an_end_breaks_silence),
		cmocka_unit_test(records_that_come_together_are_read_and_sent_together),
		cmocka_unit_test(what_waits_is_counted_and_streams_shrink_over_the_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
