#include "tests/unit/cmocka_setup.h"

#include "audit/event.h"
#include "common/cleanup.h"

#include <jansson.h>

/** Parse an event's line as a log reader does. */
static json_t *parse(const struct audit_event *e)
{
	struct buf line = {0};
	json_error_t error;
	size_t end = 0;
	assert_int_equal(audit_event_write(e, &line, &end), 0);
	struct slice text = buf_slice(&line);
	assert_true(text.len <= AUDIT_LINE_BYTES_MAX);
	assert_int_equal(text.ptr[end], '}');
	for (size_t i = 0; i < text.len; i++)
		assert_true((unsigned char)text.ptr[i] >= 0x20 && text.ptr[i] != 0x7f);
	json_t *event = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, &error);
	if (event == NULL)
		fail_msg("%s at %d", error.text, error.position);
	buf_fini(&line);
	return event;
}

/** The member at a dotted path. */
static json_t *at(json_t *event, const char *path)
{
	struct slice rest = slice_of(path), name;
	json_t *value = event;
	while (slice_split(rest, '.', &name, &rest)) {
		char key[64];
		assert_int_equal(slice_copy(name, key, sizeof(key)), 0);
		value = json_object_get(value, key);
	}
	return json_object_get(value, rest.ptr);
}

static void expect_text(json_t *event, const char *path, const char *wanted)
{
	const char *text = json_string_value(at(event, path));
	if (text == NULL)
		fail_msg("%s is missing", path);
	assert_string_equal(text, wanted);
}

static void expect_number(json_t *event, const char *path, json_int_t wanted)
{
	if (!json_is_integer(at(event, path)))
		fail_msg("%s is no number", path);
	assert_int_equal(json_integer_value(at(event, path)), wanted);
}

static struct audit_event denied_request(void)
{
	return (struct audit_event){.class = AUDIT_HTTP,
		.activity = 6,
		.reason = REASON_DENY_PATH,
		.uid = "01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c11",
		.correlation = "req-1",
		.detail = "path outside rule",
		.start_ms = 1000,
		.end_ms = 1072,
		.sandbox_id = "sb-7q2m4k0vtz",
		.profile = "ci",
		.policy_version = "sha256:7f3c",
		.rule_id = "files",
		.rule_place = "20-files.allow:14",
		.rule_text = "files.example GET /packages/**",
		.rule_ticket = "SEC-1",
		.rule_allows = true,
		.door = "explicit",
		.tls_mode = "inspect",
		.connection = "c-1",
		.source = {.family = 4, .bytes = {10, 0, 0, 3}},
		.source_port = 40000,
		.destination = {.family = 4, .bytes = {203, 0, 113, 7}},
		.destination_port = 443,
		.host = SLICE("files.example"),
		.method = SLICE("POST"),
		.scheme = SLICE("https"),
		.path = SLICE("/other/x"),
		.has_query = true,
		.query_bytes = 10,
		.user_agent = SLICE("pip/24"),
		.content_type = SLICE("application/json"),
		.status = 403,
		.bytes_in = 212,
		.bytes_out = 1078,
		.tls_version = "TLSv1.3",
		.sni = SLICE("files.example"),
		.suggestion = "files.example POST /other/x"};
}

