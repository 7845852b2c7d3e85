/* HTTP/1.1 heads: what is accepted, what is refused and how, and what goes out. Cases A07-A09,
 * C01-C06, C10-C12, C16, C18, H02. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/http1.h"

#include <stdio.h>

#define HOST "Host: allowed.test\r\n"

static struct http1_request request;
static struct http1_response response;

struct refusal {
	const char *text;
	unsigned status;
	enum reason reason;
};

static enum http1_result parse(struct slice text, struct http_fault *why)
{
	struct http1_scan scan = {0};
	return http1_parse_request(&scan, text, &request, why);
}

/** Parse text that must be one whole request. */
static void accept_request(struct slice text)
{
	struct http_fault why;
	enum http1_result r = parse(text, &why);
	if (r != HTTP1_DONE)
		fail_msg("'%.*s' was not accepted: %s", (int)text.len, text.ptr,
			r == HTTP1_ERROR ? why.detail : "more is wanted");
	assert_int_equal(request.head.len, text.len);
}

static void accept_response(struct slice text, bool head_request)
{
	struct http1_scan scan = {0};
	struct http_fault why;
	enum http1_result r = http1_parse_response(&scan, text, head_request, &response, &why);
	if (r != HTTP1_DONE)
		fail_msg("'%.*s' was not accepted: %s", (int)text.len, text.ptr,
			r == HTTP1_ERROR ? why.detail : "more is wanted");
	assert_int_equal(response.head.len, text.len);
}

static void refuse(struct slice text, unsigned status, enum reason reason)
{
	struct http_fault why;
	enum http1_result r = parse(text, &why);
	if (r != HTTP1_ERROR)
		fail_msg("'%.200s' was not refused", text.ptr);
	if (why.status != status || why.reason != reason)
		fail_msg("'%.200s' was refused with %u %s: %s", text.ptr, why.status,
			reason_code(why.reason), why.detail);
}

static void refuse_all(const struct refusal *all, size_t count)
{
	for (size_t i = 0; i < count; i++)
		refuse(slice_of(all[i].text), all[i].status, all[i].reason);
}

#define SMUGGLING    400, REASON_DENY_SMUGGLING
#define NAME_INVALID 400, REASON_DENY_NAME_INVALID
#define GET(fields)  "GET / HTTP/1.1\r\n" HOST fields "\r\n"
#define POST(fields) "POST / HTTP/1.1\r\n" HOST fields "\r\n"

static void a_request_is_parsed_in_place(void **state)
{
	(void)state;
	struct slice text = SLICE("GET /a/b?c=d HTTP/1.1\r\nHost: ALLOWED.test.:8443\r\n"
				  "Accept:*/*\r\nX-Empty:\r\nX:  a b\t \r\n\r\n");
	accept_request(text);
	assert_true(slice_equal(request.method, SLICE("GET")));
	assert_true(slice_equal(request.target, SLICE("/a/b?c=d")));
	assert_int_equal(request.form, HTTP1_FORM_ORIGIN);
	assert_true(request.has_host);
	assert_string_equal(request.host.name, "allowed.test");
	assert_int_equal(request.host_port, 8443);
	assert_int_equal(request.head.field_count, 4);
	assert_int_equal(request.head.framing.kind, BODY_NONE);
	assert_false(request.head.close);
	assert_true(slice_equal(http1_field_value(&request.head, SLICE("x")), SLICE("a b")));
	assert_int_equal(http1_field_value(&request.head, SLICE("x-empty")).len, 0);
	assert_true(request.target.ptr == text.ptr + 4);
}

static void a_head_may_come_byte_by_byte(void **state)
{
	(void)state;
	struct slice text = SLICE(POST("Content-Length: 3\r\n") "abc");
	size_t head_len = text.len - 3;
	struct http1_scan scan = {0};
	struct http_fault why;
	for (size_t len = 0; len < head_len; len++)
		assert_int_equal(
			http1_parse_request(&scan, slice_part(text, 0, len), &request, &why),
			HTTP1_MORE);
	assert_int_equal(http1_parse_request(&scan, text, &request, &why), HTTP1_DONE);
	assert_int_equal(request.head.len, head_len);
	assert_int_equal(request.head.framing.kind, BODY_LENGTH);
	assert_int_equal(request.head.framing.length, 3);
}

