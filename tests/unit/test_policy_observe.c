/* mode=observe: what passes, by which rule, with which reason that enforcing has; and what is enforced all the same. */
#include "tests/unit/policy_setup.h"

#include "policy/ask.h"

static const char text[] = "policy 1\n"                                                    /* 1 */
			   "[profile rule]\n"                                              /* 2 */
			   "allow a.test POST /v1/** mode=observe query=deny id=a\n"       /* 3 */
			   "allow b.test mode=observe expires=2020-01-01 id=b\n"           /* 4 */
			   "allow *.c.test mode=observe id=c\n"                            /* 5 */
			   "allow x.c.test PUT /x id=x\n"                                  /* 6 */
			   "allow plain.test id=plain\n"                                   /* 7 */
			   "deny a.test ANY /v1/secret/** id=no\n"                         /* 8 */
			   "allow tcp d.test:22 mode=observe id=d\n"                       /* 9 */
			   "allow ip:10.1.0.0/16 mode=observe id=net\n"                    /* 10 */
			   "[profile base]\n"                                              /* 11 */
			   "set mode observe\n"                                            /* 12 */
			   "[profile all extends base]\n"                                  /* 13 */
			   "allow a.test GET /v1/** id=all-a\n"                            /* 14 */
			   "allow old.test expires=2020-01-01 id=all-old\n"                /* 15 */
			   "deny evil.test id=all-no\n"                                    /* 16 */
			   "allow s.test tls=splice id=all-s\n"                            /* 17 */
			   "allow ip:10.1.0.0/16 id=all-net\n"                             /* 18 */
			   "expect deny GET https://other.test/ code=deny.default\n"       /* 19 */
			   "expect deny GET https://other.test/ code=observe.would-deny\n" /* 20 */
			   "expect deny GET https://evil.test/ by=all-no\n"                /* 21 */
			   "expect allow GET https://a.test/v1/x by=all-a\n"               /* 22 */
			   "expect deny GET https://a.test/v2 by=all-a code=deny.path\n"   /* 23 */
			   "[profile strict extends all]\n"                                /* 24 */
			   "set mode enforce\n"                                            /* 25 */
			   "[profile parts]\n"                                             /* 26 */
			   "allow e.test tls=splice mode=observe id=e\n"                   /* 27 */
			   "deny e.test:8443 POST id=e-no\n"                               /* 28 */
			   "[profile all-parts extends base]\n"                            /* 29 */
			   "allow *.f.test tls=splice id=f\n"                              /* 30 */
			   "deny x.f.test:8443 ANY /secret id=f-no\n";                     /* 31 */

struct observe_case {
	const char *question;
	const char *code;
	const char *would; /* NULL: it does not observe */
	const char *id;    /* of the rule; NULL: none */
};

static const struct observe_case rule_cases[] = {
	{"POST https://a.test/v1/x", "allow.rule", NULL, "a"},
	{"GET https://a.test/v1/x", "observe.would-deny", "deny.method", "a"},
	{"POST https://a.test/v2", "observe.would-deny", "deny.path", "a"},
	{"POST https://a.test/v1/x?q", "observe.would-deny", "deny.query", "a"},
	{"POST https://a.test:8443/v1/x", "observe.would-deny", "deny.port", "a"},
	{"POST http://a.test:443/v1/x", "observe.would-deny", "deny.scheme", "a"},
	{"POST https://a.test/v1/a%2Fb", "observe.would-deny", "deny.smuggling", "a"},
	{"CONNECT https://a.test:22", "observe.would-deny", "deny.port", "a"},
	{"POST https://a.test/v1/secret/x", "deny.rule", NULL, "no"},
	{"GET https://other.test/", "deny.default", NULL, NULL},
	/* an expired rule is absent, and so is its mode */
	{"GET https://b.test/", "deny.expired", NULL, "b"},
	/* the host's rules observe if one of them does */
	{"PUT https://x.c.test/x", "allow.rule", NULL, "x"},
	{"PUT https://x.c.test/y", "observe.would-deny", "deny.path", "c"},
	{"PUT https://c.test/y", "deny.default", NULL, NULL},
	{"PUT https://plain.test/", "deny.method", NULL, "plain"},
	/* connections of a tcp rule, never requests */
	{"CONNECT https://d.test:23", "observe.would-deny", "deny.port", "d"},
	{"GET https://d.test:22/", "deny.scheme", NULL, "d"},
	/* addresses: what the rule opens, and no others */
	{"POST https://10.1.2.3:8443/", "observe.would-deny", "deny.port", "net"},
	{"GET https://10.2.2.3/", "deny.address-private", NULL, NULL},
	{"GET https://8.8.8.8/", "deny.default", NULL, NULL},
};

