/* A new tunnel's TLS towards the sandbox: hello parked and judged, leaf, handshake. See flow_state.h. */
#include "proxy/first_bytes.h"
#include "proxy/flow_state.h"

#include "common/clock.h"

#include <assert.h>

#define ESTABLISHED "HTTP/1.1 200 Connection established\r\n\r\n"

static int establish(struct flow *f)
{
	struct buf *out = &f->client->out;
	if (f->door == FLOW_DOOR_TRANSPARENT)
		return 0; /* it asked for none */
	if (f->door == FLOW_DOOR_SOCKS)
		return socks_write_reply(SOCKS_STAGE_REQUEST, SOCKS_SUCCEEDED, out);
	return buf_append_text(out, ESTABLISHED);
}

enum flow_progress flow_step_establish(struct flow *f)
{
	struct stream *c = f->client;
	if (buf_len(&c->out) == 0 && establish(f) < 0)
		return flow_reset(f, REASON_ERROR_INTERNAL, "out of memory");
	(void)stream_flush(c); /* what is left shows below */
	if (c->broken || c->mute)
		return flow_over(f, "the client went away before it got an answer");
	if (buf_len(&c->out) > 0)
		return FLOW_WAIT;
	c->readable = true;
	stream_trim(c);
	if (f->transport == POLICY_TCP)
		return flow_passage_begin(f);
	if (f->transport == POLICY_SPLICE)
		return flow_move(f, FLOW_SPLICE_HELLO);
	/* The client is busy with its ClientHello: a good moment for the 8 ms that the roots take, once. */
	struct failure why = {0};
	if (f->scheme == POLICY_SCHEME_HTTPS)
		(void)tls_upstream_context_load(
			f->worker->tls_world, &why); /* the session says it again */
	return flow_move(f, FLOW_HELLO);
}

static enum flow_progress hello_wait(struct flow *f)
{
	f->client->readable = false;
	return FLOW_WAIT;
}

static enum flow_progress hello_begin(struct flow *f)
{
	struct tls_session *session = NULL;
	if (tls_session_new_server(f->worker->tls_sandbox, f->client->fd, &session) < 0)
		return flow_reset(f, REASON_ERROR_INTERNAL, "out of memory");
	stream_start_tls(f->client, session);
	return FLOW_AGAIN;
}

static enum flow_progress refuse_noise(struct flow *f)
{
	return flow_refuse_silently(
		f, REASON_DENY_NOT_TLS, "the first bytes in the tunnel are no TLS handshake");
}

/** A request in the clear. The host is dialled as it is for TLS, and each request judged by itself. */
static enum flow_progress begin_plain(struct flow *f)
{
	struct policy_verdict v;
	if (flow_take_scheme(f, POLICY_SCHEME_HTTP, &v))
		return flow_tunnel_heard(f);
	struct policy_question q = flow_question(f);
	q.scheme = POLICY_SCHEME_HTTP;
	f->open = true; /* it speaks HTTP in here, and is answered in it */
	return flow_refuse_verdict(f, &v, &q, NULL);
}

enum flow_progress flow_not_tls(struct flow *f)
{
	struct stream *c = f->client;
	bool progress = stream_fill(c);
	switch (first_bytes_of(buf_slice(&c->in))) {
	case FIRST_BYTES_HTTP:
		return begin_plain(f);
	case FIRST_BYTES_MORE:
		if (c->ended || c->broken)
			break;
		return progress ? FLOW_AGAIN : FLOW_WAIT;
	case FIRST_BYTES_TLS:
	case FIRST_BYTES_OTHER:
		break;
	}
	return refuse_noise(f);
}

static enum flow_progress begin_tls(struct flow *f)
{
	struct policy_verdict v;
	if (!flow_take_scheme(f, POLICY_SCHEME_HTTPS, &v))
		return flow_refuse_hello(f, TLS_ALERT_ACCESS_DENIED, v.reason, v.detail);
	if (sandbox_may_handshake(f->sandbox, f->worker->limits.handshakes, clock_monotonic_ns()))
		return hello_begin(f);
	return flow_refuse_hello(f, TLS_ALERT_INTERNAL_ERROR, REASON_DENY_LIMIT,
		"this sandbox begins more TLS handshakes in a second than it may");
}

/** The first bytes decide whether this is TLS at all; of TLS they stay in the socket. */
static enum flow_progress hello_first(struct flow *f)
{
	if (buf_len(&f->client->in) > 0)
		return flow_not_tls(f);
	switch (tls_peek(f->client->fd)) {
	case TLS_PEEK_NOTHING:
		return hello_wait(f);
	case TLS_PEEK_CLOSED:
		return flow_over(f, "the client closed the tunnel before TLS began");
	case TLS_PEEK_OTHER:
		return flow_not_tls(f);
	case TLS_PEEK_TLS:
		break;
	}
	return begin_tls(f);
}