static void a_denied_request_has_its_attributes(void **state)
{
	(void)state;
	static const struct {
		const char *path, *text;
	} texts[] = {
		{"class_name", "HTTP Activity"},
		{"status", "Failure"},
		{"status_code", "deny.path"},
		{"status_detail", "path outside rule"},
		{"action", "Denied"},
		{"disposition", "Blocked"},
		{"message", "deny.path POST https://files.example/other/x"},
		{"metadata.version", "1.8.0"},
		{"metadata.uid", "01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c11"},
		{"metadata.correlation_uid", "req-1"},
		{"metadata.event_code", "deny.path"},
		{"metadata.log_name", "eclusa.audit"},
		{"metadata.product.name", "Eclusa"},
		{"firewall_rule.uid", "files"},
		{"firewall_rule.type", "allow"},
		{"firewall_rule.desc", "20-files.allow:14"},
		{"firewall_rule.condition", "files.example GET /packages/**"},
		{"policy.name", "ci"},
		{"policy.version", "sha256:7f3c"},
		{"src_endpoint.ip", "10.0.0.3"},
		{"src_endpoint.uid", "sb-7q2m4k0vtz"},
		{"dst_endpoint.hostname", "files.example"},
		{"dst_endpoint.ip", "203.0.113.7"},
		{"connection_info.uid", "c-1"},
		{"connection_info.protocol_name", "tcp"},
		{"http_request.http_method", "POST"},
		{"http_request.user_agent", "pip/24"},
		{"http_request.url.scheme", "https"},
		{"http_request.url.path", "/other/x"},
		{"http_request.url.url_string", "https://files.example/other/x"},
		{"http_response.content_type", "application/json"},
		{"tls.version", "TLSv1.3"},
		{"tls.sni", "files.example"},
		{"container.uid", "sb-7q2m4k0vtz"},
		{"unmapped.eclusa.mode", "enforce"},
		{"unmapped.eclusa.intercept", "explicit"},
		{"unmapped.eclusa.tls_mode", "inspect"},
		{"unmapped.eclusa.allow", "files.example POST /other/x"},
	};
	static const struct {
		const char *path;
		json_int_t number;
	} numbers[] = {
		{"class_uid", 4002},
		{"category_uid", 4},
		{"activity_id", 6},
		{"type_uid", 400206},
		{"time", 1072},
		{"start_time", 1000},
		{"end_time", 1072},
		{"duration", 72},
		{"severity_id", 3},
		{"status_id", 2},
		{"action_id", 2},
		{"disposition_id", 2},
		{"src_endpoint.port", 40000},
		{"dst_endpoint.port", 443},
		{"connection_info.direction_id", 2},
		{"connection_info.protocol_num", 6},
		{"http_request.url.port", 443},
		{"http_response.code", 403},
		{"traffic.bytes", 1290},
		{"traffic.bytes_in", 212},
		{"traffic.bytes_out", 1078},
		{"unmapped.eclusa.query_bytes", 10},
	};
	struct audit_event e = denied_request();
	json_t *event = parse(&e);
	for (size_t i = 0; i < array_size(texts); i++)
		expect_text(event, texts[i].path, texts[i].text);
	for (size_t i = 0; i < array_size(numbers); i++)
		expect_number(event, numbers[i].path, numbers[i].number);
	assert_true(json_is_true(at(event, "policy.is_applied")));
	assert_true(json_is_true(at(event, "unmapped.eclusa.has_query")));
	assert_true(json_integer_value(at(event, "unmapped.eclusa.mono_ns")) > 0);
	json_decref(event);
}

static void actions_and_dispositions_follow_the_reason(void **state)
{
	(void)state;
	static const struct {
		enum audit_class class;
		unsigned activity;
		enum reason reason;
		json_int_t action, disposition, status;
	} table[] = {
		{AUDIT_HTTP, 3, REASON_ALLOW_RULE, 1, 1, 1},
		{AUDIT_HTTP, 3, REASON_OBSERVE_WOULD_DENY, 1, 17, 1},
		{AUDIT_HTTP, 3, REASON_DENY_DEFAULT, 2, 2, 2},
		{AUDIT_HTTP, 3, REASON_ERROR_UPSTREAM, 1, 27, 2},
		{AUDIT_HTTP, 3, REASON_ERROR_INTERNAL, 2, 27, 2},
		{AUDIT_NETWORK, 5, REASON_DENY_PACKET, 2, 6, 2},
		{AUDIT_NETWORK, 1, REASON_DENY_PORT, 2, 2, 2},
	};
	for (size_t i = 0; i < array_size(table); i++) {
		struct audit_event e = {.class = table[i].class,
			.activity = table[i].activity,
			.reason = table[i].reason};
		json_t *event = parse(&e);
		expect_number(event, "action_id", table[i].action);
		expect_number(event, "disposition_id", table[i].disposition);
		expect_number(event, "status_id", table[i].status);
		json_decref(event);
	}
}

