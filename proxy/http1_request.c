/*
 * Request heads: the request line, the four forms of a target, and what a request as a whole must
 * have. See http1.h. Input: a peer's bytes.
 */
#include "proxy/http1_head.h"

#define NAME_INVALID(why, detail) http1_fault_set(why, 400, REASON_DENY_NAME_INVALID, detail)
#define SMUGGLING(why, detail)    http1_fault_set(why, 400, REASON_DENY_SMUGGLING, detail)

static uint16_t default_port(enum policy_scheme scheme)
{
	return scheme == POLICY_SCHEME_HTTPS ? 443 : 80;
}

static int version_parse(struct slice text, unsigned *ret_minor, struct http_fault *why)
{
	if (slice_equal(text, SLICE("HTTP/1.1"))) {
		*ret_minor = 1;
		return 0;
	}
	if (slice_equal(text, SLICE("HTTP/1.0"))) {
		*ret_minor = 0;
		return 0;
	}
	uint64_t digit;
	if (text.len == 8 && slice_starts(text, SLICE("HTTP/")) && text.ptr[6] == '.' &&
		slice_decimal(slice_part(text, 5, 6), 9, true, &digit) == 0 &&
		slice_decimal(slice_part(text, 7, 8), 9, true, &digit) == 0)
		return http1_fault_set(
			why, 505, REASON_DENY_PROTOCOL, "this version of HTTP is not spoken here");
	return SMUGGLING(why, "the request line has no valid version");
}

/** A target has only visible ASCII, and no fragment (RFC 9112 3.2). */
static bool target_bytes_valid(struct slice target)
{
	for (size_t i = 0; i < target.len; i++) {
		if (target.ptr[i] <= 0x20 || target.ptr[i] >= 0x7f || target.ptr[i] == '#')
			return false;
	}
	return target.len > 0;
}

/** Take a scheme off the front. */
static bool scheme_take(struct slice *target, enum policy_scheme *ret_scheme)
{
	static const struct slice prefixes[] = {
		[POLICY_SCHEME_HTTP] = {"http://", 7},
		[POLICY_SCHEME_HTTPS] = {"https://", 8},
	};
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		size_t len = prefixes[i].len;
		if (target->len < len ||
			!slice_equal_nocase(slice_part(*target, 0, len), prefixes[i]))
			continue;
		*target = slice_part(*target, len, target->len);
		*ret_scheme = (enum policy_scheme)i;
		return true;
	}
	return false;
}

/** http://authority[/path]; host_parse() refuses userinfo, backslash and percent. */
static int absolute_parse(struct slice text, struct http1_request *ret, struct http_fault *why)
{
	if (!scheme_take(&text, &ret->scheme))
		return NAME_INVALID(why, "the target is neither a path nor an http or https URL");
	size_t end = 0;
	while (end < text.len && text.ptr[end] != '/' && text.ptr[end] != '?')
		end++;
	if (end < text.len && text.ptr[end] == '?')
		return NAME_INVALID(why, "the URL has no path before its query");
	if (authority_parse(slice_part(text, 0, end), default_port(ret->scheme), &ret->authority,
		    &ret->authority_port) < 0)
		return NAME_INVALID(why, "the URL's host or port is not valid");
	ret->form = HTTP1_FORM_ABSOLUTE;
	ret->target = end < text.len ? slice_part(text, end, text.len) : SLICE("/");
	return 0;
}

static int target_parse(struct slice text, struct http1_request *ret, struct http_fault *why)
{
	if (!target_bytes_valid(text))
		return NAME_INVALID(why, "the target holds a byte that no target has");
	ret->target = text;
	if (ret->is_connect) {
		ret->form = HTTP1_FORM_AUTHORITY;
		if (authority_parse(text, 0, &ret->authority, &ret->authority_port) < 0)
			return NAME_INVALID(why, "CONNECT takes a valid host:port");
		return 0;
	}
	if (text.ptr[0] == '/') {
		ret->form = HTTP1_FORM_ORIGIN;
		return 0;
	}
	if (slice_equal(text, SLICE("*"))) {
		ret->form = HTTP1_FORM_ASTERISK;
		if (!slice_equal(ret->method, SLICE("OPTIONS")))
			return NAME_INVALID(why, "only OPTIONS takes an asterisk");
		return 0;
	}
	return absolute_parse(text, ret, why);
}

static int line_parse(struct slice line, const struct limits *limits, struct http1_request *ret,
	struct http_fault *why)
{
	struct slice target;
	struct slice version;
	if (!slice_split(line, ' ', &ret->method, &target) || !http1_is_token(ret->method))
		return SMUGGLING(why, "the request line has no valid method");
	if (ret->method.len > limits->method_bytes)
		return http1_fault_set(why, 501, REASON_DENY_LIMIT, "the method is too long");
	if (!slice_split(target, ' ', &target, &version) || slice_find(version, ' ') >= 0)
		return SMUGGLING(why, "the request line has not three parts");
	if (version_parse(version, &ret->head.minor, why) < 0)
		return -1;
	ret->is_connect = slice_equal(ret->method, SLICE("CONNECT"));
	ret->is_head = slice_equal(ret->method, SLICE("HEAD"));
	return target_parse(target, ret, why);
}

