/* What lint says of policies that load. */
#include "tests/unit/policy_setup.h"

#include "policy/cover.h"
#include "policy/lint.h"

#define NOW_MS UINT64_C(1800000000000) /* 2027-01-15 08:00 UTC */

static struct policy_report report;

static void lint_text(const char *rules, bool strict)
{
	struct buf text = {.limit = 0};
	(void)buf_printf(&text, "policy 1\n[profile p]\n%s", rules);
	assert_int_equal(buf_append(&text, SLICE("\0")), 0);
	struct policy *p = policy_setup(buf_slice(&text).ptr);
	report = (struct policy_report){.count = 0};
	lint_policy(p, &(struct lint_options){.now_ms = NOW_MS, .strict = strict}, &report);
	policy_free(p);
	buf_fini(&text);
}

/** Findings as "line:code line:code". */
static void codes(char *to, size_t capacity)
{
	size_t len = 0;
	to[0] = '\0';
	for (size_t i = 0; i < report.count && len < capacity; i++)
		len += (size_t)snprintf(to + len, capacity - len, "%s%u:%s", i == 0 ? "" : " ",
			report.items[i].line, report.items[i].code);
}

static void test_each_finding_has_its_place(void **state)
{
	(void)state;
	static const struct {
		const char *rules;
		const char *found;
	} cases[] = {
		{"allow a.test\nallow b.test\n", ""},
		{"deny .a.test\nallow x.a.test\n", "4:unreachable"},
		{"allow *.a.test POST /x\ndeny **.a.test POST\n", "3:unreachable"},
		{"allow a.test POST,GET\ndeny a.test POST\n", ""},
		{"allow a.test /x/y\ndeny a.test /x/**\n", "3:unreachable"},
		{"allow a.test /x/**\ndeny a.test /x/*\n", ""},
		{"allow a.test:80,443\ndeny a.test:443\n", ""},
		{"allow a.test:80,443\ndeny a.test:1-1000\n", "3:unreachable"},
		{"allow .a.test\ndeny **.a.test\n", ""},
		{"allow x.y.a.test\ndeny *.a.test\n", ""},
		{"allow a.test:80\ndeny a.test scheme=https\n", ""},
		{"allow a.test:80\ndeny a.test scheme=http\n", "3:unreachable"},
		{"deny a.test\ndeny .a.test\n", "3:shadowed"},
		{"deny a.test\ndeny a.test\n", "4:shadowed"},
		{"allow a.test /x\nallow a.test /x\n", "4:shadowed"},
		{"allow a.test /x\nallow a.test /x expires=2027-12-31\n", "4:shadowed"},
		{"allow a.test /x expires=2027-12-31\nallow a.test /x\n", ""},
		{"allow a.test /x\nallow a.test /y\n", ""},
		{"allow a.test /x\nallow a.test /x resp-body=1k\n", "4:equal-specificity"},
		{"allow a.test /x/*\nallow a.test /*/x resp-body=1k\n", "4:equal-specificity"},
		{"allow a.test /x/*\nallow a.test /*/** resp-body=1k\n", ""},
		{"allow a.test /x*\nallow a.test /*y query=deny\n", "4:equal-specificity"},
		{"allow a.test /xa\nallow a.test /*y query=deny\n", ""},
		{"allow a.test GET,POST\nallow a.test GET,PUT req-body=1k\n",
			"4:equal-specificity"},
		{"allow a.test GET\nallow a.test POST\n", ""},
		{"allow .a.test\nallow **.a.test enc-slash=literal\n", "4:equal-specificity"},
		{"allow *.a.test\nallow **.a.test enc-slash=literal\n", ""},
		{"allow a.test:443\nallow a.test:80,443 query=deny\n", "4:equal-specificity"},
		{"allow a.test:443\nallow a.test:80 query=deny\n", ""},
		{"allow a.test addr=10.0.0.0/8\nallow a.test\n", "4:equal-specificity"},
		{"allow a.test expires=2027-01-14\n", "3:expired"},
		{"allow a.test expires=2027-01-15\n", "3:expires-soon"},
		{"allow a.test expires=2027-01-28\n", "3:expires-soon"},
		{"allow a.test expires=2027-01-29\n", ""},
		{"allow *.github.io\n", "3:shared-hosting"},
		{"allow *.x.github.io\ndeny .github.com\n", ""},
		{"allow x.github.io POST req-body=2m\n", "3:exfiltration"},
		{"allow x.github.io POST req-body=1m\n", ""},
		{"allow x.github.io GET req-body=2m\n", ""},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char found[512];
		lint_text(cases[i].rules, false);
		codes(found, sizeof(found));
		if (strcmp(found, cases[i].found) != 0)
			fail_msg("%s: '%s', not '%s'", cases[i].rules, found, cases[i].found);
	}
}

