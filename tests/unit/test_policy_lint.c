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

/** Findings, or notes, as "line:code line:code". */
static void codes(bool notes, char *to, size_t capacity)
{
	size_t len = 0;
	to[0] = '\0';
	for (size_t i = 0; i < report.count && len < capacity; i++) {
		const struct policy_diagnostic *d = &report.items[i];
		if ((d->severity == POLICY_NOTE) == notes)
			len += (size_t)snprintf(to + len, capacity - len, "%s%u:%s",
				len == 0 ? "" : " ", d->line, d->code);
	}
}

static const struct {
	const char *rules;
	const char *found;
} findings[] = {
	{"allow a.test\nallow b.test\n", ""},
	{"deny .a.test\nallow x.a.test\n", "4:unreachable"},
	{"allow *.a.test POST /x\ndeny **.a.test POST\n", "3:unreachable"},
	{"allow a.test POST,GET\ndeny a.test POST\n", ""},
	{"allow a.test /x/y\ndeny a.test /x/**\n", "3:unreachable"},
	{"allow a.test /x/**\ndeny a.test /x/*\n", "4:deny-path"},
	{"allow a.test:80,443 note=signed\ndeny a.test:443\n", ""},
	{"allow a.test:80,443 note=signed\ndeny a.test:1-1000\n", "3:unreachable"},
	{"allow .a.test\ndeny **.a.test\n", ""},
	{"allow x.y.a.test\ndeny *.a.test\n", ""},
	{"allow a.test:80 note=signed\ndeny a.test scheme=https\n", ""},
	{"allow a.test:80 note=signed\ndeny a.test scheme=http\n", "3:unreachable"},
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
	{"allow a.test GET,POST\nallow a.test GET,PUT req-body=1k\n", "4:equal-specificity"},
	{"allow a.test GET\nallow a.test POST\n", ""},
	{"allow .a.test\nallow **.a.test enc-slash=literal\n", "4:equal-specificity"},
	{"allow *.a.test\nallow **.a.test enc-slash=literal\n", ""},
	{"allow a.test:443\nallow a.test:80,443 query=deny note=signed\n", "4:equal-specificity"},
	{"allow a.test:443\nallow a.test:80 query=deny note=signed\n", ""},
	{"allow a.test addr=10.0.0.0/8\nallow a.test\n", "4:equal-specificity"},
	{"allow a.test expires=2027-01-14\n", "3:expired"},
	{"allow a.test expires=2027-01-15\n", "3:expires-soon"},
	{"allow a.test expires=2027-01-28\n", "3:expires-soon"},
	{"allow a.test expires=2027-01-29\n", ""},
	{"allow *.github.io\n", "3:shared-hosting"},
	{"allow *.x.github.io\ndeny .github.com\n", ""},
	{"allow x.github.io POST req-body=2m\n", "3:exfiltration 3:up-budget"},
	{"allow x.github.io POST req-body=1m\n", ""},
	{"allow x.github.io GET req-body=2m\n", "3:up-budget"},
	/* one body and the budget */
	{"allow a.test POST up=1m\n", "3:up-budget"},
	{"allow a.test POST up=2m\n", ""},
	{"allow a.test POST\n", ""},
	{"allow a.test POST req-body=4m\n", "3:up-budget"},
	{"allow a.test POST req-body=4m up=5m\n", ""},
	{"allow a.test POST req-body=4m up=4m window=1h\n", "3:up-budget"},
	{"allow tcp a.test:22 up=1k\nallow b.test up=1k\n", ""},
	/* limits in which two rules differ */
	{"allow a.test /x\nallow a.test /x rate=1/s\n", "4:equal-specificity"},
	{"allow a.test /x\nallow a.test /x down=1k\n", "4:equal-specificity"},
	{"allow a.test /x\nallow a.test /x header-deny=cookie\n", "4:equal-specificity"},
	{"allow a.test /x\nallow a.test /x upgrade=websocket\n", "4:equal-specificity"},
	{"allow a.test /x\nallow a.test /x mode=observe\n", "4:equal-specificity"},
	{"allow ip:10.1.0.0/16 /x\nallow ip:10.1.0.0/16 /x conns=1\n", "4:equal-specificity"},
	{"allow ip:10.1.0.0/16\nallow ip:10.1.2.0/24 conns=1\n", ""},
	/* what passes unread */
	{"allow x.github.io tls=splice\n", "3:splice-hosting"},
	{"allow x.github.com tls=splice\n", ""},
	{"allow x.github.io tls=splice up=2m\n", "3:splice-hosting 3:exfiltration"},
	{"allow a.test tls=splice\ndeny .a.test\n", "3:unreachable"},
	{"allow tcp a.test:22\ndeny .a.test:22 GET\n", ""},
	{"allow ip:10.1.2.3\ndeny ip:10.1.0.0/16\n", "3:unreachable"},
	{"allow ip:10.1.0.0/16\ndeny ip:10.1.2.3\n", ""},
	{"allow ip:10.1.0.0/16\ndeny ip:10.1.2.3 /x\n", "4:deny-path"},
	{"allow any ticket=T\ndeny a.test /x\n", "4:deny-path"},
	{"allow a.test\ndeny any\n", "3:unreachable"},
	{"allow ip:10.1.2.3\ndeny any\n", ""},
	/* addresses that are the gateway's own */
	{"allow ip:198.18.0.0/15\nallow ip:198.19.3.4\nallow tcp ip:10.255.255.254:22\n",
		"3:gateway-address 4:gateway-address 5:gateway-address"},
	{"allow ip:198.20.0.0/16\nallow ip:10.255.255.253\ndeny ip:198.18.0.0/15\n", ""},
	{"allow ip:10.0.0.0/8\nallow ip:198.16.0.0/13\nallow ip:[2001:db8::/32]\n", ""},
	/* plain HTTP, unless a note says why */
	{"allow a.test:80\n", "3:plain-http"},
	{"allow a.test:70-90\n", "3:plain-http"},
	{"allow a.test:8080 scheme=http\n", "3:plain-http"},
	{"allow a.test:80 scheme=https\n", ""},
	{"deny a.test:80\n", ""},
	/* a deny rule that takes a part */
	{"allow .a.test\ndeny x.a.test /admin/**\n", "4:deny-path"},
	{"allow x.a.test\ndeny .a.test GET /admin/**\n", "4:deny-path"},
	{"allow x.a.test\ndeny .a.test POST /admin/**\n", ""},
	{"allow x.a.test /v1/**\ndeny .a.test /admin/**\n", ""},
	{"allow x.a.test\ndeny .a.test:8443 /admin/**\n", ""},
	{"allow y.x.a.test\ndeny *.a.test /admin/**\n", ""},
	{"allow a.test\ndeny **.a.test /admin/**\n", ""},
	{"allow *.a.test\ndeny b.a.test POST\n", ""},
};