static void request_lines_are_strict(void **state)
{
	(void)state;
	static const struct refusal all[] = {
		{"GET / HTTP/1.1\nHost: allowed.test\n\n", SMUGGLING},
		{"GET  / HTTP/1.1\r\n" HOST "\r\n", SMUGGLING},
		{"GET / HTTP/1.1 \r\n" HOST "\r\n", SMUGGLING},
		{"GET /\r\n" HOST "\r\n", SMUGGLING},
		{"GET / HTTP/1.1\r\r\n" HOST "\r\n", SMUGGLING},
		{" GET / HTTP/1.1\r\n" HOST "\r\n", SMUGGLING},
		{"\r\nGET / HTTP/1.1\r\n" HOST "\r\n", SMUGGLING},
		{"G(T / HTTP/1.1\r\n" HOST "\r\n", SMUGGLING},
		{"GET\t/ HTTP/1.1\r\n" HOST "\r\n", SMUGGLING},
		{"GET / HTTP/1.2\r\n" HOST "\r\n", 505, REASON_DENY_PROTOCOL},
		{"GET / HTTP/2.0\r\n" HOST "\r\n", 505, REASON_DENY_PROTOCOL},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, REASON_DENY_PROTOCOL},
		{"GET / http/1.1\r\n" HOST "\r\n", SMUGGLING},
		{"GET / HTTP/1.11\r\n" HOST "\r\n", SMUGGLING},
		{"GET / HTTP/01.1\r\n" HOST "\r\n", SMUGGLING},
		{"GET * HTTP/1.1\r\n" HOST "\r\n", NAME_INVALID},
		{"GET /a#b HTTP/1.1\r\n" HOST "\r\n", NAME_INVALID},
		{"GET /\x01 HTTP/1.1\r\n" HOST "\r\n", NAME_INVALID},
		{"GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n", NAME_INVALID},
		{"GET allowed.test HTTP/1.1\r\n" HOST "\r\n", NAME_INVALID},
		{"AVERYLONGMETHODTHATNOBODYHASEVERUSED / HTTP/1.1\r\n" HOST "\r\n", 501,
			REASON_DENY_LIMIT},
	};
	refuse_all(all, array_size(all));
	refuse(SLICE("\x16\x03\x01"), SMUGGLING);
	accept_request(SLICE("OPTIONS * HTTP/1.1\r\n" HOST "\r\n"));
	assert_int_equal(request.form, HTTP1_FORM_ASTERISK);
	accept_request(SLICE("GET / HTTP/1.0\r\n\r\n"));
	assert_true(request.head.close);
	assert_false(request.has_host);
}