static void an_observed_request_has_the_reason_that_enforcing_has(void **state)
{
	(void)state;
	struct audit_event e = denied_request();
	e.reason = REASON_OBSERVE_WOULD_DENY;
	e.would = REASON_DENY_PATH;
	e.observe = true;
	e.encoded_slash = true;
	e.request_body_bytes = 7;
	e.response_body_bytes = 70;
	json_t *event = parse(&e);
	expect_text(event, "status_code", "observe.would-deny");
	expect_text(event, "metadata.event_code", "observe.would-deny");
	expect_text(event, "action", "Allowed");
	expect_text(event, "disposition", "Logged");
	expect_text(event, "unmapped.eclusa.mode", "observe");
	expect_text(event, "unmapped.eclusa.would", "deny.path");
	expect_text(event, "unmapped.eclusa.allow", "files.example POST /other/x");
	expect_number(event, "http_request.body_length", 7);
	expect_number(event, "http_response.body_length", 70);
	assert_true(json_is_true(at(event, "unmapped.eclusa.encoded_slash")));
	assert_true(json_is_false(at(event, "policy.is_applied")));
	json_decref(event);
	e.reason = REASON_ERROR_UPSTREAM; /* it passed, and then failed */
	event = parse(&e);
	expect_text(event, "unmapped.eclusa.would", "deny.path");
	json_decref(event);
	e.reason = REASON_DENY_ADDRESS_PRIVATE; /* observe mode does not let this pass */
	event = parse(&e);
	assert_null(at(event, "unmapped.eclusa.would"));
	expect_text(event, "action", "Denied");
	json_decref(event);
}

static void every_reason_and_class_gives_a_line(void **state)
{
	(void)state;
	static const enum audit_class classes[] = {
		AUDIT_HTTP, AUDIT_NETWORK, AUDIT_PROCESS, AUDIT_ENTITY, AUDIT_LIFECYCLE};
	for (int reason = 0; reason < REASON_COUNT; reason++) {
		for (size_t i = 0; i < array_size(classes); i++) {
			struct audit_event e = {.class = classes[i], .reason = (enum reason)reason};
			json_t *event = parse(&e);
			expect_text(event, "status_code", reason_code(e.reason));
			json_decref(event);
		}
	}
}

static void a_sandbox_exit_says_how_it_ended(void **state)
{
	(void)state;
	const char *argv[] = {"/usr/bin/python3", "x.py", "--token", "abc", NULL};
	struct audit_event e = {.class = AUDIT_PROCESS,
		.activity = 2,
		.reason = REASON_SANDBOX_EXIT,
		.sandbox_id = "sb-1",
		.argv = (char *const *)argv,
		.pid = 42,
		.verdict = "wall",
		.exit_code = 124,
		.signal = 9,
		.wall_ms = 15000,
		.memory_peak_bytes = 4096};
	json_t *event = parse(&e);
	expect_number(event, "type_uid", 100702);
	expect_number(event, "exit_code", 124);
	expect_number(event, "status_id", 2);
	expect_text(event, "process.name", "python3");
	expect_text(event, "process.cmd_line", "/usr/bin/python3 x.py --token [redacted:3]");
	expect_text(event, "actor.app_name", "eclusa");
	expect_text(event, "unmapped.eclusa.verdict", "wall");
	expect_number(event, "unmapped.eclusa.wall_ms", 15000);
	expect_number(event, "unmapped.eclusa.redactions", 1);
	json_decref(event);
}

static void a_start_says_who_and_what_went_in(void **state)
{
	(void)state;
	static const struct audit_file inputs[] = {
		{"report.py", 12, NULL}, {"folder", UINT64_MAX, NULL}};
	struct audit_event e = {.class = AUDIT_PROCESS,
		.activity = 1,
		.reason = REASON_SANDBOX_START,
		.has_user = true,
		.user_uid = 4294967294,
		.user_name = "alice",
		.files = inputs,
		.file_count = array_size(inputs)};
	json_t *event = parse(&e);
	expect_text(event, "actor.user.name", "alice");
	expect_text(event, "actor.user.uid", "4294967294");
	json_t *list = at(event, "unmapped.eclusa.inputs");
	assert_int_equal(json_array_size(list), 2);
	expect_text(json_array_get(list, 0), "name", "report.py");
	expect_number(json_array_get(list, 0), "size", 12);
	expect_text(json_array_get(list, 1), "name", "folder");
	assert_null(at(json_array_get(list, 1), "size"));
	assert_null(at(event, "unmapped.eclusa.inputs_left_out"));
	json_decref(event);
	e.has_user = false;
	e.file_count = 0;
	event = parse(&e);
	assert_null(at(event, "actor.user"));
	assert_null(at(event, "unmapped.eclusa.inputs"));
	json_decref(event);
}

