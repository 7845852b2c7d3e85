/*
 * Requests: parse, judge, write anew. What was judged is what goes out. Policy is asked here and
 * decides; this file adds only what HTTP itself demands. See flow_state.h.
 */
#include "proxy/flow_state.h"

#include "audit/redact.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/fault.h"

#include <assert.h>
#include <stdio.h>

#define HINT_CONNECT "use CONNECT for https, as clients do when https_proxy is set"
#define HINT_UPGRADE "add upgrade=websocket to the rule"
#define HINT_PROXY                                                                                 \
	"this is a proxy: set http_proxy and https_proxy to it instead of opening its address"

/** The target of a request line that may not be one. */
static struct record_words raw_words(struct slice in)
{
	struct slice line = in;
	struct slice rest;
	struct slice method = {0};
	struct slice target = {0};
	(void)slice_split(in, '\n', &line, &rest); /* false: cut short */
	if (!slice_split(line, ' ', &method, &rest))
		return (struct record_words){
			.host = slice_part(redact_raw_target(line), 0, AUDIT_RAW_HOST_BYTES)};
	target = rest;
	for (size_t i = rest.len; i > 0;
		i--) { /* up to the last blank: a bad target may hold some */
		if (rest.ptr[i - 1] == ' ') {
			target = slice_part(rest, 0, i - 1);
			break;
		}
	}
	method = slice_part(method, 0, HTTP1_METHOD_BYTES_MAX);
	target = slice_part(redact_raw_target(target), 0, AUDIT_RAW_HOST_BYTES);
	return (struct record_words){.method = method, .host = target};
}

enum flow_progress flow_refuse_head(struct flow *f, const struct http_fault *why)
{
	struct record_words words = raw_words(buf_slice(&f->client->in));
	if (f->open) { /* the host is known there */
		words.path = words.host;
		words.host = (struct slice){0};
	}
	return flow_refuse_fault(f, why, &words);
}

static enum flow_progress head_unfinished(struct flow *f, bool progress)
{
	struct stream *c = f->client;
	if (c->ended && !c->broken)
		stream_end_last(c);
	if (c->ended || c->broken || c->mute)
		return flow_over(f, NULL);
	if (buf_len(&c->in) > 0 && !f->head_begun) {
		f->head_begun = true;
		flow_deadline(f, f->worker->limits.header_ms);
	}
	if (buf_len(&c->in) == 0 && !progress)
		stream_trim(c);
	return progress ? FLOW_AGAIN : FLOW_WAIT;
}

static void head_finished(struct flow *f, size_t len)
{
	buf_consume(&f->client->in, len);
	f->scan = (struct http1_scan){.limits = &f->worker->limits};
	f->head_begun = false;
}

static enum flow_progress refuse_request(
	struct flow *f, enum reason reason, unsigned status, const char *message, const char *hint)
{
	struct refusal r = {.reason = reason,
		.status = status,
		.message = message,
		.hint = hint,
		.rule = f->request_record.rule,
		.request = &f->worker->request};
	return flow_refuse(f, &r);
}

static enum flow_progress judge_connect(struct flow *f)
{
	const struct http1_request *r = &f->worker->request;
	bool more = buf_len(&f->client->in) > r->head.len;
	flow_drop_upstream(f); /* of an absolute-form request before */
	flow_aim(f, &r->authority, r->authority_port);
	bool same = http1_request_names(r, f->scheme, &f->host, f->port);
	struct record_words words = {.method = r->method,
		.user_agent = http1_field_value(&r->head, SLICE("user-agent")),
		.claims = same ? (struct slice){0} : slice_of(r->host.name)};
	record_start(f, &f->connect_record, true);
	record_describe(&f->connect_record, &words);
	if (!same)
		return refuse_request(f, REASON_DENY_HOST_MISMATCH, 0,
			"the Host field names another host than the CONNECT target", NULL);
	if (more)
		return refuse_request(f, REASON_DENY_PROTOCOL, 0,
			"bytes behind a CONNECT that follows another request", NULL);
	return flow_judge_tunnel(f, r, r->head.len);
}