static void absolute_targets_are_strict(void **state)
{
	(void)state;
	static const char *const wrong[] = {"http://allowed.test@denied.test/",
		"http://allowed.test\\@denied.test/", "http://denied.test#@allowed.test/",
		"http://denied.test?@allowed.test/", "http:allowed.test/", "http:///allowed.test/",
		"gopher://allowed.test/", "http://", "http://denied.test%23.wild.test/",
		"http://[denied.test]/", "http://allowed.test:/", "http://allowed.test:0/",
		"http://allowed.test:65536/", "http://allowed.test:00443/", "http://.wild.test/",
		"http://2130706433/", "http://127.1/", "http://0x7f.1/", "http://[fe80::1%25eth0]/",
		"HTTP//allowed.test/"};
	char text[256];
	for (size_t i = 0; i < array_size(wrong); i++) {
		(void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", wrong[i]);
		refuse(slice_of(text), NAME_INVALID);
	}
	accept_request(SLICE("GET HTTP://Allowed.Test HTTP/1.1\r\n" HOST "\r\n"));
	assert_int_equal(request.form, HTTP1_FORM_ABSOLUTE);
	assert_int_equal(request.scheme, POLICY_SCHEME_HTTP);
	assert_string_equal(request.authority.name, "allowed.test");
	assert_int_equal(request.authority_port, 80);
	assert_true(slice_equal(request.target, SLICE("/")));
	accept_request(SLICE("GET https://[2001:DB8::1]:8443/x?y HTTP/1.1\r\n" HOST "\r\n"));
	assert_int_equal(request.scheme, POLICY_SCHEME_HTTPS);
	assert_string_equal(request.authority.name, "2001:db8::1");
	assert_int_equal(request.authority_port, 8443);
	assert_true(slice_equal(request.target, SLICE("/x?y")));
}

static void connect_takes_host_and_port_only(void **state)
{
	(void)state;
	static const char *const wrong[] = {"allowed.test", "allowed.test:", ":443",
		"allowed.test:0", "allowed.test:65536", "allowed.test:443x", "allowed.test:+443",
		"allowed.test:00443", "allowed.test:443:443", "http://allowed.test:443", "/", "*",
		"allowed.test..:443", "[allowed.test]:443", "[[::1]]:443", "::1:443",
		"[fe80::1%25eth0]:443", "denied.test%23.wild.test:443", "denied.test%00:443",
		"a@allowed.test:443", "2130706433:443", "0177.0.0.1:443", "127.0.0.1.:443",
		"0x:443"};
	char text[256];
	for (size_t i = 0; i < array_size(wrong); i++) {
		(void)snprintf(text, sizeof(text), "CONNECT %s HTTP/1.1\r\n\r\n", wrong[i]);
		refuse(slice_of(text), NAME_INVALID);
	}
	static const unsigned char bytes[] = {0x00, 0x01, 0x0b, 0x0d, 0x1b, 0x7f, 0x80, 0xff};
	for (size_t i = 0; i < array_size(bytes); i++) {
		char line[] = "CONNECT denied.test_.wild.test:443 HTTP/1.1\r\n\r\n";
		line[19] = (char)bytes[i];
		refuse((struct slice){line, sizeof(line) - 1}, NAME_INVALID);
	}
	accept_request(SLICE("CONNECT Secret.WILD.Test.:443 HTTP/1.1\r\n\r\n"));
	assert_string_equal(request.authority.name, "secret.wild.test");
	assert_int_equal(request.authority_port, 443);
	assert_true(request.is_connect);
	refuse(SLICE("CONNECT allowed.test:443 HTTP/1.1\r\nContent-Length: 1\r\n\r\n"), SMUGGLING);
	refuse(SLICE("CONNECT a.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"),
		SMUGGLING);
}

static void header_lines_are_strict(void **state)
{
	(void)state;
	static const struct refusal all[] = {
		{GET("X: a\r\n Transfer-Encoding: chunked\r\n"), SMUGGLING},
		{POST("Content-Length:\r\n 5\r\n"), SMUGGLING},
		{POST("Transfer-Encoding : chunked\r\n"), SMUGGLING},
		{"GET / HTTP/1.1\r\nHost\t: denied.test\r\n\r\n", SMUGGLING},
		{"GET / HTTP/1.1\r\n Host: denied.test\r\n\r\n", SMUGGLING},
		{GET("X(: a\r\n"), SMUGGLING},
		{GET("X-HTTP-Method-Override: DELETE\r\n"), SMUGGLING},
		{GET("x-http-method: DELETE\r\n"), SMUGGLING},
		{GET("X-Method-Override: PUT\r\n"), SMUGGLING},
		{GET("X-Original-URL: /admin\r\n"), SMUGGLING},
		{GET("X-Original-URI: /admin\r\n"), SMUGGLING},
		{GET("X-Rewrite-URL: /admin\r\n"), SMUGGLING},
		{GET("X_HTTP_Method_Override: DELETE\r\n"), SMUGGLING},
		{GET("X.Original~URL: /admin\r\n"), SMUGGLING},
		{GET(": x\r\n"), SMUGGLING},
		{GET("X\r\n"), SMUGGLING},
		{GET("X: a\rTransfer-Encoding: chunked\r\n"), SMUGGLING},
		{GET("X: a\nHost: denied.test\r\n"), SMUGGLING},
		{GET("X: a\x7f\r\n"), SMUGGLING},
		{GET("X: a\x01\r\n"), SMUGGLING},
		{GET("X: a\r\r\n"), SMUGGLING},
		{GET("X\r: a\r\n"), SMUGGLING},
	};
	refuse_all(all, array_size(all));
	refuse(SLICE(GET("X: a\0b\r\n")), SMUGGLING);
	refuse(SLICE("GET / HTTP/1.1\nHost"), SMUGGLING); /* at once, not at the end */
	accept_request(SLICE(GET("X: \xc3\xa9 \t\"(){}\r\n")));
}

static void framing_is_unambiguous(void **state)
{
	(void)state;
	static const char *const codings[] = {"chunked,", ",chunked", "chunked, gzip",
		"gzip, chunked", "xchunked", "\"chunked\"", "identity", "chunked chunked", "",
		"\013chunked"};
	static const char *const lengths[] = {"5, 5", "", "+5", "-1", "0x5", "5 5",
		"18446744073709551621", "9223372036854775808", "05", "5a", "5;"};
	char text[256];
	for (size_t i = 0; i < array_size(codings); i++) {
		(void)snprintf(text, sizeof(text), POST("Transfer-Encoding: %s\r\n"), codings[i]);
		refuse(slice_of(text), SMUGGLING);
	}
	for (size_t i = 0; i < array_size(lengths); i++) {
		(void)snprintf(text, sizeof(text), POST("Content-Length: %s\r\n"), lengths[i]);
		refuse(slice_of(text), SMUGGLING);
	}
	static const struct refusal all[] = {
		{POST("Content-Length: 50\r\nTransfer-Encoding: chunked\r\n"), SMUGGLING},
		{POST("Transfer-Encoding: chunked\r\nContent-Length: 50\r\n"), SMUGGLING},
		{POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), SMUGGLING},
		{POST("Content-Length: 5\r\nContent-Length: 5\r\n"), SMUGGLING},
		{POST("Content-Length: 5\r\nContent-Length: 6\r\n"), SMUGGLING},
		{POST("Content-Length: 5\r\nContent-Length:\r\n"), SMUGGLING},
		{"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", SMUGGLING},
	};
	refuse_all(all, array_size(all));
	accept_request(SLICE(POST("transfer-encoding:\t Chunked\t\r\n")));
	assert_int_equal(request.head.framing.kind, BODY_CHUNKED);
	accept_request(SLICE(POST("Content-Length: 9223372036854775807\r\n")));
	assert_int_equal(request.head.framing.length, INT64_MAX);
	accept_request(SLICE(POST("Content-Length: 0\r\n")));
	assert_int_equal(request.head.framing.kind, BODY_LENGTH);
}