static void test_each_finding_has_its_place(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(findings) / sizeof(findings[0]); i++) {
		char found[512];
		lint_text(findings[i].rules, false);
		codes(false, found, sizeof(found));
		if (strcmp(found, findings[i].found) != 0)
			fail_msg("%s: '%s', not '%s'", findings[i].rules, found, findings[i].found);
	}
}

static void test_notes_say_what_a_wildcard_covers(void **state)
{
	(void)state;
	char found[256];
	lint_text("allow a.test\nallow *.b.test\nallow **.c.test\nallow .d.test\n"
		  "allow any:444 ticket=T mode=observe\nallow ip:10.0.0.0/8\n"
		  "deny .e.test\ndeny **.f.test\n",
		false);
	codes(false, found, sizeof(found));
	assert_string_equal(found, "");
	codes(true, found, sizeof(found));
	assert_string_equal(found,
		"4:wildcard 5:wildcard 6:wildcard 7:wildcard 7:observe 8:gateway-address "
		"10:wildcard");
	assert_string_equal(report.items[0].text,
		"*.b.test covers one label (a.b.test), not b.test and not b.a.b.test");
	assert_non_null(strstr(report.items[1].text, "not c.test"));
	assert_non_null(strstr(report.items[2].text, ".d.test covers d.test and"));
	assert_int_equal(report.errors, 0);
}

static struct policy_report lint_whole(const char *text, const char *observed, const char *profile)
{
	struct policy *p = policy_setup(text);
	struct policy_setup_question asked;
	struct policy_report found = {.count = 0};
	if (observed != NULL) {
		policy_setup_ask(observed, &asked);
		lint_observe(p, profile, &asked.q, false);
	}
	lint_policy(
		p, &(struct lint_options){.now_ms = NOW_MS, .observed = observed != NULL}, &found);
	policy_free(p);
	return found;
}

static void test_rules_that_no_test_hits(void **state)
{
	(void)state;
	static const char text[] =
		"policy 1\nrequire tests\ndeny no.test\n[group g]\nallow a.test /x/**\n"
		"allow b.test\nexpect allow GET https://a.test/x/y\n"
		"[profile p]\nuse g req-body=0 query=deny\n"
		"expect deny GET https://b.test/?q code=deny.query\n"
		"expect deny GET https://no.test/ code=deny.rule\n";
	static const char *const wanted[] = {"6:untested", ""};
	for (size_t i = 0; i < 2; i++) {
		char found[256];
		/* by a request that was seen in that profile; a narrowed copy counts for its rule */
		report = lint_whole(text, i == 0 ? NULL : "GET https://b.test/", "p");
		codes(false, found, sizeof(found));
		assert_string_equal(found, wanted[i]);
	}
	report = lint_whole("policy 1\n[profile p]\nallow a.test\n", NULL, NULL);
	assert_int_equal(report.count, 0);
	report = lint_whole("policy 1\n[profile p]\nallow a.test\n[profile q]\nallow b.test\n",
		"GET https://b.test/", NULL);
	assert_int_equal(report.count, 1);
	assert_int_equal(report.items[0].line, 3);
	assert_string_equal(report.items[0].code, "untested");
	report = lint_whole("policy 1\n[profile p]\nallow a.test\n[profile q]\nallow a.test\n",
		"GET https://a.test/", "q");
	assert_int_equal(report.count, 1);
	assert_int_equal(report.items[0].line, 3);
}

static void test_groups_that_nobody_uses(void **state)
{
	(void)state;
	report = lint_whole(
		"policy 1\n[group used]\nallow a.test\n[group not]\nallow b.test\n"
		"[group tests]\nexpect deny GET https://a.test/\n[profile p]\nuse used\n",
		NULL, NULL);
	assert_int_equal(report.count, 1);
	assert_int_equal(report.items[0].line, 4);
	assert_int_equal(report.items[0].column, 8);
	assert_string_equal(report.items[0].code, "unused-group");
	report = lint_whole("policy 1\n[group library]\nallow a.test\n", NULL, NULL);
	assert_int_equal(report.count, 0);
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
		cmocka_unit_test(test_notes_say_what_a_wildcard_covers),
		cmocka_unit_test(test_rules_that_no_test_hits),
		cmocka_unit_test(test_groups_that_nobody_uses),
		cmocka_unit_test(test_strict_makes_an_expired_rule_an_error),
		cmocka_unit_test(test_a_group_used_twice_does_not_contradict_itself),
		cmocka_unit_test(test_paths_cover_and_meet),
		cmocka_unit_test(test_too_many_rules_of_one_name_are_said_to_be_too_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
