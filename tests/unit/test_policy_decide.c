/* Verdicts: what is denied, for which reason, and which line the verdict points at. */
#include "tests/unit/policy_setup.h"

static const char text[] = "policy 1\n"                                                    /* 1 */
			   "deny global.test\n"                                            /* 2 */
			   "deny *.paste.test POST\n"                                      /* 3 */
			   "[profile p]\n"                                                 /* 4 */
			   "allow Allowed.TEST:80,443\n"                                   /* 5 */
			   "allow *.wild.test\n"                                           /* 6 */
			   "deny secret.wild.test\n"                                       /* 7 */
			   "allow **.deep.test\n"                                          /* 8 */
			   "allow .tree.test\n"                                            /* 9 */
			   "allow api.test GET,POST /v1/** id=api\n"                       /* 10 */
			   "allow api.test DELETE /v1/things/* req-body=0 id=api-delete\n" /* 11 */
			   "deny api.test ANY /v1/admin/** note=\"by hand only\"\n"        /* 12 */
			   "allow plain.test:8080 scheme=http\n"                           /* 13 */
			   "allow ranges.test:8000-8010,9000\n"                            /* 14 */
			   "allow noquery.test query=deny\n"                               /* 15 */
			   "allow noquery.test /search /find\n"                            /* 16 */
			   "allow npm.test GET /** enc-slash=literal\n"                    /* 17 */
			   "allow global.test\n"                                           /* 18 */
			   "allow a.paste.test ANY\n"                                      /* 19 */
			   "allow old.test expires=2026-01-31\n"                           /* 20 */
			   "allow old.test /new/** expires=2030-01-31 id=new\n";           /* 21 */

struct decide_case {
	const char *question;
	const char *code;
	unsigned line; /* of the rule; 0: none */
};

static const struct decide_case cases[] = {
	{"GET https://allowed.test/", "allow.rule", 5},
	{"HEAD http://allowed.test/x?y", "allow.rule", 5},
	{"GET https://ALLOWED.test./", "allow.rule", 5},
	{"POST https://allowed.test/", "deny.method", 5},
	{"get https://allowed.test/", "deny.method", 5},
	/* A04: whole labels from the right */
	{"GET https://notallowed.test/", "deny.default", 0},
	{"GET https://xallowed.test/", "deny.default", 0},
	{"GET https://allowed.test.evil.test/", "deny.default", 0},
	{"GET https://evilwild.test/", "deny.default", 0},
	{"GET https://wild.test.evil.test/", "deny.default", 0},
	{"GET https://a.allowed.test/", "deny.default", 0},
	/* A05: what a wildcard covers */
	{"GET https://wild.test/", "deny.default", 0},
	{"GET https://a.wild.test/", "allow.rule", 6},
	{"GET https://a.b.wild.test/", "deny.default", 0},
	{"GET https://deep.test/", "deny.default", 0},
	{"GET https://a.deep.test/", "allow.rule", 8},
	{"GET https://a.b.c.deep.test/", "allow.rule", 8},
	{"GET https://tree.test/", "allow.rule", 9},
	{"GET https://a.b.tree.test/", "allow.rule", 9},
	{"GET https://atree.test/", "deny.default", 0},
	/* deny beats allow, in every direction and order */
	{"GET https://secret.wild.test/", "deny.rule", 7},
	{"GET https://SECRET.wild.test./", "deny.rule", 7},
	{"GET https://global.test/", "deny.rule", 2},
	{"GET https://a.paste.test/", "allow.rule", 19},
	{"POST https://a.paste.test/", "deny.rule", 3},
	{"GET https://api.test/v1/admin/x", "deny.rule", 12},
	{"GET https://api.test/v1//admin/x", "deny.rule", 12},
	{"GET https://api.test/v1/admin%2Fx", "deny.rule", 12},
	{"GET https://api.test/v1/x/../admin/x", "deny.rule", 12},
	{"GET https://api.test/v1/administrator", "allow.rule", 10},
	/* A10: the port is part of the rule */
	{"GET https://allowed.test:22/", "deny.port", 5},
	{"GET https://allowed.test:8443/", "deny.port", 5},
	{"GET https://ranges.test:8000/", "allow.rule", 14},
	{"GET https://ranges.test:8010/", "allow.rule", 14},
	{"GET https://ranges.test:9000/", "allow.rule", 14},
	{"GET https://ranges.test:8011/", "deny.port", 14},
	{"GET https://ranges.test/", "deny.port", 14},
	/* scheme follows the port unless the rule says otherwise */
	{"GET http://allowed.test:443/", "deny.scheme", 5},
	{"GET https://allowed.test:80/", "deny.scheme", 5},
	{"GET http://plain.test:8080/", "allow.rule", 13},
	{"GET https://plain.test:8080/", "deny.scheme", 13},
	/* the first thing that fails, of the rule that gets furthest */
	{"GET https://api.test/v2", "deny.path", 10},
	{"POST https://api.test/v1/x", "allow.rule", 10},
	{"DELETE https://api.test/v1/things/7", "allow.rule", 11},
	{"DELETE https://api.test/v1/x", "deny.path", 11},
	{"PUT https://api.test/v1/x", "deny.method", 11},
	{"GET https://api.test:1/v2", "deny.port", 11},
	/* query and encoded slashes, judged by the most specific rule */
	{"GET https://noquery.test/x", "allow.rule", 15},
	{"GET https://noquery.test/x?", "deny.query", 15},
	{"GET https://noquery.test/find?x", "allow.rule", 16},
	{"GET https://npm.test/@scope%2fname", "allow.rule", 17},
	{"GET https://allowed.test/@scope%2fname", "deny.smuggling", 5},
	/* addresses: their class before any name */
	{"GET http://169.254.169.254/latest/meta-data/", "deny.address-metadata", 0},
	{"GET http://168.63.129.16/", "deny.address-metadata", 0},
	{"GET http://[fd00:ec2::254]/", "deny.address-metadata", 0},
	{"GET http://127.0.0.1/", "deny.address-private", 0},
	{"GET http://10.1.2.3/", "deny.address-private", 0},
	{"GET https://203.0.113.10/", "deny.address-private", 0},
	{"GET https://[::ffff:7f00:1]/", "deny.address-private", 0},
	{"GET https://[::FFFF:10.0.0.1]/", "deny.address-private", 0},
	{"GET https://[2001:db8::10]/", "deny.address-private", 0},
	{"GET https://8.8.8.8/", "deny.default", 0},
	{"GET https://[2606:4700::1]/", "deny.default", 0},
};

