/*
 * One request and its response on their way: body by body through bounded buffers, each side only
 * as fast as the other takes it. What is cut never looks complete. See flow_state.h.
 */
#include "proxy/flow_state.h"

#include "common/cleanup.h"

#include <assert.h>

enum relay {
	RELAY_WAIT,
	RELAY_MOVED,
	RELAY_OVER, /* the flow has left the exchange */
};

enum flow_progress flow_exchange_begin(struct flow *f)
{
	struct stream *u = f->upstream;
	if (!f->x.repeated && !flow_spend_up(f, buf_len(&f->head)))
		return flow_use_spent(f, BUDGET_UP); /* others were faster */
	if (buf_append(&u->out, buf_slice(&f->head)) < 0)
		return flow_reset(f, REASON_ERROR_INTERNAL, "out of memory");
	f->request_record.bytes_out += buf_len(&f->head);
	if (!f->x.reused)
		buf_fini(&f->head);
	return flow_move(f, FLOW_EXCHANGE);
}

static enum relay give_up(struct flow *f, const struct refusal *r)
{
	(void)flow_give_up(f, r); /* the exchange is over either way */
	return RELAY_OVER;
}

static enum relay spent(struct flow *f, enum budget_kind kind)
{
	(void)flow_use_spent(f, kind); /* the exchange is over either way */
	return RELAY_OVER;
}

static enum relay upstream_failed(struct flow *f, const char *message)
{
	struct refusal r = {.reason = REASON_ERROR_UPSTREAM,
		.message = message,
		.rule = f->rule,
		.error = f->x.answered ? "http_response_incomplete" : "connection_terminated"};
	if (f->upstream->fault.detail[0] != '\0')
		r.message = f->upstream->fault.detail;
	return give_up(f, &r);
}

static enum relay request_too_large(struct flow *f)
{
	struct refusal r = {.reason = REASON_DENY_SIZE,
		.status = 413,
		.message = "the request's body is larger than the rule's req-body allows",
		.rule = f->rule};
	return give_up(f, &r);
}

static enum relay request_malformed(struct flow *f)
{
	const struct http_fault *fault = &f->x.request_reader.fault;
	struct refusal r = {.reason = fault->reason,
		.status = fault->status,
		.message = fault->detail,
		.rule = f->rule};
	return give_up(f, &r);
}

static enum relay out_of_memory(struct flow *f)
{
	(void)flow_reset(f, REASON_ERROR_INTERNAL, "out of memory");
	return RELAY_OVER;
}

/** One piece of the request's body. */
static enum relay request_piece(struct flow *f)
{
	struct exchange *x = &f->x;
	struct stream *c = f->client;
	struct stream *u = f->upstream;
	struct slice payload;
	size_t used;
	size_t before = buf_len(&u->out);
	struct slice in = slice_part(buf_slice(&c->in), 0, stream_room(u));
	enum body_result result = body_read(&x->request_reader, in, &used, &payload);
	if (result == BODY_ERROR)
		return request_malformed(f);
	if (result != BODY_DONE && body_reader_announced(&x->request_reader) > x->request_limit &&
		!record_observe(&f->request_record, REASON_DENY_SIZE))
		return request_too_large(f);
	f->request_record.request_body_bytes = x->request_reader.payload_total;
	if (result == BODY_DATA && body_append(&x->request_writer, payload, &u->out) < 0)
		return out_of_memory(f);
	if (result == BODY_DONE && body_append_end(&x->request_writer, &u->out) < 0)
		return out_of_memory(f);
	size_t grew = buf_len(&u->out) - before;
	if (!flow_spend_up(f, grew)) {
		buf_drop_end(&u->out, grew);
		return spent(f, BUDGET_UP);
	}
	x->request_done = result == BODY_DONE;
	f->request_record.bytes_out += grew;
	buf_consume(&c->in, used);
	if (result != BODY_MORE)
		return RELAY_MOVED;
	if (c->ended && buf_len(&c->in) == 0) {
		(void)flow_reset(f, f->request_record.reason,
			"the client ended before its request was complete");
		return RELAY_OVER;
	}
	return used > 0 ? RELAY_MOVED : RELAY_WAIT;
}