/** Of the addresses that the connection has, does this rule open the one? */
static bool rule_admits(struct flow *f, const struct rule *rule, enum reason *ret_reason)
{
	struct guard_target target = {.address = &f->destination, .port = f->port};
	struct admitted_address admitted;
	if (f->upstream == NULL || rule == f->destination_rule)
		return true;
	*ret_reason = REASON_ERROR_INTERNAL; /* unless it is refused */
	if (guard_admit(&f->worker->guard, rule, &target, &admitted, ret_reason) != GUARD_ADMITTED)
		return false;
	f->destination_rule = rule;
	return true;
}

static bool repeatable(const struct http1_request *r)
{
	return r->head.framing.kind == BODY_NONE &&
		(r->is_head || slice_equal(r->method, SLICE("GET")) ||
			slice_equal(r->method, SLICE("OPTIONS")));
}

static void exchange_init(struct flow *f, const struct http1_request *r, const struct rule *rule)
{
	struct exchange *x = &f->x;
	*x = (struct exchange){
		.request_limit = rule->req_body_bytes,
		.response_limit = rule->resp_body_bytes,
		.client_minor = r->head.minor,
		.head_request = r->is_head,
		.repeatable = repeatable(r),
		.expects_continue = r->expect_continue,
		.client_close = r->head.close || f->worker->leaving,
		.scan = {.limits = &f->worker->limits},
	};
	if (r->head.websocket)
		(void)websocket_accept_of(r, x->accept); /* was judged: is valid */
	body_reader_init(&x->request_reader, r->head.framing, false, &f->worker->limits);
	body_writer_init(&x->request_writer, r->head.framing);
}

/** Everything said yes: write the decision down, the head anew, and find the way. */
static enum flow_progress request_allowed(
	struct flow *f, const struct rule *rule, const struct target *target)
{
	const struct http1_request *r = &f->worker->request;
	struct http1_destination to = {
		.host = &f->host, .port = f->port, .scheme = f->scheme, .target = target};
	to.upgrade = rule->websocket;
	struct budget_denial denial;
	uint64_t body = r->head.framing.kind == BODY_LENGTH ? r->head.framing.length : 0;
	buf_clear(&f->head);
	if (http1_write_request(r, &to, &f->head) < 0)
		return refuse_request(f, REASON_ERROR_INTERNAL, 0, "out of memory", NULL);
	if (!flow_use_begin(f, &f->request_record, buf_len(&f->head) + body, &denial))
		return flow_refuse_use(f, &denial, r);
	if (record_open(f, &f->request_record) < 0)
		return refuse_request(f, REASON_DENY_AUDIT_FULL, 0, NULL, NULL);
	fault_point("worker-decision");
	f->rule = rule;
	exchange_init(f, r, rule);
	head_finished(f, r->head.len);
	return flow_commit(f, &f->request_record);
}

/** A field of the request that the rule does not take (header-deny=), with what to say of it. */
static bool field_denied(const struct http1_request *r, const struct rule *rule,
	char ret_detail[static FLOW_DETAIL_BYTES])
{
	for (size_t i = 0; i < rule->header_deny_count; i++) {
		struct slice name = rule->header_deny[i];
		if (!http1_has_field(&r->head, name))
			continue;
		(void)snprintf(ret_detail, FLOW_DETAIL_BYTES,
			"the request has the field %.*s, which rule %.128s does not take (header-deny)",
			(int)name.len, name.ptr, rule->id);
		return true;
	}
	return false;
}

/** What the rule asks of the request's fields. @return whether it was refused, in *ret. */
static bool fields_refused(struct flow *f, const struct rule *rule, enum flow_progress *ret)
{
	const struct http1_request *r = &f->worker->request;
	char detail[FLOW_DETAIL_BYTES];
	char accept[WEBSOCKET_ACCEPT_BYTES];
	if (field_denied(r, rule, detail) && !record_observe(&f->request_record, REASON_DENY_RULE))
		*ret = refuse_request(f, REASON_DENY_RULE, 0, detail, NULL);
	else if (r->head.websocket && !rule->websocket)
		*ret = refuse_request(f, REASON_DENY_PROTOCOL, 403,
			"the rule does not allow a switch to WebSocket", HINT_UPGRADE);
	else if (r->head.websocket && websocket_accept_of(r, accept) < 0)
		*ret = refuse_request(f, REASON_DENY_PROTOCOL, 400,
			"this is no valid opening handshake of WebSocket", NULL);
	else
		return false;
	return true;
}

