/* Saying no, and saying what failed: to the audit first, then to the client. See flow_state.h. */
#include "proxy/flow_state.h"

#include "common/cleanup.h"
#include "proxy/denial.h"

#include <stdio.h>

static bool head_asked(const struct flow *f, const struct refusal *r)
{
	if (r->request != NULL)
		return r->request->is_head;
	bool under_way = f->state == FLOW_RESOLVE || f->state == FLOW_DIAL ||
		f->state == FLOW_UPSTREAM_TLS || f->state == FLOW_EXCHANGE;
	return under_way && f->request_record.live && f->x.head_request;
}

static int refusal_write(
	struct flow *f, const struct refusal *r, const struct record *record, const char *allow)
{
	struct slice host = slice_of(f->host.name);
	if (f->door == FLOW_DOOR_SOCKS && !f->open)
		return flow_socks_refuse(f, r);
	if (f->door == FLOW_DOOR_TRANSPARENT && !f->open)
		return flow_capture_refuse(f, r);
	struct denial d = {
		.reason = r->reason,
		.status = r->status,
		.error = r->error,
		.message = r->message != NULL && r->message[0] != '\0' ? r->message : NULL,
		.host = record->host.len > 0 ? record->host : host,
		.port = f->port,
		.method = record->connect ? SLICE("CONNECT") : record->method,
		.path = record->path,
		.rule = r->rule,
		.hint = r->hint,
		.allow = allow,
		.request_id = record->request_id,
		.budget = r->budget,
		.head = head_asked(f, r),
	};
	return denial_write(&d, &f->client->out);
}

/** What a refusal becomes that nobody could write down. */
static void refusal_unrecorded(struct flow *f, const struct refusal *r, size_t from)
{
	struct refusal full = {.reason = REASON_DENY_AUDIT_FULL, .request = r->request};
	buf_drop_end(&f->client->out, buf_len(&f->client->out) - from);
	if (refusal_write(f, &full, &f->request_record, NULL) < 0)
		f->cut = true;
}

static void refusal_record(struct flow *f, const struct refusal *r, struct record *record,
	const char *allow, size_t from)
{
	record->reason = r->reason;
	if (r->rule != NULL)
		record->rule = r->rule;
	record->status = r->status != 0 ? r->status : (unsigned)reason_status(r->reason);
	if (f->door != FLOW_DOOR_EXPLICIT && !f->open)
		record->status = 0; /* only HTTP has one */
	record->bytes_in += buf_len(&f->client->out) - from;
	if (record_close(f, record, r->message, allow) < 0)
		refusal_unrecorded(f, r, from);
}

/** Keep the failure until the client's handshake is through and it asks: then it can be told. */
static enum flow_progress keep_fault(struct flow *f, const struct flow_fault *fault)
{
	f->fault = malloc(sizeof(*f->fault));
	if (f->fault == NULL)
		return flow_reset(f, fault->reason, fault->detail);
	*f->fault = *fault;
	f->connect_record.reason = fault->reason;
	f->connect_record.status = fault->status;
	(void)record_close(f, &f->connect_record, fault->detail, NULL); /* has a slot: has room */
	f->open = f->scheme == POLICY_SCHEME_HTTP;
	return flow_move(f, f->open ? FLOW_REQUEST : FLOW_LEAF);
}

/** A captured connection's hello waits for an answer: no before the handshake would be an error without a word. */
static enum flow_progress refuse_inside(struct flow *f, const struct refusal *r)
{
	struct flow_fault fault = {.reason = r->reason, .status = r->status, .error = r->error};
	if (fault.status == 0)
		fault.status = (unsigned)reason_status(r->reason);
	if (r->message != NULL)
		(void)slice_copy(slice_part(slice_of(r->message), 0, sizeof(fault.detail) - 1),
			fault.detail, sizeof(fault.detail));
	if (r->rule != NULL)
		f->connect_record.rule = r->rule;
	return keep_fault(f, &fault);
}