static enum relay relay_request(struct flow *f)
{
	enum relay moved = RELAY_WAIT;
	while (!f->x.request_done && stream_room(f->upstream) > 0 && !f->upstream->broken &&
		!f->upstream->mute) {
		enum relay here = request_piece(f);
		if (here == RELAY_OVER)
			return RELAY_OVER;
		if (here == RELAY_WAIT)
			break;
		moved = RELAY_MOVED;
	}
	return moved;
}

/** The host agrees to WebSocket, which was asked for and allowed: from here on frames pass, as bytes. */
static enum relay switch_protocol(struct flow *f, const struct http1_response *r)
{
	struct http1_recipient to = {.minor = f->x.client_minor, .switched = true};
	struct body_framing framing;
	struct buf *out = &f->client->out;
	size_t before = buf_len(out);
	if (f->x.accept[0] == '\0' || !websocket_switches(r, f->x.accept))
		return upstream_failed(f, "the host switched to a protocol that was not asked for");
	if (http1_write_response(r, &to, &framing, out) < 0)
		return out_of_memory(f);
	if (!flow_spend_down(f, buf_len(out) - before)) {
		buf_drop_end(out, buf_len(out) - before);
		return spent(f, BUDGET_DOWN);
	}
	f->x.answered = true;
	f->request_record.status = r->status;
	f->request_record.bytes_in += buf_len(out) - before;
	buf_consume(&f->upstream->in, r->head.len);
	buf_fini(&f->head);
	(void)flow_passage_begin(f); /* the exchange is over */
	return RELAY_OVER;
}

/** 1xx: 100 once to who waits for it, 103 to who can read it, others dropped. */
static enum relay interim(struct flow *f, const struct http1_response *r)
{
	struct exchange *x = &f->x;
	bool pass = x->client_minor >= 1 &&
		((r->status == 100 && x->expects_continue) || r->status == 103);
	if (r->status == 101)
		return switch_protocol(f, r);
	if (++x->interims > f->worker->limits.interims)
		return upstream_failed(f, "the host sends interim responses without end");
	if (r->status == 100)
		x->expects_continue = false;
	if (pass) {
		struct http1_recipient to = {.minor = x->client_minor};
		struct body_framing framing;
		if (http1_write_response(r, &to, &framing, &f->client->out) < 0)
			return out_of_memory(f);
	}
	buf_consume(&f->upstream->in, r->head.len);
	x->scan = (struct http1_scan){.limits = &f->worker->limits};
	return RELAY_MOVED;
}

static enum relay response_too_large(struct flow *f)
{
	struct refusal r = {.reason = REASON_DENY_SIZE,
		.status = 502,
		.error = "http_response_body_size",
		.message = "the response's body is larger than the rule's resp-body allows",
		.rule = f->rule};
	return give_up(f, &r);
}