static enum flow_progress hello_refused(struct flow *f, enum reason reason, const char *detail)
{
	(void)stream_handshake(f->client); /* sends the alert; says TLS_ERROR */
	return flow_refuse_silently(f, reason, detail);
}

static enum flow_progress hello_named(struct flow *f)
{
	if (tls_session_offers_http1(f->client->tls))
		return flow_tunnel_heard(f);
	tls_session_refuse_protocol(f->client->tls);
	return hello_refused(f, REASON_DENY_PROTOCOL,
		"the client offers protocols by ALPN, and HTTP/1.1, which this proxy speaks, is none of them");
}

static enum flow_progress hello_judge(struct flow *f)
{
	struct host name;
	enum reason reason = flow_mismatch(f, REASON_DENY_SNI_MISMATCH);
	const char *detail = "the ClientHello does not name the tunnel's host";
	switch (tls_session_hello(f->client->tls, &name)) {
	case TLS_HELLO_NO_NAME: /* the CONNECT target stands for it */
		if (f->door != FLOW_DOOR_TRANSPARENT || f->host.kind == HOST_ADDRESS)
			return hello_named(f);
		reason = REASON_DENY_NO_SNI;
		detail = "the ClientHello names no host";
		break;
	case TLS_HELLO_NAME:
		if (host_equal(&name, &f->host))
			return hello_named(f);
		struct record_words words = {.claims = slice_of(name.name)};
		record_describe(&f->connect_record, &words);
		break;
	case TLS_HELLO_MALFORMED:
		break;
	}
	tls_session_refuse(f->client->tls);
	return hello_refused(f, reason, detail);
}

static enum flow_progress handshake_failed(struct flow *f)
{
	return flow_refuse_silently(f, f->client->fault.reason, f->client->fault.detail);
}

enum flow_progress flow_step_hello(struct flow *f)
{
	if (f->client->tls == NULL)
		return hello_first(f);
	switch (stream_handshake(f->client)) {
	case TLS_PARKED:
		return hello_judge(f);
	case TLS_WANT_READ:
	case TLS_WANT_WRITE:
		return FLOW_WAIT;
	case TLS_DONE:
	case TLS_CLOSED:
	case TLS_ERROR:
		break;
	}
	return handshake_failed(f);
}

static void on_leaf(void *flow, bool failed)
{
	struct flow *f = flow;
	f->leaf_failed = failed;
	flow_run(f);
}

enum flow_progress flow_step_leaf(struct flow *f)
{
	const struct leaf_place place = {f->sandbox->id, &f->host};
	struct leaf *leaf = keeper_client_find(f->worker->keeper, &place);
	if (leaf != NULL) {
		if (tls_session_use_leaf(f->client->tls, leaf) < 0)
			return flow_refuse_silently(
				f, REASON_ERROR_INTERNAL, "the certificate can't be used");
		return flow_move(f, FLOW_CLIENT_TLS);
	}
	if (f->leaf.at != NULL)
		return FLOW_WAIT;
	if (!f->leaf_failed) {
		f->leaf.wake = on_leaf;
		f->leaf.arg = f;
		f->leaf_failed = keeper_client_ask(f->worker->keeper, &place, &f->leaf) < 0;
	}
	if (f->leaf_failed)
		return flow_refuse_silently(
			f, REASON_ERROR_INTERNAL, "no certificate for this host could be made");
	return FLOW_WAIT;
}

/** The client gave up, usually since it does not trust the run's CA; or what it offers is not taken here, of which OpenSSL sent an alert. */
static enum flow_progress client_failed(struct flow *f)
{
	metrics_add(f->worker->metrics, METRICS_CLIENT_TLS_FAILED, 1);
	if (!f->client->fault.by_peer)
		return handshake_failed(f);
	f->cut = f->client->broken;
	return flow_over(f, f->client->fault.detail);
}

enum flow_progress flow_step_client_tls(struct flow *f)
{
	switch (stream_handshake(f->client)) {
	case TLS_DONE:
		f->open = true;
		metrics_add(f->worker->metrics, METRICS_CLIENT_TLS, 1);
		pool_park(f);
		return flow_move(f, FLOW_REQUEST);
	case TLS_WANT_READ:
	case TLS_WANT_WRITE:
		return FLOW_WAIT;
	case TLS_PARKED:
	case TLS_CLOSED:
	case TLS_ERROR:
		break;
	}
	return client_failed(f);
}