static const struct observe_case profile_cases[] = {
	{"GET https://a.test/v1/x", "allow.rule", NULL, "all-a"},
	{"GET https://a.test/v2", "observe.would-deny", "deny.path", "all-a"},
	{"GET https://other.test/", "observe.would-deny", "deny.default", "observe"},
	{"PUT http://other.test:8080/a%2Fb?c", "observe.would-deny", "deny.default", "observe"},
	{"CONNECT https://other.test:9", "observe.would-deny", "deny.default", "observe"},
	{"GET https://old.test/", "observe.would-deny", "deny.expired", "observe"},
	{"GET https://evil.test/", "deny.rule", NULL, "all-no"},
	{"CONNECT https://evil.test:22", "deny.rule", NULL, "all-no"},
	{"CONNECT https://s.test", "allow.splice", NULL, "all-s"},
	{"GET http://s.test/", "observe.would-deny", "deny.port", "observe"},
	{"GET http://169.254.169.254/", "deny.address-metadata", NULL, NULL},
	{"GET https://10.2.0.1/", "deny.address-private", NULL, NULL},
	{"GET https://8.8.8.8/", "deny.default", NULL, NULL},
	{"PUT https://10.1.0.1/", "observe.would-deny", "deny.method", "all-net"},
};

static const struct observe_case strict_cases[] = {
	{"GET https://a.test/v1/x", "allow.rule", NULL, "all-a"},
	{"GET https://a.test/v2", "deny.path", NULL, "all-a"},
	{"GET https://other.test/", "deny.default", NULL, NULL},
};

/* What a deny rule would refuse of a connection is not passed unread, on whatever port. */
static const struct observe_case parts_cases[] = {
	{"CONNECT https://e.test", "allow.splice", NULL, "e"},
	{"CONNECT https://e.test:9443", "observe.would-deny", "deny.port", "e"},
	{"CONNECT https://e.test:8443", "deny.port", NULL, "e"},
};

static const struct observe_case all_parts_cases[] = {
	{"CONNECT https://x.f.test:9443", "observe.would-deny", "deny.port", "f"},
	{"CONNECT https://y.f.test:8443", "observe.would-deny", "deny.port", "f"},
	{"CONNECT https://x.f.test:8443", "observe.would-deny", "deny.port", "observe"},
	{"GET https://x.f.test:8443/secret", "deny.rule", NULL, "f-no"},
};

static void ask(const struct profile *profile, const char *question, bool enforce,
	struct policy_verdict *ret)
{
	static struct policy_setup_question q;
	policy_setup_ask(question, &q);
	q.q.now_ms = UINT64_C(1800000000000);
	q.q.enforce = enforce;
	if (slice_equal(q.q.method, SLICE("CONNECT")))
		policy_decide_host(profile, &q.q, ret);
	else
		policy_decide(profile, &q.q, ret);
}

static bool is(const struct policy_verdict *v, const struct observe_case *c)
{
	bool observed = v->reason == REASON_OBSERVE_WOULD_DENY;
	if (strcmp(reason_code(v->reason), c->code) != 0 || observed != (c->would != NULL))
		return false;
	if (observed &&
		(v->rule == NULL || !v->rule->observe ||
			strcmp(reason_code(v->would), c->would) != 0))
		return false;
	if (!observed && v->would != REASON_ALLOW_RULE)
		return false;
	return c->id == NULL ? v->rule == NULL : v->rule != NULL && strcmp(v->rule->id, c->id) == 0;
}

static void verdicts_are(
	const struct policy *p, const char *name, const struct observe_case *list, size_t count)
{
	const struct profile *profile = policy_setup_profile(p, name);
	for (size_t i = 0; i < count; i++) {
		struct policy_verdict v;
		memset(&v, 0xff, sizeof(v));
		ask(profile, list[i].question, false, &v);
		if (!is(&v, &list[i]))
			fail_msg("%s: %s, would be %s, by %s (%s)", list[i].question,
				reason_code(v.reason), reason_code(v.would),
				v.rule == NULL ? "none" : v.rule->id, v.detail);
		if (list[i].would == NULL)
			continue;
		ask(profile, list[i].question, true, &v);
		assert_string_equal(reason_code(v.reason), list[i].would);
	}
}

