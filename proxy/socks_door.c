/* SOCKS5 on the explicit port: a tunnel by name, judged as CONNECT's is. See socks.h for its messages, flow_state.h for flows. */
#include "proxy/flow_state.h"

#define HINT_SOCKS "use SOCKS5 with names (socks5h://), or http_proxy and https_proxy"

bool flow_is_socks(const struct flow *f)
{
	struct slice in = buf_slice(&f->client->in);
	return in.len > 0 && (in.ptr[0] == SOCKS_VERSION_5 || in.ptr[0] == SOCKS_VERSION_4);
}

/** Refuse what is no request that policy could judge. @text: the address as it came. */
static enum flow_progress refuse(struct flow *f, const struct refusal *r, struct slice text)
{
	struct record_words words = {
		.method = SLICE("CONNECT"), .host = slice_part(text, 0, AUDIT_RAW_HOST_BYTES)};
	record_start(f, &f->connect_record, true);
	record_describe(&f->connect_record, &words);
	return flow_refuse(f, r);
}

static enum flow_progress refuse_old(struct flow *f)
{
	struct refusal r = {.reason = REASON_DENY_PROTOCOL,
		.message = "SOCKS4 is not spoken here, only SOCKS5",
		.hint = HINT_SOCKS};
	f->socks = SOCKS_STAGE_4;
	return refuse(f, &r, (struct slice){0});
}

static enum flow_progress refuse_malformed(struct flow *f, enum socks_reply reply)
{
	struct refusal r = {.reason = REASON_DENY_PROTOCOL,
		.message = reply == SOCKS_BAD_ADDRESS
			? "a kind of address that SOCKS5 does not have"
			: "this is no valid message of SOCKS5",
		.socks = reply};
	return refuse(f, &r, (struct slice){0});
}

enum flow_progress flow_socks_begin(struct flow *f)
{
	struct stream *c = f->client;
	struct slice in = buf_slice(&c->in);
	bool old = in.len > 0 && in.ptr[0] == SOCKS_VERSION_4;
	f->door = FLOW_DOOR_SOCKS;
	if (old) {
		stream_take(c, c->peeked);
		return refuse_old(f);
	}
	stream_take(c, 0); /* as much as the message has, once that is known */
	return flow_move(f, FLOW_SOCKS);
}

/** Bytes of the first message leave the socket; what follows is left for who reads it next. */
static void take_message(struct stream *c, size_t len)
{
	size_t before = buf_len(&c->in) - c->peeked;
	stream_take(c, len > before ? len - before : 0);
}

static enum flow_progress unfinished(struct flow *f, bool progress)
{
	struct stream *c = f->client;
	stream_take(c, c->peeked);
	if (c->ended || c->broken || c->mute)
		return flow_over(f, NULL);
	return progress ? FLOW_AGAIN : FLOW_WAIT;
}

static enum flow_progress greeted(struct flow *f, size_t len, bool is_open)
{
	struct stream *c = f->client;
	struct refusal r = {.reason = REASON_DENY_PROTOCOL,
		.message = "the client offers no SOCKS5 without authentication, the only one here"};
	take_message(c, len);
	buf_consume(&c->in, len);
	if (!is_open)
		return refuse(f, &r, (struct slice){0});
	f->socks = SOCKS_STAGE_REQUEST;
	if (socks_write_method(&c->out) < 0)
		return flow_reset(f, REASON_ERROR_INTERNAL, "out of memory");
	(void)stream_flush(c); /* what is left goes with the reply */
	return FLOW_AGAIN;
}

/** A client that looks names up itself (socks5://) got an address that stands for the name, and means the name. */
static const struct host *meant(struct flow *f, const struct host *asked)
{
	const struct host *name = NULL;
	if (asked->kind == HOST_ADDRESS)
		name = synthetic_find(
			f->worker->context->synthetic, f->sandbox->budget, &asked->address);
	return name != NULL ? name : asked;
}

static enum flow_progress judge(struct flow *f, const struct socks_request *s)
{
	struct slice text = {s->text, s->text_len};
	struct refusal command = {.reason = REASON_DENY_PROTOCOL,
		.message = "SOCKS5 with another command than CONNECT",
		.socks = SOCKS_BAD_COMMAND};
	struct refusal name = {.reason = REASON_DENY_NAME_INVALID,
		.message = "the SOCKS5 request has no valid host or port"};
	struct record_words words = {.method = SLICE("CONNECT")};
	take_message(f->client, s->len);
	if (!s->connect)
		return refuse(f, &command, text);
	if (!s->has_host)
		return refuse(f, &name, text);
	flow_aim(f, meant(f, &s->host), s->port);
	record_start(f, &f->connect_record, true);
	record_describe(&f->connect_record, &words);
	return flow_judge_tunnel(f, NULL, s->len);
}

enum flow_progress flow_step_socks(struct flow *f)
{
	struct stream *c = f->client;
	struct socks_request request;
	size_t len;
	bool is_open;
	bool progress = stream_flush(c);
	progress |= stream_peek(c);
	bool greeting = f->socks == SOCKS_STAGE_METHOD;
	enum socks_result result = greeting
		? socks_parse_greeting(buf_slice(&c->in), &len, &is_open)
		: socks_parse_request(buf_slice(&c->in), &request);
	if (result == SOCKS_MORE)
		return unfinished(f, progress);
	if (result == SOCKS_DONE)
		return greeting ? greeted(f, len, is_open) : judge(f, &request);
	stream_take(c, c->peeked);
	return refuse_malformed(
		f, result == SOCKS_UNKNOWN_ADDRESS ? SOCKS_BAD_ADDRESS : SOCKS_FAILURE);
}

enum flow_progress flow_socks_expired(struct flow *f)
{
	struct refusal r = {.reason = REASON_DENY_LIMIT,
		.message = "the SOCKS5 request was not complete in time"};
	return refuse(f, &r, (struct slice){0});
}

static enum socks_reply reply_of(const struct refusal *r)
{
	if (r->socks != SOCKS_SUCCEEDED)
		return r->socks;
	if (r->reason == REASON_ERROR_INTERNAL)
		return SOCKS_FAILURE;
	if (r->reason != REASON_ERROR_UPSTREAM && r->reason != REASON_ERROR_TIMEOUT)
		return SOCKS_NOT_ALLOWED;
	return r->error != NULL && strcmp(r->error, "connection_refused") == 0
		? SOCKS_REFUSED
		: SOCKS_HOST_UNREACHABLE;
}

int flow_socks_refuse(struct flow *f, const struct refusal *r)
{
	return socks_write_reply(f->socks, reply_of(r), &f->client->out);
}