enum flow_progress flow_refuse(struct flow *f, const struct refusal *r)
{
	char allow[RECORD_SUGGESTION_BYTES] = "";
	size_t from = buf_len(&f->client->out);
	struct record *record = flow_record(f);
	uint64_t passed = record != NULL ? record->bytes_in : 0;
	if (f->door == FLOW_DOOR_TRANSPARENT && f->tunnel && !f->open && f->client->tls != NULL)
		return refuse_inside(f, r);
	flow_uncount_unsent(f);
	if (record != NULL)
		record->bytes_in =
			passed; /* interim responses: they are sent, before the refusal */
	if (r->unrecorded)
		record = &f->connect_record;
	else if (record == NULL) {
		record = &f->request_record;
		record_start(f, record, false);
	}
	if (r->question != NULL)
		(void)policy_suggest(r->question, r->rule, allow, sizeof(allow));
	if (refusal_write(f, r, record, allow) < 0)
		f->cut = true; /* no memory for words: it is refused all the same */
	if (!r->unrecorded)
		refusal_record(f, r, record, allow[0] != '\0' ? allow : NULL, from);
	pool_leave(f);
	stream_reset(ptr_take(f->upstream)); /* a request sent in part must not look complete */
	if (f->cut || f->client->broken)
		return flow_over(f, NULL);
	return flow_move(f, FLOW_REFUSE);
}

enum flow_progress flow_give_up(struct flow *f, const struct refusal *r)
{
	/* Bytes of a tunnel that TLS does not end in are nobody's answer. */
	if (f->x.answered || (f->tunnel && !f->open))
		return flow_reset(f, r->reason, r->message);
	return flow_refuse(f, r);
}

enum flow_progress flow_refuse_fault(
	struct flow *f, const struct http_fault *fault, const struct record_words *words)
{
	struct refusal r = {
		.reason = fault->reason, .status = fault->status, .message = fault->detail};
	if (flow_record(f) == NULL || !f->request_record.live) {
		record_start(f, &f->request_record, slice_equal(words->method, SLICE("CONNECT")));
		record_describe(&f->request_record, words);
	}
	return flow_refuse(f, &r);
}

enum flow_progress flow_refuse_silently(struct flow *f, enum reason reason, const char *detail)
{
	struct record *record = flow_record(f);
	if (record != NULL) {
		record->reason = reason;
		/* Its slot was opened when the tunnel was allowed, so there is room. */
		(void)record_close(f, record, detail, NULL);
	}
	return flow_move(f, FLOW_LINGER);
}

enum flow_progress flow_upstream_failed(struct flow *f, const struct flow_fault *fault)
{
	dial_free(ptr_take(f->dial));
	pool_leave(f);
	stream_reset(ptr_take(f->upstream));
	bool established = f->tunnel && !f->open && f->state != FLOW_RESOLVE;
	if (established && f->transport == POLICY_SPLICE)
		return flow_splice_failed(f, fault);
	if (established && f->transport == POLICY_INSPECT)
		return keep_fault(f, fault);
	struct refusal r = {.reason = fault->reason,
		.status = fault->status,
		.error = fault->error,
		.message = fault->detail,
		.rule = f->rule};
	return flow_refuse(f, &r);
}

enum flow_progress flow_step_refuse(struct flow *f)
{
	bool progress = stream_flush(f->client);
	if (f->client->broken || f->client->mute)
		return flow_over(f, NULL);
	if (buf_len(&f->client->out) == 0)
		return flow_move(f, FLOW_LINGER);
	return progress ? FLOW_AGAIN : FLOW_WAIT;
}

enum flow_progress flow_step_linger(struct flow *f)
{
	struct stream *c = f->client;
	flow_drop_upstream(f);
	stream_end(c);
	if (c->ended || c->broken || c->mute)
		return flow_over(f, NULL);
	size_t thrown = stream_discard(c);
	f->lingered += (uint32_t)thrown;
	if (c->ended || c->broken || f->lingered > LINGER_BYTES_MAX)
		return flow_over(f, NULL);
	return thrown > 0 ? FLOW_AGAIN : FLOW_WAIT;
}
