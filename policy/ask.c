/* See ask.h. Input: a stranger's bytes. Reasons are those of the proxy's request parser (cases group A). */
#include "policy/ask.h"

#include <errno.h>
#include <stdio.h>

static void refuse(struct policy_ask *a, enum reason reason, const char *why)
{
	a->refused = reason;
	a->why = why;
}

/** RFC 9110 5.6.2. */
static bool is_token(struct slice text)
{
	static const char marks[] = "!#$%&'*+-.^_`|~";
	for (size_t i = 0; i < text.len; i++) {
		char c = ascii_lower(text.ptr[i]);
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
			    (c != '\0' && strchr(marks, c) != NULL)))
			return false;
	}
	return text.len > 0;
}

/** A target has only visible ASCII, and no fragment (RFC 9112 3.2). */
static bool bytes_valid(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] <= 0x20 || text.ptr[i] >= 0x7f || text.ptr[i] == '#')
			return false;
	}
	return text.len > 0;
}

/** Take the scheme off the front. */
static bool take_scheme(struct policy_ask *a, struct slice *url, uint16_t *ret_port)
{
	static const struct slice http = {"http://", 7};
	static const struct slice https = {"https://", 8};
	bool plain = slice_equal_nocase(slice_part(*url, 0, http.len), http);
	if (!plain && !slice_equal_nocase(slice_part(*url, 0, https.len), https))
		return false;
	*url = slice_part(*url, plain ? http.len : https.len, url->len);
	*ret_port = plain ? 80 : 443;
	a->question.scheme = plain ? POLICY_SCHEME_HTTP : POLICY_SCHEME_HTTPS;
	a->tunnel = !plain;
	return true;
}

/** The path's refusal waits until a tunnel's host was judged, as it does in the proxy. */
static void take_path(struct policy_ask *a, struct slice text)
{
	int r = target_normalise(text.len == 0 ? SLICE("/") : text, &a->target);
	if (r == 0) {
		a->question.path = a->target.path;
		a->question.has_query = a->target.has_query;
		a->question.encoded_slash = a->target.encoded_slash;
		return;
	}
	if (r == -EILSEQ) {
		a->path_refused = REASON_DENY_SMUGGLING;
		a->why = "the path hides a dot segment, a separator or a control byte";
	} else if (r == -ENAMETOOLONG) {
		a->path_refused = REASON_DENY_LIMIT;
		a->why = "the target is too long";
	} else {
		a->path_refused = REASON_DENY_NAME_INVALID;
		a->why = "the target is not a valid path";
	}
}

static void take_url(struct policy_ask *a, struct slice url)
{
	uint16_t default_port;
	if (!take_scheme(a, &url, &default_port)) {
		refuse(a, REASON_DENY_NAME_INVALID, "a URL starts with https:// or http://");
		return;
	}
	size_t end = 0;
	while (end < url.len && url.ptr[end] != '/' && url.ptr[end] != '?')
		end++;
	if (authority_parse(slice_part(url, 0, end), default_port, &a->host, &a->question.port) < 0)
		refuse(a, REASON_DENY_NAME_INVALID, "the URL's host or port is not valid");
	else if (end < url.len && url.ptr[end] == '?')
		refuse(a, REASON_DENY_NAME_INVALID, "the URL has no path before its query");
	else
		take_path(a, slice_part(url, end, url.len));
}

void policy_ask_init(struct policy_ask *ret, struct slice method, struct slice url, uint64_t now_ms)
{
	ret->question = (struct policy_question){.host = &ret->host,
		.scheme = POLICY_SCHEME_HTTPS,
		.method = method,
		.now_ms = now_ms};
	ret->host = (struct host){.kind = HOST_NAME};
	ret->refused = ret->path_refused = REASON_ALLOW_RULE;
	ret->why = NULL;
	ret->connect = ret->tunnel = slice_equal(method, SLICE("CONNECT"));
	if (!is_token(method))
		refuse(ret, REASON_DENY_SMUGGLING, "this is not a method");
	else if (!bytes_valid(url))
		refuse(ret, REASON_DENY_NAME_INVALID, "the target holds a byte that no target has");
	else if (!ret->connect)
		take_url(ret, url);
	else if (authority_parse(url, 0, &ret->host, &ret->question.port) < 0)
		refuse(ret, REASON_DENY_NAME_INVALID, "CONNECT takes a valid host:port");
}

static void answer(enum reason reason, const char *why, struct policy_verdict *ret)
{
	*ret = (struct policy_verdict){.reason = reason};
	(void)snprintf(ret->detail, sizeof(ret->detail), "%s", why);
}

static void decide(const struct profile *p, const struct policy_ask *ask,
	const struct policy_question *q, struct policy_verdict *ret)
{
	if (ask->refused != REASON_ALLOW_RULE) {
		answer(ask->refused, ask->why, ret);
		return;
	}
	if (ask->connect) {
		(void)policy_decide_tunnel(p, q, ret); /* of either scheme */
		return;
	}
	if (ask->tunnel) {
		policy_decide_host(p, q, ret);
		if (!reason_allows(ret->reason) || ret->rule->transport == POLICY_SPLICE)
			return; /* what a splice carries is not judged */
		if (ret->rule->transport == POLICY_TCP) {
			answer(REASON_DENY_PROTOCOL, "a tcp rule carries anything but TLS and HTTP",
				ret);
			return;
		}
	}
	if (ask->path_refused != REASON_ALLOW_RULE)
		answer(ask->path_refused, ask->why, ret);
	else
		policy_decide(p, q, ret);
}

void policy_ask_decide(
	const struct profile *p, const struct policy_ask *ask, struct policy_verdict *ret)
{
	decide(p, ask, &ask->question, ret);
}

void policy_ask_enforce(
	const struct profile *p, const struct policy_ask *ask, struct policy_verdict *ret)
{
	struct policy_question q = ask->question;
	q.enforce = true;
	decide(p, ask, &q, ret);
}
