#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "policy/policy.h"
#include "policy/source.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_names_that_tls_may_begin_with_are_admitted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
