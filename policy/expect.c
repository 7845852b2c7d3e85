/* See expect.h. */
#include "policy/expect.h"

/** A URL taken apart into a question; the parts live here. */
struct url {
	struct host host;
	struct target target;
	struct policy_question question;
	enum reason refused; /* REASON_ALLOW_RULE: a request may have it */
};

/** http(s)://authority[/path][?query]. @return NULL or what is wrong. */
static const char *url_parse(struct slice text, struct url *ret)
{
	struct policy_question *q = &ret->question;
	uint16_t default_port = 443;
	struct slice rest;
	q->scheme = POLICY_SCHEME_HTTPS;
	if (slice_starts(text, SLICE("https://"))) {
		rest = slice_part(text, 8, text.len);
	} else if (slice_starts(text, SLICE("http://"))) {
		rest = slice_part(text, 7, text.len);
		q->scheme = POLICY_SCHEME_HTTP;
		default_port = 80;
	} else {
		return "a URL starts with https:// or http://";
	}
	size_t len = 0;
	while (len < rest.len && rest.ptr[len] != '/' && rest.ptr[len] != '?' &&
		rest.ptr[len] != '#')
		len++;
	struct slice path = slice_part(rest, len, rest.len);
	if (path.len == 0)
		path = SLICE("/");
	ret->refused = REASON_ALLOW_RULE;
	q->host = &ret->host;
	if (target_normalise(path, &ret->target) < 0) {
		ret->refused = REASON_DENY_SMUGGLING;
	} else {
		q->path = ret->target.path;
		q->has_query = ret->target.has_query;
		q->encoded_slash = ret->target.encoded_slash;
	}
	if (authority_parse(slice_part(rest, 0, len), default_port, &ret->host, &q->port) < 0)
		ret->refused = REASON_DENY_NAME_INVALID;
	return NULL;
}

static void decide(const struct url *u, const struct profile *p, struct policy_verdict *ret)
{
	if (u->refused != REASON_ALLOW_RULE)
		*ret = (struct policy_verdict){
			.reason = u->refused, .detail = "no request may have such a URL"};
	else
		policy_decide(p, &u->question, ret);
}

void expect_judge(const struct expect *e, struct place at, const struct profile *p,
	struct policy_report *report)
{
	struct url url = {.question = {.method = e->method, .now_ms = e->at_ms}};
	struct policy_verdict v;
	const char *wrong = url_parse(e->url, &url);
	if (wrong != NULL) {
		report_error(report, e->url_place, "url", "%s", wrong);
		return;
	}
	decide(&url, p, &v);
	const char *code = reason_code(v.reason);
	if (reason_allows(v.reason) != e->allow)
		report_error(report, at, "expect", "expected %s, got %s%s%s",
			e->allow ? "allow" : "deny", code, v.detail[0] == '\0' ? "" : ": ",
			v.detail);
	else if (e->code != NULL && strcmp(e->code, code) != 0)
		report_error(
			report, at, "expect", "expected %s, got %s: %s", e->code, code, v.detail);
	else if (e->by != NULL && (v.rule == NULL || strcmp(e->by, v.rule->id) != 0))
		report_error(report, at, "expect", "expected it by=%s, but by %s it is %s", e->by,
			v.rule == NULL ? "no rule" : v.rule->id, code);
}