/** As many results as there can be, with short names and with the longest, hostile ones. */
static void results_are_named_up_to_a_number_and_then_counted(void **state)
{
	(void)state;
	static const char sha256[] =
		"98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4";
	static char longest[4096];
	memset(longest, '"', sizeof(longest) - 1);
	const struct {
		const char *name;
		size_t count, least, most; /* named */
	} table[] = {
		{"r.csv", 1, 1, 1},
		{"r.csv", AUDIT_FILES_MAX, AUDIT_FILES_MAX, AUDIT_FILES_MAX},
		{"r.csv", AUDIT_FILES_MAX + 1, AUDIT_FILES_MAX, AUDIT_FILES_MAX},
		{"r.csv", 4096, AUDIT_FILES_MAX, AUDIT_FILES_MAX},
		{longest, 4096, 1, AUDIT_FILES_MAX},
	};
	for (size_t i = 0; i < array_size(table); i++) {
		struct audit_file files[AUDIT_FILES_MAX];
		for (size_t k = 0; k < array_size(files); k++)
			files[k] = (struct audit_file){table[i].name, INT64_MAX, sha256};
		struct audit_event e = {.class = AUDIT_PROCESS,
			.activity = 2,
			.reason = REASON_SANDBOX_EXIT,
			.verdict = "ok",
			.files = files,
			.file_count = table[i].count};
		json_t *event = parse(&e);
		json_t *list = at(event, "unmapped.eclusa.results");
		size_t named = json_array_size(list);
		json_t *left_out = at(event, "unmapped.eclusa.results_left_out");
		assert_in_range(named, table[i].least, table[i].most);
		assert_int_equal(json_integer_value(left_out), table[i].count - named);
		assert_int_equal(left_out != NULL, table[i].count > named);
		expect_text(json_array_get(list, 0), "sha256", sha256);
		json_decref(event);
	}
}

static void an_end_that_nobody_saw_has_no_numbers(void **state)
{
	(void)state;
	struct audit_event e = {.class = AUDIT_PROCESS,
		.activity = 2,
		.reason = REASON_SANDBOX_EXIT,
		.sandbox_id = "sb-1",
		.verdict = "unknown",
		.recovered = true};
	json_t *event = parse(&e);
	expect_text(event, "metadata.event_code", "audit.recovered");
	expect_text(event, "status_code", "sandbox.exit");
	expect_text(event, "status", "Failure");
	expect_text(event, "unmapped.eclusa.verdict", "unknown");
	assert_true(json_is_true(at(event, "unmapped.eclusa.recovered")));
	assert_null(at(event, "exit_code"));
	assert_null(at(event, "unmapped.eclusa.wall_ms"));
	json_decref(event);
}

static void refused_packets_are_named_in_words(void **state)
{
	(void)state;
	struct audit_event e = {.class = AUDIT_NETWORK,
		.activity = 5,
		.reason = REASON_DENY_ADDRESS_PRIVATE,
		.door = "packet",
		.address_class = "private",
		.subject = "packets to private addresses",
		.count = 3};
	json_t *event = parse(&e);
	expect_text(event, "message", "deny.address-private packets to private addresses (3)");
	expect_text(event, "unmapped.eclusa.address_class", "private");
	assert_null(at(event, "dst_endpoint"));
	json_decref(event);
}

static void hosts_that_differ_are_shown(void **state)
{
	(void)state;
	struct audit_event e = denied_request();
	e.connect_host = SLICE("a.example");
	e.sni = SLICE("b.example");
	e.host_header = SLICE("c.example");
	json_t *event = parse(&e);
	expect_text(event, "unmapped.eclusa.host_sources.connect", "a.example");
	expect_text(event, "unmapped.eclusa.host_sources.sni", "b.example");
	expect_text(event, "unmapped.eclusa.host_sources.host_header", "c.example");
	json_decref(event);
}