static void there_is_one_host(void **state)
{
	(void)state;
	static const struct refusal all[] = {
		{"GET / HTTP/1.1\r\n\r\n", SMUGGLING},
		{GET(HOST), SMUGGLING},
		{GET("Host: denied.test\r\n"), SMUGGLING},
		{"GET / HTTP/1.1\r\nHost: allowed.test, denied.test\r\n\r\n", NAME_INVALID},
		{"GET / HTTP/1.1\r\nHost: a@allowed.test\r\n\r\n", NAME_INVALID},
		{"GET / HTTP/1.1\r\nHost: allowed.test denied.test\r\n\r\n", NAME_INVALID},
		{"GET / HTTP/1.1\r\nHost:\r\n\r\n", NAME_INVALID},
		{"GET / HTTP/1.1\r\nHost: allowed.test:\r\n\r\n", NAME_INVALID},
		{"GET / HTTP/1.1\r\nHost: allowed.test/\r\n\r\n", NAME_INVALID},
	};
	refuse_all(all, array_size(all));
}

struct naming {
	const char *text;
	uint16_t port;
	bool https;
	bool same;
};

static void target_and_host_name_one_origin(void **state)
{
	(void)state;
	static const struct naming all[] = {
		{GET(""), 443, true, true},
		{GET(""), 80, false, true},
		{GET(""), 8443, true, false},
		{"GET / HTTP/1.1\r\nHost: ALLOWED.test:443\r\n\r\n", 443, true, true},
		{"GET / HTTP/1.1\r\nHost: allowed.test:80\r\n\r\n", 443, true, false},
		{"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n", 443, true, false},
		{"GET http://denied.test/3 HTTP/1.1\r\n" HOST "\r\n", 443, true, false},
		{"GET http://allowed.test/3 HTTP/1.1\r\n" HOST "\r\n", 443, true, false},
		{"GET https://allowed.test/3 HTTP/1.1\r\n" HOST "\r\n", 443, true, true},
		{"GET http://allowed.test/x HTTP/1.1\r\nHost: denied.test\r\n\r\n", 80, false,
			false},
		{"GET http://allowed.test:8080/ HTTP/1.1\r\nHost: allowed.test:8080\r\n\r\n", 8080,
			false, true},
		{"CONNECT allowed.test:8443 HTTP/1.1\r\n" HOST "\r\n", 8443, true, true},
		{"CONNECT allowed.test:443 HTTP/1.1\r\nHost: denied.test:443\r\n\r\n", 443, true,
			false},
		{"GET / HTTP/1.0\r\n\r\n", 443, true, true},
	};
	struct host host;
	assert_int_equal(host_parse(SLICE("allowed.test"), &host), 0);
	for (size_t i = 0; i < array_size(all); i++) {
		accept_request(slice_of(all[i].text));
		enum policy_scheme scheme = all[i].https ? POLICY_SCHEME_HTTPS : POLICY_SCHEME_HTTP;
		if (http1_request_names(&request, scheme, &host, all[i].port) != all[i].same)
			fail_msg("'%s' for port %u", all[i].text, all[i].port);
	}
}

