/* Which names a certificate may be made for: those with which inspected TLS may begin on some port. */
#include "tests/unit/policy_setup.h"

static const char *const rules[] = {"exact.test", "*.one.test", "port.test:8443", "plain.test:80",
	"old.test expires=2020-01-01"};

static bool admits(const struct policy *p, const char *name)
{
	struct host host;
	assert_int_equal(host_parse(slice_of(name), &host), 0);
	return policy_admits_name(p, &host, UINT64_C(1795961863123));
}

static void only_names_that_tls_may_begin_with_are_admitted(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		bool admitted;
	} names[] = {
		{"exact.test", true},
		{"a.exact.test", false},
		{"a.one.test", true},
		{"one.test", false},
		{"port.test", true},
		{"plain.test", false},
		{"old.test", false},
		{"other.test", false},
		{"test", false},
		{"203.0.113.7", false},
	};
	struct buf bundle = {0};
	struct failure why = {0};
	struct policy *policy;
	struct policy_report *report = calloc(1, sizeof(*report));
	assert_non_null(report);
	assert_int_equal(policy_source_rules(rules, array_size(rules), &bundle, &why), 0);
	if (policy_compile(buf_slice(&bundle), &policy, report) < 0)
		fail_msg("%s", report->items[0].text);
	for (size_t i = 0; i < array_size(names); i++) {
		if (admits(policy, names[i].name) != names[i].admitted)
			fail_msg("%s", names[i].name);
	}
	policy_free(policy);
	free(report);
	buf_fini(&bundle);
}

struct admits_case {
	const char *rules;
	const char *name;
	bool admitted;
};

static const struct admits_case cases[] = {
	/* the only port left lies inside of a range, or between two */
	{"allow a.test:8000-8010\ndeny a.test:8000,8010", "a.test", true},
	{"allow a.test:8000-8010\ndeny a.test:8000-8004,8006-8010", "a.test", true},
	{"allow a.test:8000-8010\ndeny a.test:8000-8010", "a.test", false},
	{"allow a.test:79-81 scheme=http\nallow a.test:80 scheme=https", "a.test", true},
	{"allow a.test:80-81", "a.test", true},
	{"allow a.test:80", "a.test", false},
	{"allow a.test ANY\ndeny a.test", "a.test", false},
	{"allow a.test\ndeny a.test GET", "a.test", true},
	/* what nobody reads needs no certificate */
	{"allow a.test tls=splice", "a.test", false},
	{"allow a.test tls=splice\nallow a.test:8443", "a.test", true},
	{"allow *.b.test:443\nallow a.b.test tls=splice", "a.b.test", false},
	{"allow *.b.test:443\nallow a.b.test tls=splice", "c.b.test", true},
	{"allow tcp a.test:22", "a.test", false},
	{"allow tcp any:22 ticket=T", "a.test", false},
	/* every name, but never an address */
	{"allow any ticket=T", "whatever.example", true},
	{"allow any ticket=T\ndeny bad.test", "bad.test", false},
	{"allow any ticket=T", "8.8.8.8", false},
	{"set mode observe", "whatever.example", true},
	{"set mode observe\ndeny bad.test", "bad.test", false},
	{"set mode observe\ndeny bad.test:1-65535", "bad.test", false},
	{"set mode observe\ndeny bad.test:1-8,10-65535", "bad.test", true},
	{"set mode observe", "8.8.8.8", false},
	{"set mode observe", "10.0.0.1", false},
	{"allow a.test:80 mode=observe", "a.test", true},
	{"allow a.test mode=observe", "b.test", false},
	/* addresses that a rule opens */
	{"allow ip:10.1.0.0/16", "10.1.2.3", true},
	{"allow ip:10.1.0.0/16", "10.2.2.3", false},
	{"allow ip:10.1.0.0/16\ndeny ip:10.1.2.0/24", "10.1.2.3", false},
	{"allow ip:10.1.0.0/16:80", "10.1.2.3", false},
	{"allow tcp ip:10.1.0.0/16:443", "10.1.2.3", false},
	{"allow ip:169.254.0.0/16", "169.254.169.254", false},
	{"allow ip:169.254.169.254", "169.254.169.254", true},
	{"allow ip:[2001:db8::/32]", "[2001:db8::1]", true},
	{"allow ip:[2001:db8::/32]", "[2001:db9::1]", false},
};