/** 64 KiB of each hostile byte in every peer field at once (case I01). */
static void hostile_text_stays_one_bounded_line(void **state)
{
	(void)state;
	static const char *const pieces[] = {"\r\n", "\x1b[2K", "\"", "\\", "\xe2\x80\xa8",
		"\xff\xfe", "\xf0\x9f\x98\x80", "|=]", "a", "%0d%0a", "\x7f", "://u:p@?", "\xc3"};
	auto_free char *text = malloc(65536);
	assert_non_null(text);
	for (size_t p = 0; p < array_size(pieces); p++) {
		size_t len = strlen(pieces[p]);
		for (size_t i = 0; i < 65536; i++)
			text[i] = pieces[p][i % len];
		struct slice all = {text, 65536};
		struct audit_event e = denied_request();
		e.host = e.connect_host = e.sni = e.host_header = all;
		e.method = e.scheme = e.path = e.user_agent = e.content_type = all;
		auto_free char *words = slice_dup(slice_part(all, 0, 65535));
		e.detail = e.suggestion = e.rule_text = e.rule_id = e.rule_place = words;
		e.rule_owner = e.rule_ticket = e.profile = e.correlation = words;
		json_t *event = parse(&e);
		assert_true(json_integer_value(at(event, "unmapped.eclusa.truncated")) > 0);
		assert_true(json_is_true(at(event, "metadata.is_truncated")));
		json_decref(event);
	}
}

static void short_hostile_text_round_trips(void **state)
{
	(void)state;
	struct audit_event e = denied_request();
	e.host = SLICE("evil\r\n\x1b[2K\"\\\xe2\x80\xa8.test");
	json_t *event = parse(&e);
	expect_text(event, "dst_endpoint.hostname", "evil\r\n\x1b[2K\"\\\xe2\x80\xa8.test");
	json_decref(event);
}

static void long_text_is_cut_with_a_mark(void **state)
{
	(void)state;
	char path[5000], agent[400];
	memset(path, 'p', sizeof(path));
	memset(agent, 'a', sizeof(agent));
	path[0] = '/';
	struct audit_event e = denied_request();
	e.path = (struct slice){path, sizeof(path)};
	e.user_agent = (struct slice){agent, sizeof(agent)};
	json_t *event = parse(&e);
	const char *ua = json_string_value(at(event, "http_request.user_agent"));
	const char *url = json_string_value(at(event, "http_request.url.url_string"));
	assert_int_equal(strlen(ua), 256);
	assert_int_equal(strlen(url), 2048);
	assert_non_null(strstr(ua, "[cut:153]"));
	assert_non_null(strstr(url, "[cut:"));
	json_decref(event);
}

static void secrets_of_a_request_are_not_in_the_line(void **state)
{
	(void)state;
	struct audit_event e = denied_request();
	struct buf line = {0};
	size_t end;
	e.path = SLICE("/hook/ghp_0123456789abcdefghijABCDEFGHIJ012345?token=topsecret");
	e.host = SLICE("user:topsecret@files.example");
	e.suggestion = "files.example POST /hook/ghp_0123456789abcdefghijABCDEFGHIJ012345";
	assert_int_equal(audit_event_write(&e, &line, &end), 0);
	assert_null(memmem(buf_slice(&line).ptr, buf_len(&line), "topsecret", 9));
	assert_null(memmem(buf_slice(&line).ptr, buf_len(&line), "ghp_", 4));
	buf_fini(&line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_denied_request_has_its_attributes),
		cmocka_unit_test(actions_and_dispositions_follow_the_reason),
		cmocka_unit_test(an_observed_request_has_the_reason_that_enforcing_has),
		cmocka_unit_test(every_reason_and_class_gives_a_line),
		cmocka_unit_test(a_sandbox_exit_says_how_it_ended),
		cmocka_unit_test(a_start_says_who_and_what_went_in),
		cmocka_unit_test(results_are_named_up_to_a_number_and_then_counted),
		cmocka_unit_test(an_end_that_nobody_saw_has_no_numbers),
		cmocka_unit_test(refused_packets_are_named_in_words),
		cmocka_unit_test(hosts_that_differ_are_shown),
		cmocka_unit_test(hostile_text_stays_one_bounded_line),
		cmocka_unit_test(short_hostile_text_round_trips),
		cmocka_unit_test(long_text_is_cut_with_a_mark),
		cmocka_unit_test(secrets_of_a_request_are_not_in_the_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