static enum flow_progress decide_request(
	struct flow *f, const struct policy_question *q, const struct target *target)
{
	const struct http1_request *r = &f->worker->request;
	struct record *record = &f->request_record;
	struct policy_verdict v;
	enum reason reason = REASON_DENY_ADDRESS_PRIVATE;
	policy_decide(f->sandbox->profile, q, &v);
	if (!reason_allows(v.reason))
		return flow_refuse_verdict(f, &v, q, r);
	assert(v.rule != NULL); /* an allow names its rule */
	record_verdict(record, &v);
	/* In a tunnel this was asked before; an absolute target is judged first, and says most (C10). */
	if (!http1_request_names(r, f->scheme, &f->host, f->port))
		return refuse_request(f, REASON_DENY_HOST_MISMATCH, 400,
			"target and Host field name different hosts", NULL);
	enum flow_progress refused;
	if (fields_refused(f, v.rule, &refused))
		return refused;
	if (r->head.framing.kind == BODY_LENGTH &&
		r->head.framing.length > v.rule->req_body_bytes &&
		!record_observe(record, REASON_DENY_SIZE))
		return refuse_request(f, REASON_DENY_SIZE, 413,
			"the request's body is larger than the rule's req-body allows", NULL);
	if (!rule_admits(f, v.rule, &reason))
		return refuse_request(f, reason, 0,
			"the rule for this request does not open the host's address", NULL);
	return request_allowed(f, v.rule, target);
}

/** Normalise the target, and say in the record what was asked. @return 0 or the reason as -EINVAL ... */
static int describe_request(struct flow *f, bool same)
{
	const struct http1_request *r = &f->worker->request;
	struct target *target = &f->worker->target;
	bool asterisk = r->form == HTTP1_FORM_ASTERISK;
	int bad = asterisk ? 0 : target_normalise(r->target, target);
	struct record_words words = {
		.method = r->method,
		.path = asterisk   ? SLICE("*")
			: bad == 0 ? target->path
				   : r->target,
		.user_agent = http1_field_value(&r->head, SLICE("user-agent")),
		.claims = same || !r->has_host ? (struct slice){0} : slice_of(r->host.name),
	};
	struct slice before = words.path;
	struct slice query = {0};
	bool has_query = bad == 0 && !asterisk && target->has_query;
	if (has_query)
		query = target->query;
	else if (bad != 0)
		has_query = slice_split(words.path, '?', &before, &query);
	words.path = before; /* a query's value never enters the log */
	record_start(f, &f->request_record, false);
	record_continue(f, &f->request_record);
	record_describe(&f->request_record, &words);
	f->request_record.has_query = has_query;
	f->request_record.query_bytes = query.len;
	f->request_record.encoded_slash = bad == 0 && !asterisk && target->encoded_slash;
	return bad;
}

static enum flow_progress refuse_target(struct flow *f, int bad)
{
	if (bad == -EILSEQ)
		return refuse_request(f, REASON_DENY_SMUGGLING, 400,
			"the path hides a dot segment, a separator or a control byte", NULL);
	if (bad == -ENAMETOOLONG)
		return refuse_request(f, REASON_DENY_LIMIT, 414, "the target is too long", NULL);
	return refuse_request(
		f, REASON_DENY_NAME_INVALID, 400, "the target is not a valid path", NULL);
}

