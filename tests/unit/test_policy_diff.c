#include "tests/unit/policy_setup.h"

#include "policy/diff.h"

#define NOW_MS UINT64_C(1795961863123)

/** Rules of profile p before and after, and what changes: "kind example" lines in order. */
struct change {
	const char *before;
	const char *after;
	const char *said;
};

static const struct change changes[] = {
	{"allow a.test", "allow a.test", ""},
	{"allow a.test id=x owner=me", "# moved\nallow a.test:443 HEAD,GET /** req-body=0", ""},
	{"allow a.test", "", "denied GET https://a.test/\n"},
	{"", "allow a.test", "allowed GET https://a.test/\n"},
	{"allow a.test", "allow a.test GET,HEAD,POST req-body=0", "allowed POST https://a.test/\n"},
	{"allow a.test", "allow a.test:8000-8100", /* one rule: one change a kind */
		"denied GET https://a.test/\nallowed GET https://a.test:8000/\n"},
	{"allow a.test:8000-8100", "allow a.test:8000-8101", "allowed GET https://a.test:8101/\n"},
	{"allow *.a.test", "allow **.a.test", "allowed GET https://any.any.a.test/\n"},
	{"allow **.a.test", "allow .a.test", "allowed GET https://a.test/\n"},
	{"allow *.a.test", "allow *.a.test\ndeny any.a.test", "denied GET https://any.a.test/\n"},
	{"allow a.test /x/*", "allow a.test /x/**", "allowed GET https://a.test/x/\n"},
	{"allow a.test /x/** /x/*/y", "allow a.test /x/**", ""},
	{"allow a.test /*/b\ndeny a.test /a/*", "allow a.test /*/b",
		"allowed GET https://a.test/a/b\n"},
	{"allow a.test /v*/x", "allow a.test /v*/x\ndeny a.test /*9/x",
		"denied GET https://a.test/v9/x\n"},
	{"allow a.test", "allow a.test query=deny", "denied GET https://a.test/?any\n"},
	{"allow a.test", "allow a.test enc-slash=literal",
		"allowed GET https://a.test/any~%2Fany~\n"},
	{"allow a.test:80,443", "allow a.test:80,443 scheme=https",
		"denied GET http://a.test/\nallowed GET https://a.test:80/\n"},
	{"allow a.test GET,HEAD /x /y up=1m", /* split: each counts for itself, and decides the same */
		"allow a.test GET /x /y up=1m\nallow a.test HEAD /x up=1m\nallow a.test HEAD /y up=1m",
		""},
	{"allow a.test resp-body=1k", "allow a.test resp-body=2k",
		"wider GET https://a.test/ (resp-body)\n"},
	{"allow a.test expires=2030-01-01", "allow a.test expires=2029-01-01 req-body=1",
		"wider GET https://a.test/ (req-body)\nnarrower GET https://a.test/ (expires)\n"},
	{"allow a.test expires=2020-01-01", "", ""},
	{"allow a.test expires=2020-01-01", "allow a.test expires=2030-01-01",
		"allowed GET https://a.test/\n"},
	{"allow a.test addr=10.0.0.0/8", "allow a.test addr=10.1.0.0/16",
		"narrower GET https://a.test/ (addr)\n"},
	{"allow a.test addr=10.1.0.0/16", "allow a.test addr=10.0.0.0/8",
		"wider GET https://a.test/ (addr)\n"},
	{"allow a.test addr=169.254.0.0/16", "allow a.test addr=169.254.0.0/16,169.254.169.254",
		"wider GET https://a.test/ (addr)\n"},
	{"allow a.test addr=169.254.0.0/16", "allow a.test addr=169.254.0.0/16,169.254.169.253",
		""},
	{"allow a.test POST", "allow a.test ANY req-body=1m", "allowed GET https://a.test/\n"},
	/* the other limits */
	{"allow a.test up=1k", "allow a.test up=2k", "wider GET https://a.test/ (up)\n"},
	{"allow a.test", "allow a.test down=1g", "narrower GET https://a.test/ (down)\n"},
	{"allow a.test up=1m window=1h", "allow a.test up=1m window=30m",
		"wider GET https://a.test/ (window)\n"},
	{"allow a.test up=1m window=1h", "allow a.test up=1m",
		"narrower GET https://a.test/ (window)\n"},
	{"allow a.test requests=3 max-uses=3 conns=3 time=3s",
		"allow a.test requests=4 max-uses=2 conns=4 time=2s",
		"wider GET https://a.test/ (conns, requests)\n"
		"narrower GET https://a.test/ (time, max-uses)\n"},
	{"allow a.test rate=2/s", "allow a.test rate=60/m",
		"wider GET https://a.test/ (rate)\nnarrower GET https://a.test/ (rate)\n"},
	{"allow a.test", "allow a.test rate=60/m", "narrower GET https://a.test/ (rate)\n"},
	{"allow a.test header-deny=a,b", "allow a.test header-deny=b",
		"wider GET https://a.test/ (header-deny)\n"},
	{"allow a.test", "allow a.test upgrade=websocket", "wider GET https://a.test/ (upgrade)\n"},
	/* what passes unread */
	{"", "allow tcp a.test:22", "allowed CONNECT a.test:22\n"},
	{"allow tcp a.test:22 time=1h", "allow tcp a.test:22 time=1m",
		"narrower CONNECT a.test:22 (time)\n"},
	{"allow a.test /x", "allow a.test tls=splice",
		"allowed CONNECT a.test:443\n"
		"wider GET https://a.test/x (req-body, resp-body)\n"},
	{"allow a.test tls=splice", "allow a.test ANY /x",
		"denied CONNECT a.test:443\n"
		"narrower GET https://a.test/x (req-body, resp-body)\n"},
	{"allow a.test tls=splice", "", "denied CONNECT a.test:443\n"},
	/* addresses */
	{"", "allow ip:10.0.0.0/8", "allowed GET https://10.0.0.0/\n"},
	{"allow ip:10.0.0.0/8", "allow ip:10.0.0.0/8\ndeny ip:10.1.0.0/16",
		"denied GET https://10.1.0.0/\n"},
	{"allow ip:10.1.0.0/16", "allow ip:10.0.0.0/15", "allowed GET https://10.0.0.0/\n"},
	{"allow tcp ip:[2001:db8::]:22", "", "denied CONNECT [2001:db8::]:22\n"},
	/* every name, and observing */
	{"allow a.test", "allow a.test\nallow any ticket=T", "allowed GET https://any/\n"},
	{"allow a.test", "allow a.test mode=observe",
		"wider GET https://a.test/ (mode)\nallowed GET http://a.test:443/\n"},
	{"allow a.test", "set mode observe\nallow a.test",
		"allowed GET https://any/\nwider GET https://a.test/ (mode)\n"
		"allowed GET http://a.test:443/\n"},
	{"set mode observe", "", "denied GET https://any/\n"},
	/* A rule that is more specific now gives other limits, though both texts stay. */
	{"allow *.a.test resp-body=2k", "allow *.a.test resp-body=2k\nallow b.a.test resp-body=1k",
		"narrower GET https://b.a.test/ (resp-body)\n"},
};

