/*
 * TLS that does not end here: its ClientHello is judged before a byte goes upstream, and so is the second one that a
 * host may ask for (RFC 8446 4.1.4). Certificate and requests can't be seen: see passage.c for what follows. See
 * flow_state.h.
 */
#include "proxy/flow_state.h"

#include <assert.h>

static_assert(HELLO_FLIGHT_BYTES_MAX <= STREAM_BUFFER_BYTES, "a stream holds what is judged");

/** Why a hello is refused. */
struct hello_denial {
	enum reason reason;
	enum tls_alert alert;
	const char *detail;
};

enum flow_progress flow_refuse_hello(
	struct flow *f, enum tls_alert alert, enum reason reason, const char *detail)
{
	const char text[] = {21, 3, 3, 0, 2, 2, (char)alert};
	struct stream *c = f->client;
	if (buf_append(&c->out, (struct slice){text, sizeof(text)}) == 0)
		(void)stream_flush(c); /* all that is offered: no room is kept for it */
	buf_clear(&c->out);
	return flow_refuse_silently(f, reason, detail);
}

static enum flow_progress refuse_hello(struct flow *f, const struct hello_denial *d)
{
	return flow_refuse_hello(f, d->alert, d->reason, d->detail);
}

/** @return whether it may pass. */
static bool hello_admitted(struct flow *f, const struct hello *hello, struct hello_denial *ret)
{
	if (hello->has_name && !host_equal(&hello->name, &f->host)) {
		struct record_words words = {
			.method = SLICE("CONNECT"), .claims = slice_of(hello->name.name)};
		record_describe(&f->connect_record, &words);
	}
	if (hello->ech)
		*ret = (struct hello_denial){REASON_DENY_ECH, TLS_ALERT_ACCESS_DENIED,
			"the ClientHello may hide another name in its encrypted part"};
	else if (!hello->has_name)
		*ret = (struct hello_denial){REASON_DENY_NO_SNI, TLS_ALERT_UNRECOGNIZED_NAME,
			"the ClientHello names no host"};
	else if (hello->has_name && !host_equal(&hello->name, &f->host))
		*ret = (struct hello_denial){flow_mismatch(f, REASON_DENY_SNI_MISMATCH),
			TLS_ALERT_UNRECOGNIZED_NAME,
			"the ClientHello does not name the tunnel's host"};
	else
		return true;
	return false;
}

static enum flow_progress hello_unfinished(struct flow *f, bool progress)
{
	struct stream *c = f->client;
	if (c->ended || c->broken)
		return flow_over(f, "the client closed the tunnel before TLS began");
	return progress ? FLOW_AGAIN : FLOW_WAIT;
}

enum flow_progress flow_step_splice_hello(struct flow *f)
{
	struct passage *p = &f->passage;
	struct hello hello;
	struct hello_denial denial = {REASON_DENY_NOT_TLS, TLS_ALERT_DECODE_ERROR,
		"the tunnel does not begin with a valid ClientHello"};
	bool progress = stream_fill(f->client);
	switch (hello_parse(&p->scan, buf_slice(&f->client->in), &hello)) {
	case HELLO_MORE:
		return hello_unfinished(f, progress);
	case HELLO_DONE:
		if (!hello_admitted(f, &hello, &denial))
			return refuse_hello(f, &denial);
		p->hello_len = hello.len;
		p->may_retry = hello.tls13;
		return flow_tunnel_heard(f);
	case HELLO_MALFORMED:
		return refuse_hello(f, &denial);
	case HELLO_NOT_TLS:
	case HELLO_ALERT:
		break;
	}
	return flow_not_tls(f);
}

enum flow_progress flow_splice_failed(struct flow *f, const struct flow_fault *fault)
{
	if (f->passage.retried)
		return flow_reset(f, fault->reason, fault->detail);
	return refuse_hello(
		f, &(struct hello_denial){fault->reason, TLS_ALERT_INTERNAL_ERROR, fault->detail});
}