static void limits_hold_and_one_less_passes(void **state)
{
	(void)state;
	static char text[2 * HTTP1_HEAD_BYTES_MAX];
	struct slice line = SLICE("GET /");
	memset(text, 'a', sizeof(text));
	memcpy(text, line.ptr, line.len);
	refuse((struct slice){text, HTTP1_LINE_BYTES_MAX + 2}, 414, REASON_DENY_LIMIT);
	struct slice end = SLICE(" HTTP/1.1\r\n" HOST "\r\n");
	memcpy(text + HTTP1_LINE_BYTES_MAX - 9, end.ptr, end.len);
	accept_request((struct slice){text, HTTP1_LINE_BYTES_MAX - 9 + end.len});

	struct slice start = SLICE("GET / HTTP/1.1\r\n" HOST "X: ");
	memset(text, 'a', sizeof(text));
	memcpy(text, start.ptr, start.len);
	refuse((struct slice){text, HTTP1_HEAD_BYTES_MAX}, 431, REASON_DENY_LIMIT);
	memcpy(text + HTTP1_HEAD_BYTES_MAX - 4, "\r\n\r\n", 4);
	accept_request((struct slice){text, HTTP1_HEAD_BYTES_MAX});
	memset(text + HTTP1_HEAD_BYTES_MAX - 4, 'a', 4);
	memcpy(text + HTTP1_HEAD_BYTES_MAX - 3, "\r\n\r\n", 4);
	refuse((struct slice){text, HTTP1_HEAD_BYTES_MAX + 1}, 431, REASON_DENY_LIMIT);
}

/** With limits of its own, a head in one piece. */
static enum http1_result parse_within(const struct limits *limits, const char *text)
{
	struct http1_scan scan = {.limits = limits};
	struct http_fault why;
	enum http1_result r = http1_parse_request(&scan, slice_of(text), &request, &why);
	if (r == HTTP1_ERROR)
		assert_int_equal(why.reason, REASON_DENY_LIMIT);
	return r;
}

static void a_setting_is_the_last_that_passes(void **state)
{
	(void)state;
	struct limits line = limits_default(), head = line, fields = line;
	line.line_bytes = 14;
	assert_int_equal(parse_within(&line, "GET / HTTP/1.1\r\n" HOST "\r\n"), HTTP1_DONE);
	assert_int_equal(parse_within(&line, "GET /a HTTP/1.1\r\n" HOST "\r\n"), HTTP1_ERROR);
	head.head_bytes = (uint32_t)strlen("GET / HTTP/1.1\r\n" HOST "\r\n");
	assert_int_equal(parse_within(&head, "GET / HTTP/1.1\r\n" HOST "\r\n"), HTTP1_DONE);
	assert_int_equal(parse_within(&head, "GET /a HTTP/1.1\r\n" HOST "\r\n"), HTTP1_ERROR);
	assert_int_equal(parse_within(&head, "GET /ab HTTP/1.1\r\n" HOST), HTTP1_ERROR);
	fields.head_fields = 2;
	assert_int_equal(parse_within(&fields, "GET / HTTP/1.1\r\n" HOST "X:\r\n\r\n"), HTTP1_DONE);
	assert_int_equal(
		parse_within(&fields, "GET / HTTP/1.1\r\n" HOST "X:\r\nX:\r\n\r\n"), HTTP1_ERROR);
}