/** "kind example (limit, limit)". @return where the text ends. */
static size_t write_change(const struct diff_change *c, char *to, size_t capacity, size_t at)
{
	const char *separator = " (";
	at += (size_t)snprintf(
		to + at, capacity - at, "%s %s", diff_kind_name(c->kind), c->example);
	for (unsigned i = 0; i < DIFF_LIMIT_COUNT; i++) {
		if ((c->limits >> i & 1) == 0)
			continue;
		at += (size_t)snprintf(to + at, capacity - at, "%s%s", separator,
			diff_limit_name((enum diff_limit)i));
		separator = ", ";
	}
	return at + (size_t)snprintf(to + at, capacity - at, "%s\n", c->limits != 0 ? ")" : "");
}

static struct policy *policy_of(const char *rules)
{
	char text[1024];
	(void)snprintf(text, sizeof(text), "policy 1\n[profile p]\n%s\n", rules);
	return policy_setup(text);
}

static void changes_are_those_of_the_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(changes); i++) {
		const struct change *c = &changes[i];
		struct policy *before = policy_of(c->before);
		struct policy *after = policy_of(c->after);
		struct policy_diff diff;
		char said[1024] = "";
		size_t at = 0;
		assert_int_equal(policy_diff(policy_setup_profile(before, "p"),
					 policy_setup_profile(after, "p"), NOW_MS, &diff),
			0);
		assert_true(diff.complete);
		for (size_t d = 0; d < diff.count; d++)
			at = write_change(&diff.changes[d], said, sizeof(said), at);
		if (strcmp(said, c->said) != 0)
			fail_msg("%s => %s\nsaid:\n%swanted:\n%s", c->before, c->after, said,
				c->said);
		policy_diff_free(&diff);
		policy_free(before);
		policy_free(after);
	}
}