enum flow_progress flow_splice_begin(struct flow *f)
{
	struct passage *p = &f->passage;
	struct slice in = buf_slice(&f->client->in);
	flow_passage_init(f);
	if (!flow_spend_up(f, p->hello_len))
		return flow_use_spent(f, BUDGET_UP);
	if (buf_append(&f->upstream->out, slice_part(in, 0, p->hello_len)) < 0)
		return flow_reset(f, REASON_ERROR_INTERNAL, "out of memory");
	buf_consume(&f->client->in, p->hello_len);
	f->connect_record.bytes_out += p->hello_len;
	p->scan = (struct hello_scan){.again = true};
	return flow_move(f, p->may_retry ? FLOW_SPLICE_ANSWER : FLOW_PASSAGE);
}

/** The client gave up. Hosts ignore some alerts and would take a hello behind one: nothing behind it passes. */
static enum flow_progress pass_alert(struct flow *f)
{
	struct slice in = buf_slice(&f->client->in);
	size_t len = f->passage.scan.at;
	if (!flow_spend_up(f, len))
		return flow_use_spent(f, BUDGET_UP);
	if (buf_append(&f->upstream->out, slice_part(in, 0, len)) < 0)
		return flow_reset(f, REASON_ERROR_INTERNAL, "out of memory");
	buf_clear(&f->client->in);
	f->connect_record.bytes_out += len;
	f->passage.up.last = true;
	return flow_move(f, FLOW_PASSAGE);
}

/** The second hello, judged like the first. */
static enum flow_progress second_hello(struct flow *f, bool progress)
{
	struct hello hello;
	struct hello_denial denial = {
		REASON_DENY_NOT_TLS, 0, "the second ClientHello is not a valid one"};
	switch (hello_parse(&f->passage.scan, buf_slice(&f->client->in), &hello)) {
	case HELLO_MORE:
		if (f->client->ended || f->client->broken)
			return flow_reset(f, f->connect_record.reason, "the client went away");
		return progress ? FLOW_AGAIN : FLOW_WAIT;
	case HELLO_DONE:
		if (hello_admitted(f, &hello, &denial))
			return flow_move(f, FLOW_PASSAGE);
		break;
	case HELLO_ALERT:
		return pass_alert(f);
	case HELLO_MALFORMED:
	case HELLO_NOT_TLS:
		break;
	}
	return flow_reset(f, denial.reason, denial.detail);
}

/** What the host says with its HelloRetryRequest, to the client. @return false: there is no room for it. */
static bool relay_retry(struct flow *f, bool *progress)
{
	struct lane *down = &f->passage.down;
	*progress |= lane_send(down);
	size_t len = lane_take(down, &f->worker->pipes, POLICY_UNLIMITED);
	if (!flow_spend_down(f, len))
		return false;
	f->connect_record.bytes_in += len;
	*progress |= lane_send(down) || len > 0;
	lane_watch(down);
	return true;
}

enum flow_progress flow_step_splice_answer(struct flow *f)
{
	struct passage *p = &f->passage;
	struct stream *u = f->upstream;
	bool progress = stream_flush(u);
	f->client->held = !p->retried; /* what it says before the host did can wait */
	if (!p->retried) {
		progress |= stream_fill(u);
		switch (hello_answer_of(buf_slice(&u->in))) {
		case HELLO_ANSWER_MORE:
			if (u->ended || u->broken || u->mute)
				return flow_move(f, FLOW_PASSAGE);
			return progress ? FLOW_AGAIN : FLOW_WAIT;
		case HELLO_ANSWER_OTHER:
			return flow_move(f, FLOW_PASSAGE);
		case HELLO_ANSWER_RETRY:
			p->retried = true;
			f->client->held = false;
			break;
		}
	}
	if (!relay_retry(f, &progress))
		return flow_use_spent(f, BUDGET_DOWN);
	progress |= stream_fill(f->client);
	return second_hello(f, progress);
}

enum flow_progress flow_splice_expired(struct flow *f)
{
	if (!f->passage.retried) {
		const struct flow_fault late = {.reason = REASON_ERROR_TIMEOUT,
			.detail = "the host did not answer the ClientHello in time"};
		return flow_upstream_failed(f, &late);
	}
	return flow_reset(
		f, REASON_DENY_LIMIT, "the client did not send a second ClientHello in time");
}