/** Whether "host:port" text has a port, given that it is valid. */
static bool has_port(struct slice authority)
{
	return authority.ptr[authority.len - 1] != ']' && slice_find(authority, ':') >= 0;
}

/** Method and path were judged by the request line; an origin that takes them from a field would do another thing. */
static int override_refuse(const struct http1_marks *marks, struct http_fault *why)
{
	if (marks->count[HTTP1_FIELD_OVERRIDE] > 0)
		return SMUGGLING(
			why, "a field asks for another method or path than the request line");
	return 0;
}

static int host_field_parse(
	struct http1_request *ret, const struct http1_marks *marks, struct http_fault *why)
{
	const struct http1_field *field = marks->first[HTTP1_FIELD_HOST];
	ret->has_host = field != NULL;
	ret->host_port = 0;
	if (field == NULL) {
		if (ret->head.minor == 1 && !ret->is_connect)
			return SMUGGLING(why, "there is no Host field");
		return 0;
	}
	if (marks->count[HTTP1_FIELD_HOST] > 1)
		return SMUGGLING(why, "there are several Host fields");
	uint16_t port;
	if (authority_parse(field->value, 80, &ret->host, &port) < 0)
		return NAME_INVALID(why, "the Host field is not a valid host");
	if (has_port(field->value))
		ret->host_port = port;
	return 0;
}

static int expect_parse(
	struct http1_request *ret, const struct http1_marks *marks, struct http_fault *why)
{
	const struct http1_field *field = marks->first[HTTP1_FIELD_EXPECT];
	ret->expect_continue = false;
	if (field == NULL || ret->head.minor == 0) /* RFC 9110 10.1.1: has no meaning there */
		return 0;
	if (marks->count[HTTP1_FIELD_EXPECT] > 1 ||
		!slice_equal_nocase(field->value, SLICE("100-continue")))
		return http1_fault_set(
			why, 417, REASON_DENY_PROTOCOL, "only 100-continue can be expected");
	ret->expect_continue = !field->nominated;
	return 0;
}

static int framing_parse(
	struct http1_request *ret, const struct http1_marks *marks, struct http_fault *why)
{
	if (http1_head_framing(&ret->head, marks, &ret->head.framing, why) < 0)
		return -1;
	bool body = ret->head.framing.kind == BODY_CHUNKED || ret->head.framing.length > 0;
	if (ret->is_connect && body)
		return SMUGGLING(why, "CONNECT takes no body");
	if (ret->is_connect)
		ret->head.framing = (struct body_framing){.kind = BODY_NONE};
	return 0;
}

enum http1_result http1_parse_request(
	struct http1_scan *scan, struct slice in, struct http1_request *ret, struct http_fault *why)
{
	struct http1_text text;
	struct http1_marks marks;
	const struct limits *limits = limits_or_largest(scan->limits);
	enum http1_result found = http1_head_find(scan, in, &text, why);
	if (found != HTTP1_DONE)
		return found;
	ret->head.len = text.len;
	ret->head.framing = (struct body_framing){.kind = BODY_NONE};
	if (line_parse(text.line, limits, ret, why) < 0 ||
		http1_head_fields(text.fields, &ret->head, &marks, why) < 0 ||
		override_refuse(&marks, why) < 0 || host_field_parse(ret, &marks, why) < 0 ||
		http1_head_connection(&ret->head, &marks, limits, why) < 0 ||
		expect_parse(ret, &marks, why) < 0 || framing_parse(ret, &marks, why) < 0)
		return HTTP1_ERROR;
	if (!slice_equal(ret->method, SLICE("GET")))
		ret->head.websocket = false; /* RFC 6455 4.1 */
	return HTTP1_DONE;
}

bool http1_request_names(const struct http1_request *r, enum policy_scheme scheme,
	const struct host *host, uint16_t port)
{
	bool in_target = r->form == HTTP1_FORM_ABSOLUTE || r->form == HTTP1_FORM_AUTHORITY;
	if (in_target && (!host_equal(&r->authority, host) || r->authority_port != port))
		return false;
	if (r->form == HTTP1_FORM_ABSOLUTE && r->scheme != scheme)
		return false;
	if (!r->has_host)
		return true;
	if (!host_equal(&r->host, host))
		return false;
	if (r->host_port == 0)
		return r->form == HTTP1_FORM_AUTHORITY || port == default_port(scheme);
	return r->host_port == port;
}
