/* The smallest rule that would have admitted a question. */
#include "policy/canonical.h"
#include "policy/pattern.h"
#include "policy/policy.h"
#include "policy/value.h"

#include <stdio.h>

#define TLS_PORT  443
#define HTTP_PORT 80

static bool reads(struct slice method)
{
	return slice_equal(method, SLICE("GET")) || slice_equal(method, SLICE("HEAD"));
}

/** The host as a rule names it; "" where none should: rules for own networks are made by people who know them. */
static void write_host(const struct host *host, char to[static HOST_NAME_BYTES + 8])
{
	bool address = host->kind == HOST_ADDRESS;
	bool six = address && host->address.family == 6;
	to[0] = '\0';
	if (!pattern_names(host))
		return;
	if (!address || address_classify(&host->address) == ADDRESS_PUBLIC)
		(void)snprintf(to, HOST_NAME_BYTES + 8, "%s%s%s%s", address ? "ip:" : "",
			six ? "[" : "", host->name, six ? "]" : "");
}

/** Append addr= of the rule that stands for the host already: without it the addresses of its name would stay refused. */
static void append_addresses(
	const struct policy_question *q, const struct rule *nearest, char *to, size_t capacity)
{
	struct buf rule = {.limit = 0};
	if (nearest == NULL || !nearest->allow || nearest->address_count == 0 ||
		q->host->kind != HOST_NAME)
		return;
	(void)buf_append_text(&rule, to);
	canonical_addresses(nearest, &rule);
	if (!rule.failed &&
		buf_len(&rule) < capacity) /* else without: narrower, and still a rule */
		(void)slice_copy(buf_slice(&rule), to, capacity);
	buf_fini(&rule);
}

/**
 * The path as the narrowest pattern that takes it. A byte that means something else in a rule's text becomes '*', and of several side by side
 * one: a request for "/a/" and two stars asked for no more than that. Empty where no rule can spell the path.
 */
static struct slice spell_path(struct slice path, char to[static PATTERN_PATH_BYTES_MAX])
{
	size_t len = 0;
	size_t offset;
	if (path.len > PATTERN_PATH_BYTES_MAX)
		return (struct slice){to, 0};
	for (size_t i = 0; i < path.len; i++) {
		char c = path.ptr[i] == '"' ? '*' : path.ptr[i];
		if (c != '*' || len == 0 || to[len - 1] != '*')
			to[len++] = c;
	}
	struct slice pattern = {to, len};
	return len > 0 && pattern_check_path(pattern, &offset) == NULL ? pattern
								       : (struct slice){to, 0};
}

char *policy_suggest(
	const struct policy_question *q, const struct rule *nearest, char *to, size_t capacity)
{
	char host[HOST_NAME_BYTES + 8];
	char port[8] = "";
	char scheme[16] = "";
	char pattern[PATTERN_PATH_BYTES_MAX];
	/* CONNECT asks for a host and port only. */
	bool asked = q->method.len > 0 && !slice_equal(q->method, SLICE("CONNECT"));
	bool plain = q->scheme == POLICY_SCHEME_HTTP;
	/* On the ports of the web such bytes are more likely a mistake than a protocol. */
	bool raw = q->unread && q->port != TLS_PORT && q->port != HTTP_PORT;
	/* A path that no rule can spell is left out: the rule is then wider, and still one that loads. */
	struct slice path = spell_path(asked ? q->path : (struct slice){NULL, 0}, pattern);
	to[0] = '\0';
	write_host(q->host, host);
	if (host[0] == '\0' || (asked && value_method(q->method) != NULL))
		return to;
	if (raw || q->port != TLS_PORT)
		(void)snprintf(port, sizeof(port), ":%u", q->port);
	if (!raw && plain != (q->port == HTTP_PORT))
		(void)snprintf(scheme, sizeof(scheme), " scheme=%s", plain ? "http" : "https");
	bool method = asked && !reads(q->method);
	int len = snprintf(to, capacity, "%s%s%s%s%.*s%s%.*s%s%s", raw ? "tcp " : "", host, port,
		method ? " " : "", method ? (int)q->method.len : 0, method ? q->method.ptr : "",
		path.len > 0 ? " " : "", (int)path.len, path.ptr, scheme,
		path.len > 0 && q->encoded_slash ? " enc-slash=literal" : "");
	if (len < 0 || (size_t)len >= capacity) /* a cut rule would be another rule */
		to[0] = '\0';
	else
		append_addresses(q, nearest, to, capacity);
	return to;
}