static void test_strict_makes_an_expired_rule_an_error(void **state)
{
	(void)state;
	lint_text("allow a.test expires=2027-01-14\n", false);
	assert_int_equal(report.errors, 0);
	lint_text("allow a.test expires=2027-01-14\n", true);
	assert_int_equal(report.errors, 1);
	assert_non_null(strstr(report.items[0].text, "2027-01-14"));
}

static void test_a_group_used_twice_does_not_contradict_itself(void **state)
{
	(void)state;
	struct policy *p = policy_setup("policy 1\n[group g]\nallow a.test resp-body=2m\n"
					"[profile p]\nuse g\nuse g resp-body=1m\n");
	report = (struct policy_report){.count = 0};
	lint_policy(p, &(struct lint_options){.now_ms = NOW_MS}, &report);
	assert_int_equal(report.count, 0);
	policy_free(p);
}

static void test_paths_cover_and_meet(void **state)
{
	(void)state;
	static const struct {
		const char *wide;
		const char *narrow;
		bool covers;
		bool meets;
	} cases[] = {
		{"/**", "/", true, true},
		{"/**", "/a/*/b", true, true},
		{"/a/**", "/a/", true, true},
		{"/a/**", "/a", false, false},
		{"/a/*", "/a/b*", true, true},
		{"/a/*", "/a/", false, false},
		{"/a*", "/ab", true, true},
		{"/a*", "/*b", false, true},
		{"/a*c", "/ab*c*d", false, false},
		{"/a*c", "/ab*c*", false, true},
		{"/*a*", "/b*b", false, true},
		{"/a/*/c", "/a/b/**", false, true},
		{"/a/*/c", "/b/**", false, false},
		{"/*", "/*", true, true},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct slice wide = slice_of(cases[i].wide);
		struct slice narrow = slice_of(cases[i].narrow);
		if (cover_path(wide, narrow) != cases[i].covers ||
			cover_paths_meet(wide, narrow) != cases[i].meets ||
			cover_paths_meet(narrow, wide) != cases[i].meets)
			fail_msg("%s and %s: covers %d, meet %d", cases[i].wide, cases[i].narrow,
				cover_path(wide, narrow), cover_paths_meet(wide, narrow));
	}
}

static void test_too_many_rules_of_one_name_are_said_to_be_too_many(void **state)
{
	(void)state;
	struct buf text = {.limit = 0};
	for (unsigned i = 0; i < 6000; i++)
		(void)buf_printf(&text, "allow a.test /p%u\n", i);
	assert_int_equal(buf_append(&text, SLICE("\0")), 0);
	lint_text(buf_slice(&text).ptr, false);
	buf_fini(&text);
	assert_int_equal(report.count, 1);
	assert_string_equal(report.items[0].code, "lint-limit");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_finding_has_its_place),
		cmocka_unit_test(test_strict_makes_an_expired_rule_an_error),
		cmocka_unit_test(test_a_group_used_twice_does_not_contradict_itself),
		cmocka_unit_test(test_paths_cover_and_meet),
		cmocka_unit_test(test_too_many_rules_of_one_name_are_said_to_be_too_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
