#include "tests/unit/policy_setup.h"

#include "policy/explain.h"

static const char text[] = "policy 1\n"
			   "[profile p]\n"
			   "allow a.test GET,HEAD /v1/**\n"
			   "allow *.wild.test GET /**\n"
			   "allow old.test expires=2020-01-01\n"
			   "allow noquery.test /x query=deny\n"
			   "deny secret.wild.test\n"
			   "deny deep.test /**\n"
			   "allow up.test POST\n"
			   "deny up.test POST /only\n"
			   "allow tcp raw.test:22\n"
			   "allow pinned.test tls=splice\n"
			   "allow ip:192.88.98.7 GET /own\n"
			   "allow seen.test GET /v1 mode=observe\n";

#define NOW_MS UINT64_C(1795961863123)

struct question {
	const char *method;
	const char *url;
	enum reason reason;
	enum explain_edit edit;
	const char *add; /* NULL: nothing is proposed */
};

static const struct question questions[] = {
	{"GET", "https://a.test/v1/x", REASON_ALLOW_RULE, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "HTTPS://A.TEST./v1/./x", REASON_ALLOW_RULE, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://a.test/v2", REASON_DENY_PATH, EXPLAIN_EDIT_ADD, "a.test /v2"},
	{"PUT", "https://a.test/v1/x", REASON_DENY_METHOD, EXPLAIN_EDIT_ADD, "a.test PUT /v1/x"},
	{"GET", "https://a.test:8443/v1/x", REASON_DENY_PORT, EXPLAIN_EDIT_ADD,
		"a.test:8443 /v1/x"},
	{"GET", "http://a.test/v1/x", REASON_DENY_PORT, EXPLAIN_EDIT_ADD, "a.test:80 /v1/x"},
	{"GET", "http://a.test:443/v1/x", REASON_DENY_SCHEME, EXPLAIN_EDIT_ADD,
		"a.test /v1/x scheme=http"},
	{"GET", "https://wild.test/", REASON_DENY_DEFAULT, EXPLAIN_EDIT_ADD, "wild.test /"},
	{"CONNECT", "wild.test:443", REASON_DENY_DEFAULT, EXPLAIN_EDIT_ADD, "wild.test"},
	{"CONNECT", "wild.test", REASON_DENY_NAME_INVALID, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://secret.wild.test/", REASON_DENY_RULE, EXPLAIN_EDIT_REMOVE, NULL},
	{"POST", "https://secret.wild.test/", REASON_DENY_RULE, EXPLAIN_EDIT_REMOVE,
		"secret.wild.test POST /"},
	{"GET", "https://old.test/", REASON_DENY_EXPIRED, EXPLAIN_EDIT_CHANGE, NULL},
	{"POST", "https://old.test/", REASON_DENY_EXPIRED, EXPLAIN_EDIT_CHANGE, NULL},
	{"GET", "https://noquery.test/x?q", REASON_DENY_QUERY, EXPLAIN_EDIT_CHANGE, NULL},
	{"GET", "https://a.test/v1/x%2fy", REASON_DENY_SMUGGLING, EXPLAIN_EDIT_ADD,
		"a.test /v1/x%2Fy enc-slash=literal"},
	{"GET", "https://a.test/v1/..%2fy", REASON_DENY_SMUGGLING, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://other.test/..%2fy", REASON_DENY_DEFAULT, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "http://a.test/..%2fy", REASON_DENY_SMUGGLING, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://203.0.113.7/", REASON_DENY_ADDRESS_PRIVATE, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://169.254.169.254/", REASON_DENY_ADDRESS_METADATA, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://u@a.test/", REASON_DENY_NAME_INVALID, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://a.test?q", REASON_DENY_NAME_INVALID, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://a.test/#x", REASON_DENY_NAME_INVALID, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "a.test", REASON_DENY_NAME_INVALID, EXPLAIN_EDIT_NONE, NULL},
	{"G T", "https://a.test/", REASON_DENY_SMUGGLING, EXPLAIN_EDIT_NONE, NULL},
	{"get", "https://a.test/v1/x", REASON_DENY_METHOD, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://8.8.8.8/x", REASON_DENY_DEFAULT, EXPLAIN_EDIT_ADD, "ip:8.8.8.8 /x"},
	{"POST", "https://[2620:fe::9]:8443/", REASON_DENY_DEFAULT, EXPLAIN_EDIT_ADD,
		"ip:[2620:fe::9]:8443 POST /"},
	{"GET", "https://192.88.98.7/other", REASON_DENY_PATH, EXPLAIN_EDIT_ADD,
		"ip:192.88.98.7 /other"},
	{"GET", "https://192.88.98.7/own", REASON_ALLOW_RULE, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://10.0.0.1/", REASON_DENY_ADDRESS_PRIVATE, EXPLAIN_EDIT_NONE, NULL},
	{"CONNECT", "raw.test:22", REASON_ALLOW_RULE, EXPLAIN_EDIT_NONE, NULL},
	{"CONNECT", "raw.test:23", REASON_DENY_PORT, EXPLAIN_EDIT_ADD, "raw.test:23"},
	{"GET", "https://raw.test:22/", REASON_DENY_PROTOCOL, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "http://raw.test:22/", REASON_DENY_SCHEME, EXPLAIN_EDIT_NONE, NULL},
	{"PUT", "https://pinned.test/x", REASON_ALLOW_SPLICE, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "http://pinned.test/x", REASON_DENY_PORT, EXPLAIN_EDIT_ADD, "pinned.test:80 /x"},
	/* observed: it passes, and the edit is what keeps it passing */
	{"GET", "https://seen.test/v1", REASON_ALLOW_RULE, EXPLAIN_EDIT_NONE, NULL},
	{"GET", "https://seen.test/v2", REASON_OBSERVE_WOULD_DENY, EXPLAIN_EDIT_ADD,
		"seen.test /v2"},
	/* In a tunnel the host is judged before the path: a deny rule of a path alone opens none. */
	{"GET", "https://deep.test/", REASON_DENY_RULE, EXPLAIN_EDIT_REMOVE, "deep.test /"},
	{"POST", "https://up.test/only", REASON_DENY_RULE, EXPLAIN_EDIT_REMOVE, NULL},
};

static void ask(const struct profile *p, const struct question *q, struct explanation *ret)
{
	static struct policy_ask a;
	policy_ask_init(&a, slice_of(q->method), slice_of(q->url), NOW_MS);
	assert_int_equal(policy_explain(p, &a, ret), 0);
}

static void verdicts_and_edits_are_those_of_the_table(void **state)
{
	(void)state;
	struct policy *policy = policy_setup(text);
	const struct profile *p = policy_setup_profile(policy, "p");
	for (size_t i = 0; i < array_size(questions); i++) {
		const struct question *q = &questions[i];
		struct explanation e;
		ask(p, q, &e);
		if (e.verdict.reason != q->reason || e.edit != q->edit ||
			strcmp(e.rule_text, q->add == NULL ? "" : q->add) != 0)
			fail_msg("%s %s: %s, edit %d '%s'", q->method, q->url,
				reason_code(e.verdict.reason), e.edit, e.rule_text);
	}
	policy_free(policy);
}

/** A proposal is true: with it the request passes. */
static void a_proposed_rule_admits_the_request(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(questions); i++) {
		const struct question *q = &questions[i];
		char longer[2048];
		struct explanation e;
		if (q->edit != EXPLAIN_EDIT_ADD)
			continue;
		(void)snprintf(longer, sizeof(longer), "%sallow %s\n", text, q->add);
		struct policy *policy = policy_setup(longer);
		ask(policy_setup_profile(policy, "p"), q, &e);
		if (!reason_allows(e.verdict.reason))
			fail_msg("%s %s: %s", q->method, q->url, reason_code(e.verdict.reason));
		policy_free(policy);
	}
}

static void near_misses_say_what_differs_nearest_first(void **state)
{
	(void)state;
	struct policy *policy = policy_setup("policy 1\n[profile p]\n"
					     "allow b.test:8443 POST /x\n"
					     "allow b.test POST\n"
					     "allow *.b.test\n"
					     "allow unrelated.example\n"
					     "allow b.test.evil.example\n");
	struct question q = {.method = "GET", .url = "https://b.test/x?q"};
	struct explanation e;
	ask(policy_setup_profile(policy, "p"), &q, &e);
	assert_int_equal(e.miss_count, 3);
	assert_int_equal(e.misses[0].rule->line, 4);
	assert_int_equal(e.misses[0].differs, 1 << EXPLAIN_METHOD);
	assert_int_equal(e.misses[1].rule->line, 3);
	assert_int_equal(e.misses[1].differs, 1 << EXPLAIN_METHOD | 1 << EXPLAIN_PORT);
	assert_int_equal(e.misses[2].rule->line, 5);
	assert_int_equal(e.misses[2].differs, 1 << EXPLAIN_HOST);
	policy_free(policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts_and_edits_are_those_of_the_table),
		cmocka_unit_test(a_proposed_rule_admits_the_request),
		cmocka_unit_test(near_misses_say_what_differs_nearest_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
