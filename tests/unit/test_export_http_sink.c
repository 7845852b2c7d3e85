/*
 * What the sinks over HTTP put into a request, and what they make of an answer: the envelopes of their kinds, without a network. The
 * courses of whole deliveries are in tests/integration/test_export_http.py.
 */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "export/http_sink.h"
#include "export/kinds.h"

#include <jansson.h>
#include <sys/stat.h>

#define LINE_UID "01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c11"
#define LINE_TEXT                                                                                  \
	"{\"time\":1795961863123,\"severity_id\":3,\"metadata\":{\"uid\":\"" LINE_UID              \
	"\"},\"device\":{\"hostname\":\"gw\\u00e901\"}}"

/** A configured sink that is open, and one batch for it. */
struct setup {
	struct export_config *config;
	struct policy_report report;
	struct sink *sink;
	struct sink_line lines[4];
	struct sink_line *waiting[4];
	struct parcel parcel;
	char secret[64];
};

static void setup_open(struct setup *t, const struct sink_kind *kind, const char *settings)
{
	struct buf text = {.limit = 0};
	struct failure why = {0};
	*t = (struct setup){.secret = "/tmp/eclusa-test-secret-XXXXXX"};
	auto_fd fd = mkstemp(t->secret);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, SLICE("open sesame\n")), 0);
	assert_int_equal(
		buf_printf(&text,
			"export 1\nstate-dir /tmp\nsink s %s\nurl http://127.0.0.1:9/base/\n%s",
			kind->name, settings),
		0);
	if (kind == &sink_splunk_hec)
		assert_int_equal(buf_printf(&text, "token %s\n", t->secret), 0);
	t->config = calloc(1, sizeof(*t->config));
	assert_non_null(t->config);
	if (export_config_parse("test", buf_slice(&text), t->config, &t->report) < 0)
		fail_msg("%s", t->report.items[0].text);
	if (kind->open(&t->config->sinks[0], &t->sink, &why) < 0)
		fail_msg("%s", why.text);
	buf_fini(&text);
	for (size_t i = 0; i < array_size(t->lines); i++) {
		t->lines[i].bytes = t->lines[i].text = SLICE(LINE_TEXT);
		assert_int_equal(facts_find(t->lines[i].bytes, &t->lines[i].facts), 0);
		t->waiting[i] = &t->lines[i];
	}
	t->parcel = (struct parcel){t->waiting, array_size(t->lines)};
}

static void setup_close(struct setup *t)
{
	t->sink->config->kind->free(t->sink);
	free(t->config);
	(void)unlink(t->secret);
}

/** The body of a request with @count lines. */
static void write_body(const struct setup *t, size_t count, struct buf *to)
{
	const struct envelope *e = t->sink->envelope;
	if (e->begin != NULL)
		e->begin(t->sink, to);
	for (size_t i = 0; i < count; i++)
		assert_true(e->add(t->sink, t->waiting[i], i == 0, to));
	if (e->end != NULL)
		e->end(t->sink, to);
	assert_false(to->failed);
}

static enum verdict judge(struct setup *t, unsigned status, const char *body)
{
	char why[SINK_WHY_BYTES];
	struct http_answer answer = {.status = status, .body = slice_of(body)};
	for (size_t i = 0; i < array_size(t->lines); i++)
		t->lines[i].fate = SINK_WAITING;
	return t->sink->envelope->judge(t->sink, &answer, &t->parcel, verdict_say(&answer, why));
}

static void assert_body(const struct setup *t, size_t count, const char *expected)
{
	struct buf body = {.limit = 0};
	write_body(t, count, &body);
	assert_int_equal(buf_append(&body, (struct slice){"", 1}), 0);
	assert_string_equal(buf_slice(&body).ptr, expected);
	buf_fini(&body);
}

static void lines_of_json_are_lines(void **state)
{
	(void)state;
	struct setup t;
	setup_open(&t, &sink_ndjson, "");
	assert_string_equal(t.sink->url, "http://127.0.0.1:9/base/");
	assert_body(&t, 2, LINE_TEXT "\n" LINE_TEXT "\n");
	setup_close(&t);
}

