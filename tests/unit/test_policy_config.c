/* The configuration file: what it may say, and the place of whatever it may not. */
#include "policy/config.h"

#include "tests/unit/cmocka_setup.h"

#include <errno.h>
#include <stdio.h>

static void it_says_whom_to_trust(void **state)
{
	struct config c;
	struct failure why = {0};
	(void)state;
	assert_int_equal(config_parse("f", SLICE(""), &c, &why), 0);
	assert_int_equal(c.trust_count, 0);
	assert_false(c.allow_rules);
	assert_int_equal(
		config_parse("f",
			SLICE("# who signs\n\ntrust /k/a.pem   # alice\n  trust /k/b#1.pem\n"
			      "allow-rules yes\n"),
			&c, &why),
		0);
	assert_int_equal(c.trust_count, 2);
	assert_string_equal(c.trust[0].path, "/k/a.pem");
	assert_int_equal(c.trust[0].line, 3);
	assert_string_equal(c.trust[1].path, "/k/b#1.pem");
	assert_int_equal(c.trust[1].line, 4);
	assert_true(c.allow_rules);
	assert_int_equal(config_parse("f", SLICE("allow-rules no"), &c, &why), 0);
	assert_false(c.allow_rules);
}

static void everything_else_is_an_error_with_its_place(void **state)
{
	static const struct {
		const char *text;
		const char *says;
	} cases[] = {
		{"trust\n", "f:1:1: error: config: write: trust FILE"},
		{"trust /a /b\n", "f:1:1: error: config: write: trust FILE"},
		{"\n  trust a.pem\n",
			"f:2:9: error: config: write the key file as an absolute path"},
		{"trust \"/a b\"\n", "f:1:7: error: syntax: a quote may only follow"},
		{"Trust /a\n", "f:1:1: error: config: unknown setting 'Trust'"},
		{"trusts /a\n", "f:1:1: error: config: unknown setting 'trusts'"},
		{"trust=/a\n", "f:1:1: error: config: unknown setting"},
		{"trust \\\n/a\n", "f:1:7: error: syntax: a backslash may only end a line"},
		{"trust /a\r\n", "f:1:"},
		{"trust /a\nallow-rules true\n", "f:2:13: error: config: allow-rules is yes or no"},
		{"allow-rules no\nallow-rules no\n",
			"f:2:13: error: config: allow-rules stands twice"},
		{"trust /\x01\n", "f:1:"},
		{"allow a.test\n", "f:1:1: error: config: unknown setting 'allow'"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct config c = {.trust_count = 77};
		struct failure why = {0};
		if (config_parse("f", slice_of(cases[i].text), &c, &why) != -EINVAL ||
			strncmp(why.text, cases[i].says, strlen(cases[i].says)) != 0)
			fail_msg("%s: %s", cases[i].text, why.text);
		assert_int_equal(c.trust_count, 77);
	}
}

static void its_limits_hold(void **state)
{
	char text[4096] = "", path[CONFIG_PATH_BYTES + 16];
	struct config c;
	struct failure why = {0};
	size_t used = 0;
	(void)state;
	for (int i = 0; i < CONFIG_TRUST_MAX; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "trust /%d\n", i);
	assert_int_equal(config_parse("f", slice_of(text), &c, &why), 0);
	assert_int_equal(c.trust_count, CONFIG_TRUST_MAX);
	(void)snprintf(text + used, sizeof(text) - used, "trust /x\n");
	assert_int_equal(config_parse("f", slice_of(text), &c, &why), -EINVAL);
	assert_string_equal(why.text, "f:17:7: error: config: more than 16 keys are trusted");
	for (size_t len = CONFIG_PATH_BYTES - 1; len <= CONFIG_PATH_BYTES; len++) {
		why.code = 0;
		memset(path, 'x', len);
		path[0] = '/';
		path[len] = '\0';
		(void)snprintf(text, sizeof(text), "trust %s\n", path);
		assert_int_equal(config_parse("f", slice_of(text), &c, &why),
			len < CONFIG_PATH_BYTES ? 0 : -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_says_whom_to_trust),
		cmocka_unit_test(everything_else_is_an_error_with_its_place),
		cmocka_unit_test(its_limits_hold),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
