/* The response that explains a refusal: one status line, one Proxy-Status, one JSON object,
 * whatever a peer wrote. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/denial.h"
#include "proxy/http1.h"

#include <jansson.h>

static struct http1_response response;

/** Write it, parse the head with our own strict parser, return the body. */
static struct slice written(const struct denial *d, struct buf *out)
{
	struct http1_scan scan = {0};
	struct http_fault why;
	assert_int_equal(denial_write(d, out), 0);
	assert_int_equal(
		http1_parse_response(&scan, buf_slice(out), d->head, &response, &why), HTTP1_DONE);
	return slice_part(buf_slice(out), response.head.len, buf_len(out));
}

static struct slice field(const char *name)
{
	return http1_field_value(&response.head, slice_of(name));
}

/** Proxy-Status does not pass the proxy, so it is looked for by hand. */
static struct slice proxy_status(void)
{
	for (size_t i = 0; i < response.head.field_count; i++) {
		if (slice_equal(response.head.fields[i].name, SLICE("Proxy-Status")))
			return response.head.fields[i].value;
	}
	return SLICE("");
}

static void expect_member(const json_t *body, const char *key, const char *value)
{
	const char *text = json_string_value(json_object_get(body, key));
	if (text == NULL || strcmp(text, value) != 0)
		fail_msg("%s is '%s'", key, text == NULL ? "missing" : text);
}

static void a_denial_explains_itself(void **state)
{
	(void)state;
	struct buf out = {0};
	struct rule rule = {.id = "corp.allow:7", .file = "corp.allow", .line = 7};
	struct denial d = {.reason = REASON_DENY_PATH,
		.message = "the rule allows /v1/**",
		.host = SLICE("evil.test"),
		.port = 443,
		.method = SLICE("GET"),
		.path = SLICE("/x\"y"),
		.rule = &rule,
		.hint = "ask",
		.allow = "evil.test GET /x",
		.request_id = "0198"};
	struct slice body = written(&d, &out);
	assert_int_equal(response.status, 403);
	assert_true(slice_equal(response.reason, SLICE("deny.path evil.test")));
	assert_true(slice_equal(proxy_status(),
		SLICE("eclusa; error=http_request_denied; details=\"the rule allows /v1/**\"")));
	assert_true(slice_equal(field("Content-Type"), SLICE("application/json")));
	assert_true(slice_equal(field("Eclusa-Request"), SLICE("0198")));
	assert_true(response.head.close);
	assert_int_equal(response.head.framing.length, body.len);
	json_t *root = json_loadb(body.ptr, body.len, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	expect_member(root, "error", "denied");
	expect_member(root, "reason", "deny.path");
	expect_member(root, "message", "the rule allows /v1/**");
	expect_member(root, "host", "evil.test");
	expect_member(root, "path", "/x\"y");
	expect_member(root, "rule", "corp.allow:7");
	expect_member(root, "place", "corp.allow:7");
	expect_member(root, "allow", "evil.test GET /x");
	expect_member(root, "hint", "ask");
	expect_member(root, "request_id", "0198");
	assert_int_equal(json_integer_value(json_object_get(root, "port")), 443);
	json_decref(root);
	buf_fini(&out);
}

static void peer_text_adds_no_line(void **state)
{
	(void)state;
	struct buf out = {0};
	char path[TARGET_PATH_BYTES];
	memset(path, 1, sizeof(path));
	struct denial d = {.reason = REASON_DENY_NAME_INVALID,
		.message = "a \"b\"\r\nX: \\",
		.host = SLICE("a\r\nSet-Cookie: b\0c\xff"),
		.path = {path, sizeof(path)},
		.request_id = "1\r\n2"};
	struct slice body = written(&d, &out);
	assert_int_equal(response.status, 400);
	assert_int_equal(response.head.field_count, 6);
	assert_true(slice_equal(response.reason, SLICE("deny.name-invalid a??Set-Cookie: b?c?")));
	assert_true(slice_equal(proxy_status(),
		SLICE("eclusa; error=http_request_error; details=\"a 'b'??X: '\"")));
	json_t *root = json_loadb(body.ptr, body.len, JSON_ALLOW_NUL, NULL);
	assert_non_null(root);
	json_decref(root);
	buf_fini(&out);
}

static void head_gets_no_body(void **state)
{
	(void)state;
	struct buf out = {0};
	struct denial d = {.reason = REASON_DENY_DEFAULT, .head = true};
	struct slice body = written(&d, &out);
	assert_int_equal(body.len, 0);
	assert_true(response.has_length);
	assert_true(response.length > 0);
	buf_fini(&out);
}

struct kind {
	enum reason reason;
	unsigned status;
	unsigned want_status;
	const char *error;
	const char *want_error;
};

static void every_kind_has_its_status_and_type(void **state)
{
	(void)state;
	static const struct kind all[] = {
		{REASON_DENY_DEFAULT, 0, 403, NULL, "http_request_denied"},
		{REASON_DENY_ADDRESS_PRIVATE, 0, 403, NULL, "destination_ip_prohibited"},
		{REASON_DENY_UPSTREAM_CERT, 0, 502, NULL, "tls_certificate_error"},
		{REASON_DENY_HOST_MISMATCH, 0, 421, NULL, "http_request_denied"},
		{REASON_DENY_LIMIT, 414, 414, NULL, "http_request_error"},
		{REASON_DENY_LIMIT, 0, 503, NULL, "connection_limit_reached"},
		{REASON_ERROR_UPSTREAM, 0, 502, "dns_error", "dns_error"},
		{REASON_ERROR_TIMEOUT, 0, 504, NULL, "connection_timeout"},
	};
	for (size_t i = 0; i < array_size(all); i++) {
		struct buf out = {0};
		char want[64];
		struct denial d = {
			.reason = all[i].reason, .status = all[i].status, .error = all[i].error};
		(void)written(&d, &out);
		assert_int_equal(response.status, all[i].want_status);
		(void)snprintf(want, sizeof(want), "eclusa; error=%s;", all[i].want_error);
		assert_true(slice_starts(proxy_status(), slice_of(want)));
		buf_fini(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_denial_explains_itself),
		cmocka_unit_test(peer_text_adds_no_line),
		cmocka_unit_test(head_gets_no_body),
		cmocka_unit_test(every_kind_has_its_status_and_type),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