static enum relay answer(struct flow *f, const struct http1_response *r)
{
	struct exchange *x = &f->x;
	struct body_framing framing;
	size_t before = buf_len(&f->client->out);
	if (r->head.framing.kind == BODY_LENGTH && r->head.framing.length > x->response_limit &&
		!record_observe(&f->request_record, REASON_DENY_SIZE))
		return response_too_large(f);
	/* An answer before the request's end: the rest of the request will not be read as another. */
	x->client_close |= !x->request_done;
	struct http1_recipient to = {.minor = x->client_minor, .close = x->client_close};
	if (http1_write_response(r, &to, &framing, &f->client->out) < 0)
		return out_of_memory(f);
	uint64_t body = framing.kind == BODY_LENGTH ? framing.length : 0;
	if (buf_len(&f->client->out) - before + body >
		budget_down_room(&f->use, uv_now(&f->worker->loop))) {
		buf_drop_end(&f->client->out, buf_len(&f->client->out) - before);
		return spent(f, BUDGET_DOWN);
	}
	x->client_close |= framing.kind == BODY_UNTIL_CLOSE;
	x->upstream_close = r->head.close;
	x->answered = true;
	body_reader_init(&x->response_reader, r->head.framing, true, &f->worker->limits);
	body_writer_init(&x->response_writer, framing);
	struct slice type = http1_field_value(&r->head, SLICE("content-type"));
	(void)slice_copy(slice_part(type, 0, RECORD_TYPE_BYTES - 1), f->request_record.content_type,
		RECORD_TYPE_BYTES); /* cut to fit */
	f->request_record.status = r->status;
	buf_consume(&f->upstream->in, r->head.len);
	return RELAY_MOVED;
}

/**
 * Whether the host closed a reused connection as the request was on its way: then it can't have
 * acted on a request that may be sent again (RFC 9110 9.2.2, RFC 9112 9.3.1).
 */
static bool may_retry(const struct flow *f)
{
	const struct exchange *x = &f->x;
	return x->reused && x->repeatable && x->request_done && x->interims == 0 &&
		buf_len(&f->upstream->in) == 0;
}

/** Once more on a new connection, looked up and guarded anew. */
static enum relay retry(struct flow *f)
{
	f->x.reused = false;
	f->x.repeated = true;
	f->x.scan = (struct http1_scan){.limits = &f->worker->limits};
	f->request_record.bytes_out = 0;
	flow_drop_upstream(f);
	(void)flow_connect(f); /* the state says where it went */
	return RELAY_OVER;
}

static enum relay response_head(struct flow *f)
{
	struct stream *u = f->upstream;
	struct http1_response *r = &f->worker->response;
	struct http_fault why;
	if (stream_room(f->client) == 0)
		return RELAY_WAIT;
	switch (http1_parse_response(&f->x.scan, buf_slice(&u->in), f->x.head_request, r, &why)) {
	case HTTP1_DONE:
		record_answered(f, &f->request_record);
		return r->status < 200 ? interim(f, r) : answer(f, r);
	case HTTP1_ERROR: {
		struct refusal refusal = {.reason = why.reason,
			.status = why.status,
			.error = "http_protocol_error",
			.message = why.detail,
			.rule = f->rule};
		return give_up(f, &refusal);
	}
	case HTTP1_MORE:
		break;
	}
	if ((u->ended || u->broken) && may_retry(f))
		return retry(f);
	if (u->ended || u->broken)
		return upstream_failed(f, "the host closed the connection without an answer");
	return RELAY_WAIT;
}

/** All input is used and the body is not over: is that its end, a cut, or just a pause? */
static enum relay response_pause(struct flow *f, size_t used)
{
	struct stream *u = f->upstream;
	if (used > 0 || buf_len(&u->in) > 0 || (!u->ended && !u->broken))
		return used > 0 ? RELAY_MOVED : RELAY_WAIT;
	if (u->broken || body_read_end(&f->x.response_reader) != BODY_DONE)
		return upstream_failed(f, "the host's answer was cut");
	if (body_append_end(&f->x.response_writer, &f->client->out) < 0)
		return out_of_memory(f);
	f->x.response_done = true;
	return RELAY_MOVED;
}

