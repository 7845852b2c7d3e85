/*
 * Through the proxy of a company: it is dialled in the host's place, and asked by CONNECT for the address that the guard checked, or, where
 * it alone can look names up, for the name. Behind its answer everything is as on a connection of our own. Input: the proxy's answer.
 * See flow_state.h.
 */
#include "proxy/flow_state.h"

#include "common/cleanup.h"

#include <stdio.h>

#define VIA_AUTHORITY_BYTES (HOST_NAME_BYTES + 16)

static const struct upstream_proxy *proxy_of(const struct flow *f)
{
	return f->worker->context->upstream_proxy;
}

bool flow_has_via(const struct flow *f)
{
	return proxy_of(f) != NULL;
}

struct dial *flow_via_dial(struct flow *f)
{
	const struct upstream_proxy *p = proxy_of(f);
	struct admitted_address at[UPSTREAM_PROXY_ADDRESSES_MAX];
	size_t count = 0;
	while (count < p->count && count < array_size(at)) {
		guard_admit_proxy(p, count, &at[count]);
		count++;
	}
	return dial_start(&f->worker->loop, &f->worker->limits, at, count);
}

/** Of the addresses that the guard admitted the one whose turn it is, those of IPv4 first: not every such proxy has IPv6. */
static const struct admitted_address *target_of(const struct flow *f)
{
	size_t turn = f->via_turn;
	for (unsigned pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < f->admitted_count; i++) {
			bool v6 = f->admitted[i].checked.address.family == 6;
			if (v6 == (pass == 1) && turn-- == 0)
				return &f->admitted[i];
		}
	}
	return NULL;
}

static void authority_print(const struct flow *f, const struct admitted_address *to,
	char text[static VIA_AUTHORITY_BYTES])
{
	char address[ADDRESS_TEXT_BYTES];
	const char *host = to->checked.address.family == 0
		? f->host.name
		: address_format(&to->checked.address, address);
	bool v6 = to->checked.address.family == 6;
	(void)snprintf(text, VIA_AUTHORITY_BYTES, "%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "",
		f->port);
}

static int ask(struct flow *f, const char *authority)
{
	const struct upstream_proxy *p = proxy_of(f);
	struct buf *out = &f->upstream->out;
	const char *const words[] = {"CONNECT ", authority, " HTTP/1.1\r\nHost: ", authority,
		"\r\n", p->basic[0] != '\0' ? "Proxy-Authorization: Basic " : "", p->basic,
		p->basic[0] != '\0' ? "\r\n" : "", "\r\n"};
	for (size_t i = 0; i < array_size(words); i++) {
		if (buf_append_text(out, words[i]) < 0)
			return -ENOMEM;
	}
	return 0;
}

enum flow_progress flow_via_begin(struct flow *f)
{
	char authority[VIA_AUTHORITY_BYTES];
	const struct admitted_address *to = target_of(f);
	struct flow_fault fault = {
		.reason = REASON_ERROR_INTERNAL, .status = 503, .detail = "out of memory"};
	if (to != NULL) {
		f->destination = to->checked.address;
		authority_print(f, to, authority);
		if (ask(f, authority) == 0)
			return flow_move(f, FLOW_VIA);
	}
	return flow_upstream_failed(f, &fault);
}

static enum flow_progress refused(struct flow *f, unsigned status)
{
	struct flow_fault fault = {
		.reason = REASON_ERROR_UPSTREAM, .status = 502, .error = "destination_unavailable"};
	bool elsewhere = status == 502 || status == 503 || status == 504;
	if (elsewhere && f->via_turn + 1u < f->admitted_count && f->via_turn + 1u < VIA_TRIES_MAX) {
		flow_drop_upstream(f);
		f->via_turn++;
		return flow_move(f, FLOW_DIAL);
	}
	if (status == 0)
		(void)snprintf(fault.detail, sizeof(fault.detail),
			"the upstream proxy ended the connection without a valid answer to CONNECT");
	else
		(void)snprintf(fault.detail, sizeof(fault.detail),
			"the upstream proxy refused CONNECT with status %u%s", status,
			status != 407 ? ""
				: proxy_of(f)->basic[0] != '\0'
				? ": it does not take the credentials"
				: ": it wants credentials (--upstream-proxy-auth)");
	return flow_upstream_failed(f, &fault);
}

static enum flow_progress answered(struct flow *f, const struct http1_response *r)
{
	struct stream *u = f->upstream;
	size_t before = buf_len(&u->in) - u->peeked;
	stream_take(u, r->head.len - before);
	buf_consume(&u->in, r->head.len);
	f->x.scan = (struct http1_scan){.limits = &f->worker->limits};
	if (r->status < 200 && r->status != 101)
		return FLOW_AGAIN;
	if (r->status < 200 || r->status > 299)
		return refused(f, r->status);
	free(ptr_take(f->admitted));
	return flow_connected(f);
}

enum flow_progress flow_step_via(struct flow *f)
{
	struct stream *u = f->upstream;
	struct http_fault why;
	bool progress = stream_flush(u);
	/* What follows the head is the host's: it stays in the socket for who reads next. */
	progress |= stream_peek(u);
	switch (http1_parse_response(
		&f->x.scan, buf_slice(&u->in), true, &f->worker->response, &why)) {
	case HTTP1_DONE:
		return answered(f, &f->worker->response);
	case HTTP1_ERROR:
		return refused(f, 0);
	case HTTP1_MORE:
		break;
	}
	if (u->ended || u->broken || u->mute)
		return refused(f, 0);
	stream_take(u, u->peeked);
	return progress ? FLOW_AGAIN : FLOW_WAIT;
}