/** One request on a known host: in a tunnel, or absolute-form. */
static enum flow_progress judge_request(struct flow *f)
{
	const struct http1_request *r = &f->worker->request;
	const struct target *target = &f->worker->target;
	bool same = http1_request_names(r, f->scheme, &f->host, f->port);
	int bad = describe_request(f, same || !f->open);
	if (r->is_connect)
		return refuse_request(
			f, REASON_DENY_PROTOCOL, 0, "CONNECT inside of a tunnel", NULL);
	if (!same && f->open)
		return refuse_request(f,
			f->tunnel ? REASON_DENY_HOST_MISMATCH
				  : flow_mismatch(f, REASON_DENY_HOST_MISMATCH),
			421,
			f->tunnel ? "the request names another host than the tunnel"
				  : "the request names another host than the address stands for",
			NULL);
	if (bad != 0)
		return refuse_target(f, bad);
	bool asterisk = r->form == HTTP1_FORM_ASTERISK;
	struct policy_question q = flow_question(f);
	q.method = r->method;
	q.path = asterisk ? SLICE("*") : target->path;
	q.has_query = !asterisk && target->has_query;
	q.encoded_slash = !asterisk && target->encoded_slash;
	return decide_request(f, &q, asterisk ? NULL : target);
}

/** On the explicit door, outside of a tunnel: absolute-form http, or it is no request to a proxy. */
static enum flow_progress judge_absolute(struct flow *f)
{
	const struct http1_request *r = &f->worker->request;
	bool absolute = r->form == HTTP1_FORM_ABSOLUTE;
	if (!absolute || r->scheme != POLICY_SCHEME_HTTP) {
		struct record_words words = {.method = r->method, .path = r->target};
		if (absolute)
			words.host = slice_of(r->authority.name);
		else if (r->has_host)
			words.host = slice_of(r->host.name);
		struct slice query;
		(void)slice_split(words.path, '?', &words.path, &query); /* false: no query */
		record_start(f, &f->request_record, false);
		record_describe(&f->request_record, &words);
		return refuse_request(f, REASON_DENY_PROTOCOL, 400,
			absolute ? "https in an absolute target"
				 : "a request without a host in its target",
			absolute ? HINT_CONNECT : HINT_PROXY);
	}
	if (!host_equal(&f->host, &r->authority) || f->port != r->authority_port) {
		flow_drop_upstream(f);
		f->refused[0] = '\0';
		f->destination = r->authority.kind == HOST_ADDRESS ? r->authority.address
								   : (struct address){0};
	}
	f->host = r->authority;
	f->port = r->authority_port;
	f->scheme = POLICY_SCHEME_HTTP;
	return judge_request(f);
}

enum flow_progress flow_step_head(struct flow *f)
{
	struct stream *c = f->client;
	struct http_fault why;
	bool progress = stream_peek(c);
	if (!f->spoken && buf_len(&c->in) > 0) {
		f->spoken = true;
		if (flow_is_socks(f))
			return flow_socks_begin(f);
	}
	enum http1_result result =
		http1_parse_request(&f->scan, buf_slice(&c->in), &f->worker->request, &why);
	if (result != HTTP1_DONE || !f->worker->request.is_connect) {
		stream_take(c, c->peeked);
	} else {
		/* Of a CONNECT take the head alone: what follows is for TLS to read. */
		size_t before = buf_len(&c->in) - c->peeked;
		size_t len = f->worker->request.head.len;
		stream_take(c, len > before ? len - before : 0);
	}
	if (result == HTTP1_MORE)
		return head_unfinished(f, progress);
	if (result == HTTP1_ERROR)
		return flow_refuse_head(f, &why);
	return f->worker->request.is_connect ? judge_connect(f) : judge_absolute(f);
}

/** How setting up the tunnel failed; its record says so already. */
static enum flow_progress tell_fault(struct flow *f)
{
	struct refusal r = {.reason = f->fault->reason,
		.status = f->fault->status,
		.error = f->fault->error,
		.message = f->fault->detail,
		.rule = f->rule,
		.request = &f->worker->request,
		.unrecorded = true};
	return flow_refuse(f, &r);
}

enum flow_progress flow_step_request(struct flow *f)
{
	struct stream *c = f->client;
	struct http_fault why;
	bool progress = stream_fill(c);
	enum http1_result result =
		http1_parse_request(&f->scan, buf_slice(&c->in), &f->worker->request, &why);
	if (result == HTTP1_MORE)
		return head_unfinished(f, progress);
	if (result == HTTP1_ERROR)
		return flow_refuse_head(f, &why);
	return f->fault != NULL ? tell_fault(f) : judge_request(f);
}