static void verdict_is(
	const struct policy_verdict *v, const char *question, const char *code, unsigned line)
{
	unsigned got = v->rule == NULL ? 0 : v->rule->line;
	if (strcmp(reason_code(v->reason), code) != 0 || got != line)
		fail_msg("%s: %s line %u (%s), not %s line %u", question, reason_code(v->reason),
			got, v->detail, code, line);
	bool denied = !reason_allows(v->reason);
	if (denied != (v->detail[0] != '\0'))
		fail_msg("%s: detail '%s'", question, v->detail);
}

static void each_request_has_one_reason(void **state)
{
	(void)state;
	struct policy *p = policy_setup(text);
	const struct profile *profile = policy_setup_profile(p, NULL);
	for (size_t i = 0; i < array_size(cases); i++) {
		static struct policy_setup_question ask;
		struct policy_verdict v;
		policy_setup_ask(cases[i].question, &ask);
		policy_decide(profile, &ask.q, &v);
		verdict_is(&v, cases[i].question, cases[i].code, cases[i].line);
	}
	policy_free(p);
}

static const struct decide_case host_cases[] = {
	{"CONNECT https://allowed.test/", "allow.rule", 5},
	{"CONNECT https://api.test/", "allow.rule", 11},
	{"CONNECT https://a.paste.test/", "allow.rule", 19}, /* the deny rule is about POST */
	{"CONNECT https://secret.wild.test/", "deny.rule", 7},
	{"CONNECT https://denied.test/", "deny.default", 0},
	{"CONNECT https://allowed.test:22/", "deny.port", 5},
	{"CONNECT https://plain.test:8080/", "deny.scheme", 13},
	{"CONNECT https://169.254.169.254/", "deny.address-metadata", 0},
	{"CONNECT https://127.0.0.1:22/", "deny.address-private", 0},
	{"CONNECT https://8.8.8.8/", "deny.default", 0},
};

static void a_host_is_judged_before_there_is_a_request(void **state)
{
	(void)state;
	struct policy *p = policy_setup(text);
	const struct profile *profile = policy_setup_profile(p, "p");
	for (size_t i = 0; i < array_size(host_cases); i++) {
		static struct policy_setup_question ask;
		struct policy_verdict v;
		policy_setup_ask(host_cases[i].question, &ask);
		policy_decide_host(profile, &ask.q, &v);
		verdict_is(&v, host_cases[i].question, host_cases[i].code, host_cases[i].line);
	}
	policy_free(p);
}

#define DAY_MS UINT64_C(86400000)