static void statuses_are_judged(void **state)
{
	static const struct {
		unsigned status;
		enum verdict verdict;
	} cases[] = {{200, VERDICT_TAKEN}, {201, VERDICT_TAKEN}, {204, VERDICT_TAKEN},
		{299, VERDICT_TAKEN}, {0, VERDICT_SETTINGS}, {100, VERDICT_SETTINGS},
		{300, VERDICT_SETTINGS}, {301, VERDICT_SETTINGS}, {307, VERDICT_SETTINGS},
		{400, VERDICT_REFUSED}, {401, VERDICT_SETTINGS}, {403, VERDICT_SETTINGS},
		{404, VERDICT_SETTINGS}, {405, VERDICT_SETTINGS}, {407, VERDICT_SETTINGS},
		{408, VERDICT_LATER}, {413, VERDICT_REFUSED}, {415, VERDICT_SETTINGS},
		{422, VERDICT_REFUSED}, {429, VERDICT_LATER}, {500, VERDICT_LATER},
		{502, VERDICT_LATER}, {503, VERDICT_LATER}, {599, VERDICT_LATER},
		{600, VERDICT_SETTINGS}, {UINT32_MAX, VERDICT_SETTINGS}};
	(void)state;
	struct setup t;
	setup_open(&t, &sink_ndjson, "");
	for (size_t i = 0; i < array_size(cases); i++) {
		if (judge(&t, cases[i].status, "") != cases[i].verdict)
			fail_msg("status %u", cases[i].status);
	}
	setup_close(&t);
}

static void answers_are_said_in_printable_words(void **state)
{
	(void)state;
	char why[SINK_WHY_BYTES];
	char body[4096];
	struct http_answer answer = {.status = 503, .body = SLICE(" busy\n\x1b[2J ")};
	assert_string_equal(verdict_say(&answer, why), "HTTP 503: busy\\x0a\\x1b[2J");
	answer.body = SLICE("");
	assert_string_equal(verdict_say(&answer, why), "HTTP 503");
	memset(body, 'x', sizeof(body));
	answer.body = (struct slice){body, sizeof(body)};
	assert_true(strlen(verdict_say(&answer, why)) < SINK_WHY_BYTES);
}

static void an_event_collector_gets_its_form(void **state)
{
	(void)state;
	struct setup t;
	setup_open(&t, &sink_splunk_hec, "index main\n");
	assert_string_equal(t.sink->url, "http://127.0.0.1:9/base/services/collector/event");
	assert_string_equal(t.sink->ack_url, "http://127.0.0.1:9/base/services/collector/ack");
	assert_int_equal(strlen(t.sink->channel), 36);
	assert_body(&t, 1,
		"{\"source\":\"eclusa\",\"sourcetype\":\"eclusa:ocsf\",\"index\":\"main\","
		"\"time\":1795961863.123,\"host\":\"gw\\u00e901\",\"event\":" LINE_TEXT "}");
	setup_close(&t);
}

static void an_event_collectors_answers_are_judged(void **state)
{
	static const struct {
		unsigned status;
		const char *body;
		enum verdict with_acks, without;
	} cases[] = {
		{200, "{\"text\":\"Success\",\"code\":0,\"ackId\":7}", VERDICT_PARSED,
			VERDICT_TAKEN},
		{200, "{\"text\":\"Success\",\"code\":0}", VERDICT_SETTINGS, VERDICT_TAKEN},
		{200, "{\"text\":\"Success\",\"code\":0,\"ackId\":-1}", VERDICT_SETTINGS,
			VERDICT_TAKEN},
		{200, "<html>sign in</html>", VERDICT_SETTINGS, VERDICT_SETTINGS},
		{200, "", VERDICT_SETTINGS, VERDICT_SETTINGS},
		{400, "{\"text\":\"Invalid data format\",\"code\":6}", VERDICT_REFUSED,
			VERDICT_REFUSED},
		{400, "{\"text\":\"Incorrect index\",\"code\":7}", VERDICT_SETTINGS,
			VERDICT_SETTINGS},
		{400, "{\"text\":\"Data channel is missing\",\"code\":10}", VERDICT_SETTINGS,
			VERDICT_SETTINGS},
		{400, "?", VERDICT_REFUSED, VERDICT_REFUSED},
		{403, "{\"text\":\"Invalid token\",\"code\":4}", VERDICT_SETTINGS,
			VERDICT_SETTINGS},
		{413, "", VERDICT_REFUSED, VERDICT_REFUSED},
		{503, "{\"text\":\"Server is busy\",\"code\":9}", VERDICT_LATER, VERDICT_LATER},
	};
	(void)state;
	struct setup with, without;
	setup_open(&with, &sink_splunk_hec, "");
	setup_open(&without, &sink_splunk_hec, "acknowledge no\n");
	assert_string_equal(without.sink->channel, "");
	for (size_t i = 0; i < array_size(cases); i++) {
		if (judge(&with, cases[i].status, cases[i].body) != cases[i].with_acks)
			fail_msg("with: %u %s", cases[i].status, cases[i].body);
		if (judge(&without, cases[i].status, cases[i].body) != cases[i].without)
			fail_msg("without: %u %s", cases[i].status, cases[i].body);
	}
	assert_int_equal(with.sink->ack_id, 7);
	setup_close(&with);
	setup_close(&without);
}