static void fields_are_counted(void **state)
{
	(void)state;
	struct buf text = {0};
	buf_append_text(&text, "GET / HTTP/1.1\r\n" HOST);
	for (int i = 1; i < HTTP1_FIELDS_MAX; i++)
		buf_append_text(&text, "X:\r\n");
	size_t len = buf_len(&text);
	buf_append_text(&text, "\r\n");
	accept_request(buf_slice(&text));
	assert_int_equal(request.head.field_count, HTTP1_FIELDS_MAX);
	text.end = text.start + len;
	buf_append_text(&text, "X:\r\n\r\n");
	refuse(buf_slice(&text), 431, REASON_DENY_LIMIT);
	buf_fini(&text);
	static char cookie[16384 + 64] = "GET / HTTP/1.1\r\n" HOST "Cookie: ";
	size_t from = strlen(cookie);
	memset(cookie + from, 'c', 16384);
	memcpy(cookie + from + 16384, "\r\n\r\n", 4);
	accept_request((struct slice){cookie, from + 16384 + 4});
}

static void upgrades_and_expectations_are_seen(void **state)
{
	(void)state;
	accept_request(SLICE(GET("Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n")));
	assert_true(request.head.websocket);
	accept_request(SLICE(GET("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n")));
	assert_true(request.head.upgrade);
	assert_false(request.head.websocket);
	accept_request(SLICE(GET("Upgrade: websocket\r\n")));
	assert_false(request.head.websocket);
	accept_request(SLICE(POST("Connection: upgrade\r\nUpgrade: websocket\r\n")));
	assert_false(request.head.websocket);
	accept_request(SLICE(POST("Expect: 100-Continue\r\nContent-Length: 1\r\n")));
	assert_true(request.expect_continue);
	accept_request(SLICE("POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n"));
	assert_false(request.expect_continue);
	refuse(SLICE(POST("Expect: 200-ok\r\n")), 417, REASON_DENY_PROTOCOL);
	accept_request(SLICE(GET("Connection: close\r\n")));
	assert_true(request.head.close);
}

static void some_fields_are_never_nominated(void **state)
{
	(void)state;
	static const struct refusal all[] = {
		{GET("Connection: close, Host\r\n"), SMUGGLING},
		{GET("Connection: content-length\r\n"), SMUGGLING},
		{GET("Connection: x, Transfer-Encoding\r\n"), SMUGGLING},
		{GET("Connection: x\r\nConnection: AUTHORIZATION\r\n"), SMUGGLING},
		{GET("Connection: a b\r\n"), SMUGGLING},
		{GET("Connection: \"close\"\r\n"), SMUGGLING},
		{GET("Connection: 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\r\n"
		     "Connection: 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16\r\n"),
			431, REASON_DENY_LIMIT},
	};
	refuse_all(all, array_size(all));
	accept_request(SLICE(GET("Connection: ,, close ,\t,\r\n")));
	assert_true(request.head.close);
}

static void expect_written(const struct http1_destination *to, const char *want)
{
	struct buf out = {0};
	assert_int_equal(http1_write_request(&request, to, &out), 0);
	assert_int_equal(buf_append(&out, (struct slice){"", 1}), 0);
	assert_string_equal(buf_slice(&out).ptr, want);
	buf_fini(&out);
}