static void what_is_refused_passes_and_says_why(void **state)
{
	(void)state;
	struct policy *p = policy_setup(text);
	verdicts_are(p, "rule", rule_cases, array_size(rule_cases));
	verdicts_are(p, "all", profile_cases, array_size(profile_cases));
	verdicts_are(p, "strict", strict_cases, array_size(strict_cases));
	verdicts_are(p, "parts", parts_cases, array_size(parts_cases));
	verdicts_are(p, "all-parts", all_parts_cases, array_size(all_parts_cases));
	policy_free(p);
}

static void the_profiles_own_rule_has_a_place_and_no_limits(void **state)
{
	(void)state;
	struct policy_verdict v;
	struct policy *p = policy_setup(text);
	ask(policy_setup_profile(p, "all"), "GET https://other.test/", false, &v);
	const struct rule *r = v.rule;
	assert_int_equal(r->line, 12);
	assert_string_equal(r->file, "x.allow");
	assert_string_equal(r->text, "set mode observe");
	assert_int_equal(r->transport, POLICY_INSPECT);
	assert_true(r->observe && r->req_body_bytes == POLICY_UNLIMITED &&
		r->resp_body_bytes == POLICY_UNLIMITED);
	assert_true(r->budget.up_bytes == POLICY_UNLIMITED &&
		r->budget.connections == POLICY_UNLIMITED && r->budget.rate_ms == 0 &&
		r->budget.window_ms == 0);
	assert_int_not_equal(r->key, 0);
	assert_int_equal(r->address_count, 0);
	policy_free(p);
}

static void observing_changes_the_digest(void **state)
{
	(void)state;
	struct policy *p = policy_setup(text);
	assert_string_not_equal(profile_digest(policy_setup_profile(p, "all")),
		profile_digest(policy_setup_profile(p, "strict")));
	policy_free(p);
}

/* Tests hold on both sides of the day on which observing ends; only code=observe.would-deny asks for it. */
static void expect_lines_speak_of_the_enforced_policy(void **state)
{
	(void)state;
	static const struct {
		const char *lines;
		const char *text; /* of the error; NULL: it loads */
	} tests[] = {
		{"expect deny GET https://b.test/", NULL},
		{"expect deny GET https://b.test/ code=deny.default", NULL},
		{"expect deny GET https://b.test/ code=observe.would-deny by=observe", NULL},
		{"expect allow GET https://b.test/", "expected allow, got deny.default"},
		{"expect allow GET https://b.test/ code=observe.would-deny",
			"expected allow, got observe.would-deny"},
		{"expect deny GET https://a.test/ code=observe.would-deny",
			"expected deny, got allow.rule"},
		{"expect deny GET https://no.test/ code=observe.would-deny",
			"expected observe.would-deny, got deny.rule"},
		{"expect deny GET https://a.test/..%2fx code=deny.smuggling", NULL},
		{"expect allow CONNECT t.test:22 by=t", NULL},
		{"expect deny CONNECT t.test:23 code=deny.port", NULL},
		{"expect allow CONNECT s.test:443 code=allow.splice", NULL},
		{"expect allow PUT https://s.test/x code=allow.splice", NULL},
		{"expect deny GET https://t.test:22/ code=deny.protocol", NULL},
		{"expect deny CONNECT t.test code=deny.name-invalid", NULL},
	};
	for (size_t i = 0; i < array_size(tests); i++) {
		char all[512];
		struct policy *p = NULL;
		(void)snprintf(all, sizeof(all),
			"policy 1\n[profile p]\nset mode observe\nallow a.test\ndeny no.test\n"
			"allow tcp t.test:22 id=t\nallow s.test tls=splice\n%s\n",
			tests[i].lines);
		int r = policy_setup_compile(slice_of(all), &p);
		const char *said =
			policy_setup_report.count == 0 ? "" : policy_setup_report.items[0].text;
		if ((r == 0) != (tests[i].text == NULL) ||
			(r != 0 && strstr(said, tests[i].text) == NULL))
			fail_msg("%s: %s", tests[i].lines, said);
		policy_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused_passes_and_says_why),
		cmocka_unit_test(the_profiles_own_rule_has_a_place_and_no_limits),
		cmocka_unit_test(observing_changes_the_digest),
		cmocka_unit_test(expect_lines_speak_of_the_enforced_policy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