/** A policy of many rules of one host, and one more line. */
static struct policy *many_rules(unsigned count, const char *last)
{
	struct buf text = {.limit = 0};
	(void)buf_append_text(&text, "policy 1\n[profile p]\n");
	for (unsigned i = 0; i < count; i++)
		(void)buf_printf(&text, "allow a.test /p%u/**\n", i);
	(void)buf_append_text(&text, last);
	assert_int_equal(buf_append(&text, (struct slice){"", 1}), 0);
	struct policy *p = policy_setup(buf_slice(&text).ptr);
	buf_fini(&text);
	return p;
}

/** What did not change is combined with what did only where one request may meet both. */
static void of_many_rules_of_one_host_only_those_count_that_meet_a_change(void **state)
{
	(void)state;
	static const struct {
		const char *last;
		const char *said; /* NULL: not all combinations are tried */
	} cases[] = {
		{"", ""},
		{"allow a.test /q\n", "allowed GET https://a.test/q\n"},
		{"deny a.test /p7/x\n", "denied GET https://a.test/p7/x\n"},
		{"allow a.test /p599*/x resp-body=1k\n",
			"allowed GET https://a.test/p599any~/x\n"
			"narrower GET https://a.test/p599/x (resp-body)\n"},
		{"deny a.test POST\n", NULL},
	};
	struct policy *before = many_rules(600, "");
	for (size_t i = 0; i < array_size(cases); i++) {
		char said[1024] = "";
		size_t at = 0;
		struct policy_diff diff;
		struct policy *after = many_rules(600, cases[i].last);
		assert_int_equal(policy_diff(policy_setup_profile(before, "p"),
					 policy_setup_profile(after, "p"), NOW_MS, &diff),
			0);
		assert_int_equal(diff.complete, cases[i].said != NULL);
		for (size_t d = 0; d < diff.count; d++)
			at = write_change(&diff.changes[d], said, sizeof(said), at);
		if (cases[i].said != NULL)
			assert_string_equal(said, cases[i].said);
		policy_diff_free(&diff);
		policy_free(after);
	}
	policy_free(before);
}

static void a_missing_profile_allows_nothing(void **state)
{
	(void)state;
	struct policy *policy = policy_of("allow a.test\ndeny b.test");
	const struct profile *p = policy_setup_profile(policy, "p");
	struct policy_diff diff;
	assert_int_equal(policy_diff(NULL, p, NOW_MS, &diff), 0);
	assert_int_equal(diff.kinds[DIFF_ALLOWED], 1);
	assert_int_equal(diff.count, 1);
	policy_diff_free(&diff);
	assert_int_equal(policy_diff(p, NULL, NOW_MS, &diff), 0);
	assert_int_equal(diff.kinds[DIFF_DENIED], 1);
	policy_diff_free(&diff);
	policy_free(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changes_are_those_of_the_table),
		cmocka_unit_test(of_many_rules_of_one_host_only_those_count_that_meet_a_change),
		cmocka_unit_test(a_missing_profile_allows_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
