/* The exporter's configuration: what is taken, what is refused, and where the finding points. */
#include "tests/unit/cmocka_setup.h"

#include "export/config.h"
#include "export/sink.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define HEAD "export 1\nstate-dir /state\n"

struct parsed {
	struct export_config *config;
	struct policy_report *report;
	int result;
};

static struct parsed parse(const char *text)
{
	struct parsed p = {
		.config = calloc(1, sizeof(*p.config)), .report = calloc(1, sizeof(*p.report))};
	assert_non_null(p.config);
	assert_non_null(p.report);
	p.result = export_config_parse("c", slice_of(text), p.config, p.report);
	return p;
}

static void drop(struct parsed *p)
{
	free(p->config);
	free(p->report);
}

static const struct {
	const char *text;
	const char *finding; /* the first one; its beginning */
} wrong[] = {
	{"", "c:1:1: error: syntax: the first line is: export 1"},
	{"state-dir /s\n", "c:1:1: error: syntax: the first line is: export 1"},
	{"export 2\nstate-dir /s\n", "c:1:1: error: syntax:"},
	{"export 1\n", "c:1:1: error: missing: state-dir is missing"},
	{HEAD, "c:1:1: error: missing: there is no sink"},
	{HEAD "sink a stdout x\n", "c:3:1: error: syntax: write: sink NAME KIND"},
	{HEAD "sink A stdout\n", "c:3:6: error: value: a sink's name"},
	{HEAD "sink -a stdout\n", "c:3:6: error: value: a sink's name"},
	{HEAD "sink a stdoutt\n", "c:3:8: error: unknown: unknown kind of sink 'stdoutt'"},
	{HEAD "sink a stdout\nsink a file\n", "c:4:6: error: twice:"},
	{HEAD "sink a stdout\nsink b stdout\n", "c:4:6: error: twice: only one sink"},
	{HEAD "sink a stdout\n formt cef\n",
		"c:4:2: error: unknown: unknown setting 'formt'; did you mean 'format'?"},
	{HEAD "sink a stdout\n format nine\n",
		"c:4:9: error: value: format: a sink of kind stdout"},
	{HEAD "sink a syslog\n server h:1\n transport tcp\n format csv\n",
		"c:6:9: error: value: format:"},
	{HEAD "sink a stdout\n timeout 9ms\n",
		"c:4:10: error: value: timeout: this is at least 10"},
	{HEAD "sink a stdout\n timeout\n", "c:4:2: error: syntax: write: timeout VALUE"},
	{HEAD "sink a stdout\n timeout 1s\n timeout 1s\n",
		"c:5:2: error: twice: timeout stands twice, first in line 4"},
	{HEAD "sink a stdout\n retry-least 2m\n",
		"c:4:14: error: value: retry-least: this is at least"},
	{HEAD "sink a stdout\n retry-most 1ms\n",
		"c:4:13: error: value: retry-most: less than retry-least"},
	{HEAD "sink a file\n", "c:3:6: error: missing: path is missing"},
	{HEAD "sink a file\n path x\n", "c:4:7: error: value: path: write an absolute path"},
	{HEAD "sink a syslog\n transport tcp\n", "c:3:6: error: missing: server is missing"},
	{HEAD "sink a syslog\n server h\n transport tcp\n", "c:4:9: error: value: server:"},
	{HEAD "sink a syslog\n server h:0\n transport tcp\n", "c:4:9: error: value: server:"},
	{HEAD "sink a syslog\n server h:65536\n transport tcp\n", "c:4:9: error: value: server:"},
	{HEAD "sink a syslog\n server [h]:1\n transport tcp\n", "c:4:9: error: value: server:"},
	{HEAD "sink a syslog\n server ::1:1\n transport tcp\n", "c:4:9: error: value: server:"},
	{HEAD "sink a syslog\n server h..x:1\n transport tcp\n", "c:4:9: error: value: server:"},
	{HEAD "sink a syslog\n server h:1\n", "c:3:6: error: value: ca: missing"},
	{HEAD "sink a syslog\n server h:1\n ca /ca\n cert /c\n",
		"c:6:7: error: value: cert: cert and key"},
	{HEAD "sink a syslog\n server h:1\n transport tcp\n ca /ca\n",
		"c:6:5: error: value: ca: this is for"},
	{HEAD "sink a syslog\n server h:1\n transport udp\n",
		"c:5:12: error: value: transport: udp loses"},
	{HEAD "sink a syslog\n server h:1\n transport tcp\n lossy yes\n",
		"c:6:8: error: value: lossy:"},
	{HEAD "sink a syslog\n server h:1\n transport carrier\n",
		"c:5:12: error: value: transport: this is one of tls, tcp, udp"},
	{HEAD "sink a stdout\r\n", "c:3:14: error: byte: a carriage return"},
	{"export 1\nstate-dir state\nsink a stdout\n",
		"c:2:11: error: value: state-dir: write an absolute path"},
	{HEAD "usr x\nsink a stdout\n",
		"c:3:1: error: unknown: unknown setting 'usr'; did you mean 'user'?"},
};

