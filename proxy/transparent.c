/*
 * The transparent door: a connection that was meant for a host, whose client knows of no proxy. The address that it asked for
 * stands for a name (synthetic.h), or is one that ip: rules open; from then on it is judged as a tunnel to that host, which nobody
 * asked for in words: what the client says first decides what it carries. See flow_state.h.
 */
#include "proxy/flow_state.h"

/** Whom the address stands for; an address that was never given to this sandbox stands for itself, and no rule names it. */
void flow_capture_aim(struct flow *f)
{
	struct synthetic *table = f->worker->context->synthetic;
	unsigned number = f->sandbox->budget;
	const struct address *to = &f->ends.proxy;
	const struct host *name = synthetic_find(table, number, to);
	char text[ADDRESS_TEXT_BYTES];
	struct host literal = {.kind = HOST_ADDRESS, .address = *to};
	if (name != NULL) {
		flow_aim(f, name, f->ends.proxy_port);
		(void)synthetic_take_request(
			table, number, to, f->question); /* no question: ids of its own */
		return;
	}
	(void)host_parse(slice_of(address_format(to, text)), &literal); /* is an address */
	flow_aim(f, &literal, f->ends.proxy_port);
}

static enum flow_progress judge(struct flow *f)
{
	const struct record_words words = {.method = SLICE("CONNECT")};
	record_start(f, &f->connect_record, true);
	record_continue(f, &f->connect_record);
	record_describe(&f->connect_record, &words);
	return flow_judge_tunnel(f, NULL, 0);
}

/** Neither TLS nor HTTP, and no tcp rule: policy may have said no to the host already. */
static enum flow_progress refuse_noise(struct flow *f, const char *detail)
{
	const struct record_words words = {.method = SLICE("CONNECT")};
	struct policy_question q = flow_question(f);
	struct policy_verdict v;
	q.unread = true;
	record_start(f, &f->connect_record, true);
	record_continue(f, &f->connect_record);
	record_describe(&f->connect_record, &words);
	(void)policy_decide_tunnel(f->sandbox->profile, &q, &v);
	if (!reason_allows(v.reason))
		return flow_refuse_verdict(f, &v, &q, NULL);
	bool web = f->port == 443 || f->port == 80; /* its rule admits the port already */
	const struct refusal r = {.reason = REASON_DENY_NOT_TLS,
		.message = detail,
		.rule = v.rule,
		.question = web ? NULL : &q};
	return flow_refuse(f, &r);
}

/** An address of the pool that is nobody's: it may be an old answer, so no ip: rule around it leads its client to another host. */
static enum flow_progress refuse_unknown(struct flow *f)
{
	const struct record_words words = {.method = SLICE("CONNECT")};
	const struct refusal r = {.reason = REASON_DENY_ADDRESS_PRIVATE,
		.message = "the address stands for no name that this sandbox asked for"};
	record_start(f, &f->connect_record, true);
	record_describe(&f->connect_record, &words);
	return flow_refuse(f, &r);
}

/** A tcp rule asks for no first bytes: the server may be the one that speaks first. */
static bool is_for_tcp(struct flow *f)
{
	struct policy_question q = flow_question(f);
	struct policy_verdict v;
	(void)policy_decide_tunnel(f->sandbox->profile, &q, &v);
	return reason_allows(v.reason) && v.rule->transport == POLICY_TCP;
}

static enum flow_progress unfinished(struct flow *f, bool progress)
{
	struct stream *c = f->client;
	if (c->ended && !c->broken && buf_len(&c->in) > 0)
		return refuse_noise(f, "the first bytes are neither TLS nor an HTTP request");
	if (c->ended || c->broken)
		return flow_over(f, NULL); /* it asked for nothing */
	return progress ? FLOW_AGAIN : FLOW_WAIT;
}

/** What is no TLS: a request, or nothing that could be judged. */
static enum flow_progress in_the_clear(struct flow *f)
{
	struct stream *c = f->client;
	bool progress = stream_fill(c);
	struct slice in = buf_slice(&c->in);
	struct slice more = slice_part(in, f->opening_len, in.len);
	f->opening_len = in.len;
	switch (opening_feed(&f->passage.opening, more)) {
	case OPENING_UNDECIDED:
		return unfinished(f, progress);
	case OPENING_HTTP:
		f->scheme = POLICY_SCHEME_HTTP;
		f->open = true;
		return flow_move(f, FLOW_REQUEST);
	case OPENING_TLS: /* of a kind that nobody here speaks */
	case OPENING_PROXY:
	case OPENING_OTHER:
		break;
	}
	return refuse_noise(f, "the first bytes are neither TLS nor an HTTP request");
}

enum flow_progress flow_step_capture(struct flow *f)
{
	if (f->host.kind == HOST_ADDRESS && synthetic_is(&f->host.address))
		return refuse_unknown(f);
	if (buf_len(&f->client->in) > 0)
		return in_the_clear(f);
	if (is_for_tcp(f))
		return judge(f);
	switch (tls_peek(f->client->fd)) {
	case TLS_PEEK_NOTHING:
		f->client->readable = false;
		return FLOW_WAIT;
	case TLS_PEEK_CLOSED:
		return flow_over(f, NULL);
	case TLS_PEEK_OTHER:
		return in_the_clear(f);
	case TLS_PEEK_TLS:
		break;
	}
	f->spoken = true;
	return judge(f);
}

enum flow_progress flow_capture_expired(struct flow *f)
{
	return refuse_noise(f, "nothing that is TLS or an HTTP request came in time");
}

enum reason flow_mismatch(const struct flow *f, enum reason usual)
{
	return f->door == FLOW_DOOR_TRANSPARENT ? REASON_DENY_ADDRESS_MISMATCH : usual;
}

enum flow_progress flow_tunnel_heard(struct flow *f)
{
	if (f->door == FLOW_DOOR_TRANSPARENT)
		return flow_commit(f, &f->connect_record);
	return flow_move(f, FLOW_DIAL);
}

enum flow_progress flow_capture_judged(struct flow *f)
{
	if (f->transport == POLICY_TCP)
		return flow_commit(f, &f->connect_record);
	return flow_move(f, f->transport == POLICY_SPLICE ? FLOW_SPLICE_HELLO : FLOW_HELLO);
}

int flow_capture_refuse(struct flow *f, const struct refusal *r)
{
	bool theirs = r->reason == REASON_ERROR_UPSTREAM || r->reason == REASON_ERROR_TIMEOUT ||
		r->reason == REASON_ERROR_INTERNAL;
	const char alert[] = {21, 3, 3, 0, 2, 2,
		(char)(theirs ? TLS_ALERT_INTERNAL_ERROR : TLS_ALERT_ACCESS_DENIED)};
	if (f->spoken)
		return buf_append(&f->client->out, (struct slice){alert, sizeof(alert)});
	f->cut = true; /* nobody knows what it would understand */
	return 0;
}