static void a_request_goes_out_as_judged(void **state)
{
	(void)state;
	static struct target target;
	struct host host;
	assert_int_equal(target_normalise(SLICE("/a/../%62?q=%2e"), &target), 0);
	assert_int_equal(host_parse(SLICE("allowed.test"), &host), 0);
	struct http1_destination to = {
		.host = &host, .port = 443, .scheme = POLICY_SCHEME_HTTPS, .target = &target};
	accept_request(SLICE("POST /x HTTP/1.1\r\nAccept: */*\r\nConnection: X-Secret, te\r\n"
			     "x-secret: 1\r\nProxy-Authorization: Basic eA==\r\n"
			     "Proxy-Connection: keep-alive\r\nTE: trailers\r\nKeep-Alive: 5\r\n"
			     "Trailer: x\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMA\r\n"
			     "X-Forwarded-Host: denied.test\r\nForwarded: host=denied.test\r\n"
			     "Content_Length: 5\r\nTransfer_Encoding: x\r\nContent.Length: 5\r\n"
			     "X_Forwarded-Host: denied.test\r\nProxy_Authorization: Basic eA==\r\n"
			     "HOST: ALLOWED.TEST:443\r\nExpect: 100-continue\r\n"
			     "TRANSFER-ENCODING:  CHUNKED \r\nAuthorization:Bearer x\r\n\r\n"));
	expect_written(&to,
		"POST /b?q=%2e HTTP/1.1\r\nHost: allowed.test\r\nAccept: */*\r\n"
		"Authorization: Bearer x\r\n"
		"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n");
	accept_request(SLICE("GET / HTTP/1.0\r\nContent-Length: 5\r\n\r\n"));
	to.port = 8443;
	to.close = true;
	expect_written(&to,
		"GET /b?q=%2e HTTP/1.1\r\nHost: allowed.test:8443\r\nContent-Length: 5\r\n"
		"Connection: close\r\n\r\n");
	accept_request(SLICE(GET("Connection: upgrade\r\nUpgrade: websocket\r\n"
				 "Sec-WebSocket-Key: k\r\n")));
	assert_int_equal(host_parse(SLICE("[2001:db8::1]"), &host), 0);
	to = (struct http1_destination){
		.host = &host, .port = 80, .scheme = POLICY_SCHEME_HTTP, .upgrade = true};
	expect_written(&to,
		"GET * HTTP/1.1\r\nHost: [2001:db8::1]\r\nSec-WebSocket-Key: k\r\n"
		"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
}

#define OK "HTTP/1.1 200 OK\r\n"

static void responses_are_strict(void **state)
{
	(void)state;
	static const char *const wrong[] = {"HTTP/1.1 200 OK\n\n", "HTTP/1.1 20 OK\r\n\r\n",
		"HTTP/1.1 2000 OK\r\n\r\n", "HTTP/1.1 099 OK\r\n\r\n", "HTTP/1.1  200 OK\r\n\r\n",
		"HTTP/2 200\r\n\r\n", "HTTP/1.2 200 OK\r\n\r\n", "ICY 200 OK\r\n\r\n",
		"HTTP/1.1 200 O\x01K\r\n\r\n", "SSH-2.0-x\r\n\r\n", OK "X: a\r\n b\r\n\r\n",
		OK "X : a\r\n\r\n", OK "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
		OK "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		OK "Transfer-Encoding: gzip, chunked\r\n\r\n",
		"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		OK "Connection: content-length\r\n\r\n",
		"HTTP/1.1 304 x\r\nContent-Length: x\r\n\r\n"};
	for (size_t i = 0; i < array_size(wrong); i++) {
		struct http1_scan scan = {0};
		struct http_fault why;
		if (http1_parse_response(&scan, slice_of(wrong[i]), false, &response, &why) !=
			HTTP1_ERROR)
			fail_msg("'%s' was not refused", wrong[i]);
		assert_int_equal(why.status, 502);
		assert_int_equal(why.reason, REASON_ERROR_UPSTREAM);
	}
	accept_response(SLICE("HTTP/1.1 200\r\n\r\n"), false);
	accept_response(SLICE("HTTP/1.1 999 \r\n\r\n"), false);
	assert_int_equal(response.head.framing.kind, BODY_UNTIL_CLOSE);
	assert_true(response.head.close);
}

static void endless_response_heads_end(void **state)
{
	(void)state;
	static char text[HTTP1_HEAD_BYTES_MAX];
	struct slice start = SLICE(OK "X: ");
	struct http1_scan scan = {0};
	struct http_fault why;
	memset(text, 'a', sizeof(text));
	memcpy(text, start.ptr, start.len);
	assert_int_equal(http1_parse_response(
				 &scan, (struct slice){text, sizeof(text)}, false, &response, &why),
		HTTP1_ERROR);
	assert_int_equal(why.status, 502);
}

static void expect_response(unsigned minor, bool close, enum body_kind kind, const char *want)
{
	struct buf out = {0};
	struct body_framing framing;
	struct http1_recipient to = {.minor = minor, .close = close};
	assert_int_equal(http1_write_response(&response, &to, &framing, &out), 0);
	assert_int_equal(buf_append(&out, (struct slice){"", 1}), 0);
	assert_string_equal(buf_slice(&out).ptr, want);
	assert_int_equal(framing.kind, kind);
	buf_fini(&out);
}

static void bodiless_responses_keep_what_they_tell(void **state)
{
	(void)state;
	accept_response(SLICE(OK "Content-Length: 1488324\r\n\r\n"), true);
	assert_int_equal(response.head.framing.kind, BODY_NONE);
	expect_response(1, false, BODY_NONE, OK "Content-Length: 1488324\r\n\r\n");
	accept_response(SLICE("HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n"), false);
	expect_response(1, false, BODY_NONE, "HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\n");
	accept_response(SLICE("HTTP/1.1 204 x\r\nContent-Length: 3\r\n\r\n"), false);
	expect_response(1, false, BODY_NONE, "HTTP/1.1 204 x\r\n\r\n");
	accept_response(SLICE("HTTP/1.1 100 Continue\r\n\r\n"), false);
	expect_response(1, true, BODY_NONE, "HTTP/1.1 100 Continue\r\n\r\n");
	accept_response(SLICE("HTTP/1.1 204 x\r\nTransfer-Encoding: chunked\r\n\r\n"), false);
	expect_response(1, false, BODY_NONE, "HTTP/1.1 204 x\r\n\r\n");
	accept_response(SLICE(OK "\r\n"), true);
	assert_false(response.head.close);
	expect_response(1, false, BODY_NONE, OK "\r\n");
}

static void responses_are_framed_anew(void **state)
{
	(void)state;
	accept_response(SLICE(OK "Alt-Svc: h3=\":443\"\r\nConnection: x-hop\r\nX-Hop: 1\r\n"
				 "Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\n"
				 "Server: s\r\nContent-Length: 7\r\n\r\n"),
		false);
	expect_response(1, false, BODY_LENGTH, OK "Server: s\r\nContent-Length: 7\r\n\r\n");
	accept_response(SLICE(OK "transfer-encoding: chunked\r\n\r\n"), false);
	expect_response(1, false, BODY_CHUNKED, OK "Transfer-Encoding: chunked\r\n\r\n");
	expect_response(0, true, BODY_UNTIL_CLOSE, OK "Connection: close\r\n\r\n");
	accept_response(SLICE("HTTP/1.0 200 \x80k\t\r\n\r\n"), false);
	expect_response(
		1, false, BODY_CHUNKED, "HTTP/1.1 200 ?k?\r\nTransfer-Encoding: chunked\r\n\r\n");
	expect_response(1, true, BODY_CHUNKED,
		"HTTP/1.1 200 ?k?\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n");
}

static void a_switch_is_passed_on(void **state)
{
	(void)state;
	struct buf out = {0};
	struct body_framing framing;
	struct http1_recipient to = {.minor = 1, .switched = true};
	accept_response(SLICE("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
			      "Connection: Upgrade\r\nSec-WebSocket-Accept: a\r\n\r\n"),
		false);
	assert_true(response.head.websocket);
	assert_int_equal(http1_write_response(&response, &to, &framing, &out), 0);
	assert_true(slice_equal(buf_slice(&out),
		SLICE("HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: a\r\n"
		      "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")));
	buf_fini(&out);
}

static void a_full_buffer_is_an_error(void **state)
{
	(void)state;
	struct buf out;
	struct body_framing framing;
	struct http1_recipient to = {.minor = 1};
	accept_response(SLICE(OK "\r\n"), false);
	buf_init(&out, 64);
	assert_int_equal(http1_write_response(&response, &to, &framing, &out), -ENOBUFS);
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_parsed_in_place),
		cmocka_unit_test(a_head_may_come_byte_by_byte),
		cmocka_unit_test(request_lines_are_strict),
		cmocka_unit_test(absolute_targets_are_strict),
		cmocka_unit_test(connect_takes_host_and_port_only),
		cmocka_unit_test(header_lines_are_strict),
		cmocka_unit_test(framing_is_unambiguous),
		cmocka_unit_test(there_is_one_host),
		cmocka_unit_test(target_and_host_name_one_origin),
		cmocka_unit_test(limits_hold_and_one_less_passes),
		cmocka_unit_test(a_setting_is_the_last_that_passes),
		cmocka_unit_test(fields_are_counted),
		cmocka_unit_test(upgrades_and_expectations_are_seen),
		cmocka_unit_test(some_fields_are_never_nominated),
		cmocka_unit_test(a_request_goes_out_as_judged),
		cmocka_unit_test(responses_are_strict),
		cmocka_unit_test(endless_response_heads_end),
		cmocka_unit_test(bodiless_responses_keep_what_they_tell),
		cmocka_unit_test(responses_are_framed_anew),
		cmocka_unit_test(a_switch_is_passed_on),
		cmocka_unit_test(a_full_buffer_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