static void each_bulk_event_has_its_id(void **state)
{
	(void)state;
	struct setup t;
	setup_open(&t, &sink_elastic_bulk, "");
	assert_true(slice_starts(slice_of(t.sink->url),
		SLICE("http://127.0.0.1:9/base/logs-eclusa.audit-default/_bulk?filter_path=")));
	assert_body(&t, 1, "{\"create\":{\"_id\":\"" LINE_UID "\"}}\n" LINE_TEXT "\n");
	struct buf body = {.limit = 0};
	t.lines[0].facts.uid = (struct slice){NULL, 0};
	assert_false(t.sink->envelope->add(t.sink, &t.lines[0], true, &body));
	assert_int_equal(t.lines[0].fate, SINK_POISON);
	assert_int_equal(buf_len(&body), 0);
	setup_close(&t);
}

static void each_bulk_item_has_its_fate(void **state)
{
	(void)state;
	struct setup t;
	setup_open(&t, &sink_elastic_bulk, "");
	assert_int_equal(
		judge(&t, 200,
			"{\"items\":[{\"create\":{\"status\":201}},{\"create\":{\"status\":409,\"error\":{}}},"
			"{\"create\":{\"status\":429}},"
			"{\"create\":{\"status\":400,\"error\":{\"type\":\"t\\n\",\"reason\":\"r\"}}}]}"),
		VERDICT_SORTED);
	assert_int_equal(t.lines[0].fate, SINK_DELIVERED);
	assert_int_equal(t.lines[1].fate, SINK_DELIVERED);
	assert_int_equal(t.lines[2].fate, SINK_WAITING);
	assert_int_equal(t.lines[3].fate, SINK_POISON);
	assert_string_equal(t.lines[3].why, "status 400: t\\x0a: r");
	setup_close(&t);
}

static void bulk_answers_of_somebody_else_change_nothing(void **state)
{
	static const struct {
		unsigned status;
		const char *body;
		enum verdict verdict;
	} cases[] = {
		{200, "", VERDICT_SETTINGS},
		{200, "{\"items\":[]}", VERDICT_SETTINGS},
		{200, "{\"items\":[{\"create\":{\"status\":201}}]}", VERDICT_SETTINGS},
		{200,
			"{\"items\":[{\"create\":{\"status\":201}},{\"create\":{\"status\":201}},"
			"{\"create\":{\"status\":201}},{\"index\":{\"status\":201}}]}",
			VERDICT_SETTINGS},
		{400, "{\"error\":{\"type\":\"illegal_argument_exception\"}}", VERDICT_SETTINGS},
		{413, "", VERDICT_REFUSED},
		{503, "", VERDICT_LATER},
		{401, "", VERDICT_SETTINGS},
	};
	(void)state;
	struct setup t;
	setup_open(&t, &sink_elastic_bulk, "");
	for (size_t i = 0; i < array_size(cases); i++) {
		if (judge(&t, cases[i].status, cases[i].body) != cases[i].verdict)
			fail_msg("%u %s", cases[i].status, cases[i].body);
		for (size_t n = 0; n < array_size(t.lines); n++)
			assert_int_equal(t.lines[n].fate, SINK_WAITING);
	}
	setup_close(&t);
}