static void a_rule_holds_through_its_last_day(void **state)
{
	(void)state;
	static struct policy_setup_question ask;
	struct policy_verdict v;
	struct policy *p = policy_setup(text);
	const struct profile *profile = policy_setup_profile(p, NULL);
	const uint64_t ends_ms = UINT64_C(1769904000000); /* 2026-02-01T00:00:00Z */
	policy_setup_ask("GET https://old.test/x", &ask);
	ask.q.now_ms = ends_ms - 1;
	policy_decide(profile, &ask.q, &v);
	verdict_is(&v, "on the last day", "allow.rule", 20);
	policy_decide_host(profile, &ask.q, &v);
	verdict_is(&v, "host on the last day", "allow.rule", 21);
	ask.q.now_ms = ends_ms;
	policy_decide(profile, &ask.q, &v);
	verdict_is(&v, "after it", "deny.expired", 20);
	policy_setup_ask("GET https://old.test/new/x", &ask);
	ask.q.now_ms = ends_ms + DAY_MS;
	policy_decide(profile, &ask.q, &v);
	verdict_is(&v, "by the newer rule", "allow.rule", 21);
	ask.q.now_ms = ends_ms + 5 * 365 * DAY_MS;
	policy_decide_host(profile, &ask.q, &v);
	assert_int_equal(v.reason, REASON_DENY_EXPIRED);
	policy_free(p);
}

static void a_detail_says_what_failed_and_what_is_allowed(void **state)
{
	(void)state;
	static const struct {
		const char *question;
		const char *detail;
	} details[] = {
		{"GET https://api.test/v2", "path /v2 is outside GET,POST /v1/** (x.allow:10)"},
		{"PUT https://api.test/v1/x",
			"method PUT is outside DELETE /v1/things/* (x.allow:11)"},
		{"GET https://allowed.test:22/",
			"port 22 is outside allowed.test:80,443 (x.allow:5)"},
		{"GET http://allowed.test:443/",
			"plain HTTP on port 443 is outside allowed.test:80,443 (x.allow:5)"},
		{"GET https://denied.test/", "no allow rule of profile p names denied.test"},
		{"GET https://api.test/v1/admin/x",
			"denied by deny api.test ANY /v1/admin/** note=\"by hand only\" (x.allow:12)"},
		{"GET https://noquery.test/?x",
			"a query is not allowed by GET,HEAD /** (x.allow:15)"},
		{"GET http://169.254.169.254/",
			"169.254.169.254 is a metadata address, and no ip: rule allows it"},
	};
	struct policy *p = policy_setup(text);
	const struct profile *profile = policy_setup_profile(p, NULL);
	for (size_t i = 0; i < array_size(details); i++) {
		static struct policy_setup_question ask;
		struct policy_verdict v;
		policy_setup_ask(details[i].question, &ask);
		policy_decide(profile, &ask.q, &v);
		assert_string_equal(v.detail, details[i].detail);
	}
	policy_free(p);
}

struct specific_case {
	const char *rules;
	const char *id;
};

/* Each pair in both orders: the order of lines never decides. */
static const struct specific_case specific_cases[] = {
	{"allow a.b.test id=x\nallow *.b.test id=y\n", "x"},
	{"allow *.b.test id=y\nallow a.b.test id=x\n", "x"},
	{"allow *.b.test id=x\nallow **.b.test id=y\n", "x"},
	{"allow .b.test id=y\nallow *.b.test id=x\n", "x"},
	{"allow .test.b.test id=z\nallow .b.test id=y\nallow *.b.test id=x\n", "x"},
	{"allow a.b.test /** id=y\nallow a.b.test /p/** id=x\n", "x"},
	{"allow a.b.test /p/q id=x\nallow a.b.test /p/** id=y\n", "x"},
	{"allow a.b.test GET /p/** id=x\nallow a.b.test GET,HEAD /p/** id=y\n", "x"},
	{"allow a.b.test ANY /p/** id=y\nallow a.b.test GET,HEAD /p/** id=x\n", "x"},
	{"allow a.b.test resp-body=1m id=x\nallow a.b.test resp-body=2m id=y\n", "x"},
	{"allow a.b.test resp-body=2m id=y\nallow a.b.test resp-body=1m id=x\n", "x"},
};

static void the_most_specific_rule_gives_the_limits(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(specific_cases); i++) {
		static struct policy_setup_question ask;
		struct policy_verdict v;
		char policy_text[512];
		(void)snprintf(policy_text, sizeof(policy_text), "policy 1\n[profile p]\n%s",
			specific_cases[i].rules);
		struct policy *p = policy_setup(policy_text);
		policy_setup_ask("GET https://a.b.test/p/q", &ask);
		policy_decide(policy_setup_profile(p, NULL), &ask.q, &v);
		if (v.rule == NULL || strcmp(v.rule->id, specific_cases[i].id) != 0)
			fail_msg("%s: %s", specific_cases[i].rules,
				v.rule == NULL ? v.detail : v.rule->id);
		policy_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_request_has_one_reason),
		cmocka_unit_test(a_host_is_judged_before_there_is_a_request),
		cmocka_unit_test(a_rule_holds_through_its_last_day),
		cmocka_unit_test(a_detail_says_what_failed_and_what_is_allowed),
		cmocka_unit_test(the_most_specific_rule_gives_the_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