static enum relay response_piece(struct flow *f)
{
	struct exchange *x = &f->x;
	struct stream *c = f->client;
	struct slice payload;
	size_t used;
	struct slice in = slice_part(buf_slice(&f->upstream->in), 0, stream_room(c));
	enum body_result result = body_read(&x->response_reader, in, &used, &payload);
	if (result == BODY_ERROR)
		return upstream_failed(f, x->response_reader.fault.detail);
	if (result != BODY_DONE && body_reader_announced(&x->response_reader) > x->response_limit &&
		!record_observe(&f->request_record, REASON_DENY_SIZE))
		return response_too_large(f);
	f->request_record.response_body_bytes = x->response_reader.payload_total;
	if (result == BODY_DATA && body_append(&x->response_writer, payload, &c->out) < 0)
		return out_of_memory(f);
	if (result == BODY_DONE && body_append_end(&x->response_writer, &c->out) < 0)
		return out_of_memory(f);
	x->response_done = result == BODY_DONE;
	buf_consume(&f->upstream->in, used);
	return result == BODY_MORE ? response_pause(f, used) : RELAY_MOVED;
}

static enum relay relay_response(struct flow *f)
{
	enum relay moved = RELAY_WAIT;
	while (!f->x.response_done) {
		size_t before = buf_len(&f->client->out);
		enum relay here = RELAY_WAIT;
		if (!f->x.answered)
			here = response_head(f);
		else if (stream_room(f->client) > 0)
			here = response_piece(f);
		if (here == RELAY_OVER)
			return RELAY_OVER;
		size_t grew = buf_len(&f->client->out) - before;
		if (!flow_spend_down(f, grew)) {
			buf_drop_end(&f->client->out, grew);
			return spent(f, BUDGET_DOWN);
		}
		f->request_record.bytes_in += grew;
		if (here == RELAY_WAIT)
			break;
		moved = RELAY_MOVED;
	}
	return moved;
}

/** The response has been sent: on to the next request, or to the end of the connection. */
static enum flow_progress exchange_end(struct flow *f)
{
	struct exchange *x = &f->x;
	struct stream *u = f->upstream;
	const char *detail = x->request_done ? NULL : "answered before the request was complete";
	(void)record_close(f, &f->request_record, detail, NULL); /* has a slot, so there is room */
	buf_fini(&f->head);
	x->answered = false; /* as the next request is not */
	f->served = true;
	/* Bytes behind a complete response answer nothing: they and their connection are dropped. */
	if (x->upstream_close || !x->request_done || buf_len(&u->in) > 0 || u->ended || u->broken ||
		u->mute)
		flow_drop_upstream(f);
	else
		pool_park(f);
	if (x->client_close)
		return flow_move(f, FLOW_LINGER);
	return flow_move(f, f->open ? FLOW_REQUEST : FLOW_HEAD);
}

static enum flow_progress client_gone(struct flow *f)
{
	return flow_reset(f, f->request_record.reason, "the client went away");
}

enum flow_progress flow_step_exchange(struct flow *f)
{
	bool progress = stream_fill(f->client);
	progress |= stream_fill(f->upstream);
	enum relay there = relay_request(f);
	if (there == RELAY_OVER)
		return FLOW_AGAIN;
	progress |= stream_flush(f->upstream);
	enum relay back = relay_response(f);
	if (back == RELAY_OVER)
		return FLOW_AGAIN;
	progress |= stream_flush(f->client);
	if (f->client->broken || f->client->mute)
		return client_gone(f);
	if (f->x.response_done && buf_len(&f->client->out) == 0)
		return exchange_end(f);
	if (!progress && there == RELAY_WAIT && back == RELAY_WAIT)
		return FLOW_WAIT;
	flow_deadline(f, f->worker->limits.idle_ms);
	return FLOW_AGAIN;
}

enum flow_progress flow_exchange_expired(struct flow *f)
{
	bool client_slow = !f->x.request_done && buf_len(&f->upstream->out) == 0;
	struct refusal r = {.reason = client_slow ? REASON_DENY_LIMIT : REASON_ERROR_TIMEOUT,
		.status = client_slow ? 408 : 504,
		.error = client_slow ? "http_request_error" : "http_response_timeout",
		.message = client_slow ? "the client stopped sending its request"
				       : "the host stopped answering",
		.rule = f->rule};
	(void)give_up(f, &r);
	return FLOW_AGAIN;
}