static void test_what_is_wrong_is_told_with_its_place(void **state)
{
	(void)state;
	char said[1024];
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct parsed p = parse(wrong[i].text);
		assert_int_equal(p.result, -EINVAL);
		assert_true(p.report->count > 0);
		policy_diagnostic_format(&p.report->items[0], said, sizeof(said));
		if (strncmp(said, wrong[i].finding, strlen(wrong[i].finding)) != 0)
			fail_msg("%s\n    said   %s\n    wanted %s", wrong[i].text, said,
				wrong[i].finding);
		drop(&p);
	}
}

static void test_what_stands_in_for_what_is_not_said(void **state)
{
	(void)state;
	struct parsed p = parse("# a comment\nexport 1\n\nstate-dir /state # here\n"
				"sink a-1 syslog\n\tserver [2001:db8::1]:6514\n\tca /ca\n"
				"sink b file\npath /out\nformat cef\nbatch-bytes 64k\n");
	assert_int_equal(p.result, 0);
	assert_int_equal(p.config->sink_count, 2);
	const struct sink_config *a = &p.config->sinks[0], *b = &p.config->sinks[1];
	assert_string_equal(a->name, "a-1");
	assert_string_equal(sink_config_value(a, "server")->text, "2001:db8::1");
	assert_int_equal(sink_config_value(a, "server")->number, 6514);
	assert_int_equal(sink_config_value(a, "transport")->number, 0);
	assert_int_equal(sink_config_value(a, "message-bytes")->number, 16384);
	assert_int_equal(a->format, AUDIT_FORMAT_OCSF);
	assert_int_equal(a->retry_least_ms, 500);
	assert_int_equal(a->retry_most_ms, 60000);
	assert_int_equal(b->format, AUDIT_FORMAT_CEF);
	assert_int_equal(b->batch_bytes, 65536);
	assert_int_equal(sink_config_value(b, "sync")->number, 1);
	drop(&p);
}

static void test_at_most_so_many_sinks(void **state)
{
	(void)state;
	char text[4096] = HEAD;
	for (int i = 0; i <= EXPORT_SINKS_MAX; i++) {
		struct parsed p = parse(text);
		assert_int_equal(p.result, i == 0 ? -EINVAL : 0);
		drop(&p);
		size_t used = strlen(text);
		(void)snprintf(
			text + used, sizeof(text) - used, "sink s%d file\npath /o%d\n", i, i);
	}
	struct parsed p = parse(text);
	assert_int_equal(p.result, -EINVAL);
	assert_string_equal(p.report->items[0].code, "too-many");
	drop(&p);
}

/** Every kind's table holds together: a name once, what stands in is a value, functions are there. */
static void test_every_kind_is_whole(void **state)
{
	(void)state;
	for (size_t i = 0; sink_kind_at(i) != NULL; i++) {
		const struct sink_kind *kind = sink_kind_at(i);
		assert_ptr_equal(sink_kind_find(slice_of(kind->name)), kind);
		assert_true((kind->formats & 1U << kind->format) != 0);
		assert_true(kind->open != NULL && kind->deliver != NULL && kind->reset != NULL &&
			kind->free != NULL);
		assert_true(kind->window <= 1 || kind->settle != NULL);
		for (size_t k = 0; k < kind->setting_count; k++) {
			for (size_t n = 0; n < k; n++)
				assert_string_not_equal(
					kind->settings[k].name, kind->settings[n].name);
			assert_true(
				!kind->settings[k].required || kind->settings[k].otherwise == NULL);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_is_wrong_is_told_with_its_place),
		cmocka_unit_test(test_what_stands_in_for_what_is_not_said),
		cmocka_unit_test(test_at_most_so_many_sinks),
		cmocka_unit_test(test_every_kind_is_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