static void an_otlp_request_is_json_of_its_form(void **state)
{
	(void)state;
	struct setup t;
	struct buf body = {.limit = 0};
	setup_open(&t, &sink_otlp, "");
	assert_string_equal(t.sink->url, "http://127.0.0.1:9/base/v1/logs");
	write_body(&t, 2, &body);
	json_t *root =
		json_loadb(buf_slice(&body).ptr, buf_len(&body), JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(root);
	const json_t *resource = json_array_get(json_object_get(root, "resourceLogs"), 0);
	const json_t *scope = json_array_get(json_object_get(resource, "scopeLogs"), 0);
	const json_t *records = json_object_get(scope, "logRecords");
	assert_int_equal(json_array_size(records), 2);
	const json_t *record = json_array_get(records, 1);
	assert_string_equal(
		json_string_value(json_object_get(record, "timeUnixNano")), "1795961863123000000");
	assert_int_equal(json_integer_value(json_object_get(record, "severityNumber")), 13);
	json_decref(root);
	buf_fini(&body);
	setup_close(&t);
}

static void otlp_answers_are_judged(void **state)
{
	static const struct {
		unsigned status;
		const char *body;
		enum verdict verdict;
		enum sink_fate fate;
	} cases[] = {
		{200, "{}", VERDICT_TAKEN, SINK_WAITING},
		{200, "", VERDICT_TAKEN, SINK_WAITING},
		{200, "{\"partialSuccess\":{}}", VERDICT_TAKEN, SINK_WAITING},
		{200, "{\"partialSuccess\":{\"errorMessage\":\"slow down\"}}", VERDICT_TAKEN,
			SINK_WAITING},
		{200, "{\"partialSuccess\":{\"rejectedLogRecords\":\"0\"}}", VERDICT_TAKEN,
			SINK_WAITING},
		{200, "{\"partialSuccess\":{\"rejectedLogRecords\":\"2\"}}", VERDICT_SORTED,
			SINK_POISON},
		{200, "{\"partialSuccess\":{\"rejectedLogRecords\":2}}", VERDICT_SORTED,
			SINK_POISON},
		{200, "{\"partialSuccess\":{\"rejectedLogRecords\":\"two\"}}", VERDICT_SORTED,
			SINK_POISON},
		{200, "<html>", VERDICT_SETTINGS, SINK_WAITING},
		{429, "", VERDICT_LATER, SINK_WAITING},
		{502, "", VERDICT_LATER, SINK_WAITING},
		{503, "", VERDICT_LATER, SINK_WAITING},
		{504, "", VERDICT_LATER, SINK_WAITING},
		{500, "", VERDICT_REFUSED, SINK_WAITING},
		{408, "", VERDICT_REFUSED, SINK_WAITING},
		{400, "", VERDICT_REFUSED, SINK_WAITING},
		{401, "", VERDICT_SETTINGS, SINK_WAITING},
	};
	(void)state;
	struct setup t;
	setup_open(&t, &sink_otlp, "");
	for (size_t i = 0; i < array_size(cases); i++) {
		if (judge(&t, cases[i].status, cases[i].body) != cases[i].verdict ||
			t.lines[0].fate != cases[i].fate)
			fail_msg("%u %s", cases[i].status, cases[i].body);
	}
	setup_close(&t);
}

static void events_cross_a_network_encrypted(void **state)
{
	static const struct {
		const char *url;
		bool plain;
	} cases[] = {{"https://siem.example/x", false}, {"http://127.0.0.1:8088", false},
		{"http://[::1]/", false}, {"http://localhost/", false}, {"http://LOCALHOST", false},
		{"http://siem.example", true}, {"HTTP://siem.example", true},
		{"http://127.0.0.1.example/", true}, {"http://localhost.example:80/", true},
		{"http://[::2]:80/", true}, {"http://[::1", true}, {"http://", true}};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		if (http_url_is_plain(cases[i].url) != cases[i].plain)
			fail_msg("%s", cases[i].url);
	}
}

static void settings_that_contradict_one_another_are_found(void **state)
{
	static const struct {
		const char *settings, *finding;
	} cases[] = {
		{"url http://siem.example\n", "unencrypted"},
		{"url https://siem.example\ncert /etc/passwd\n", "needs its key"},
		{"url https://siem.example\nkey /etc/passwd\n", "needs its certificate"},
		{"url https://siem.example\nindex a/b\n", "lower-case"},
	};
	(void)state;
	struct export_config *config = calloc(1, sizeof(*config));
	for (size_t i = 0; i < array_size(cases); i++) {
		struct policy_report report = {0};
		struct buf text = {.limit = 0};
		assert_int_equal(
			buf_printf(&text, "export 1\nstate-dir /tmp\nsink s elastic-bulk\n%s",
				cases[i].settings),
			0);
		assert_int_equal(
			export_config_parse("test", buf_slice(&text), config, &report), -EINVAL);
		if (report.count != 1 || strstr(report.items[0].text, cases[i].finding) == NULL)
			fail_msg("%s", cases[i].settings);
		buf_fini(&text);
	}
	free(config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_of_json_are_lines),
		cmocka_unit_test(statuses_are_judged),
		cmocka_unit_test(answers_are_said_in_printable_words),
		cmocka_unit_test(an_event_collector_gets_its_form),
		cmocka_unit_test(an_event_collectors_answers_are_judged),
		cmocka_unit_test(each_bulk_event_has_its_id),
		cmocka_unit_test(each_bulk_item_has_its_fate),
		cmocka_unit_test(bulk_answers_of_somebody_else_change_nothing),
		cmocka_unit_test(an_otlp_request_is_json_of_its_form),
		cmocka_unit_test(otlp_answers_are_judged),
		cmocka_unit_test(events_cross_a_network_encrypted),
		cmocka_unit_test(settings_that_contradict_one_another_are_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