static void only_hosts_whose_tls_would_be_read_are_admitted(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		char text[256];
		(void)snprintf(text, sizeof(text), "policy 1\n[profile p]\n%s\n", cases[i].rules);
		struct policy *p = policy_setup(text);
		if (admits(p, cases[i].name) != cases[i].admitted)
			fail_msg("%s: %s", cases[i].rules, cases[i].name);
		policy_free(p);
	}
}

struct host_case {
	const char *rules;
	const char *name;
	enum reason reason;
};

static const struct host_case host_cases[] = {
	{"allow a.test", "a.test", REASON_ALLOW_RULE},
	{"allow a.test", "b.test", REASON_DENY_DEFAULT},
	{"allow a.test", "x.a.test", REASON_DENY_DEFAULT},
	{"allow a.test GET /v1/**", "a.test", REASON_ALLOW_RULE},
	{"allow a.test:80", "a.test", REASON_ALLOW_RULE},
	{"allow a.test:8443", "a.test", REASON_ALLOW_RULE},
	{"allow *.b.test", "a.b.test", REASON_ALLOW_RULE},
	{"allow *.b.test", "b.test", REASON_DENY_DEFAULT},
	{"allow any ticket=T", "whatever.example", REASON_ALLOW_RULE},
	/* what nobody reads needs a name as well */
	{"allow a.test tls=splice", "a.test", REASON_ALLOW_SPLICE},
	{"allow tcp a.test:22", "a.test", REASON_ALLOW_RULE},
	{"allow tcp any:22 ticket=T", "a.test", REASON_ALLOW_RULE},
	/* denied as a whole, or only in parts */
	{"allow a.test\ndeny a.test", "a.test", REASON_DENY_RULE},
	{"allow a.test\ndeny a.test GET", "a.test", REASON_ALLOW_RULE},
	{"allow a.test:8000-8010\ndeny a.test:8000-8010", "a.test", REASON_DENY_RULE},
	{"allow a.test:8000-8010\ndeny a.test:8000,8010", "a.test", REASON_ALLOW_RULE},
	{"deny a.test", "a.test", REASON_DENY_RULE},
	{"allow a.test expires=2020-01-01", "a.test", REASON_DENY_EXPIRED},
	{"allow a.test:8443 expires=2020-01-01", "a.test", REASON_DENY_EXPIRED},
	{"allow a.test:8443 expires=2020-01-01\nallow a.test:80", "a.test", REASON_ALLOW_RULE},
	/* what observes, but not instead of what allows */
	{"set mode observe", "a.test", REASON_OBSERVE_WOULD_DENY},
	{"set mode observe\ndeny a.test", "a.test", REASON_DENY_RULE},
	{"set mode observe\nallow a.test:8443", "a.test", REASON_ALLOW_RULE},
	{"allow a.test:8443 mode=observe", "a.test", REASON_ALLOW_RULE},
	{"allow a.test mode=observe", "b.test", REASON_DENY_DEFAULT},
	{"allow a.test mode=observe expires=2020-01-01", "a.test", REASON_DENY_EXPIRED},
};

static void a_host_is_admitted_if_some_port_is_of_use(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(host_cases); i++) {
		char text[256];
		struct host host;
		struct policy_verdict verdict;
		(void)snprintf(
			text, sizeof(text), "policy 1\n[profile p]\n%s\n", host_cases[i].rules);
		struct policy *p = policy_setup(text);
		assert_int_equal(host_parse(slice_of(host_cases[i].name), &host), 0);
		policy_admits_host(
			policy_profile_at(p, 0), &host, UINT64_C(1795961863123), &verdict);
		if (verdict.reason != host_cases[i].reason)
			fail_msg("%s: %s is %s", host_cases[i].rules, host_cases[i].name,
				reason_code(verdict.reason));
		assert_true(reason_allows(verdict.reason) == (verdict.detail[0] == '\0') ||
			verdict.reason == REASON_OBSERVE_WOULD_DENY);
		policy_free(p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_names_that_tls_may_begin_with_are_admitted),
		cmocka_unit_test(only_hosts_whose_tls_would_be_read_are_admitted),
		cmocka_unit_test(a_host_is_admitted_if_some_port_is_of_use),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
