/* Which rules can't stand in one profile, because one of them would read what the other passes unread. */
#include "tests/unit/policy_setup.h"

struct conflict_case {
	const char *rules;
	unsigned line; /* of the error in the policy; 0: it loads */
};

static const struct conflict_case conflicts[] = {
	/* raw bytes and HTTP, whatever the spelling that makes them meet */
	{"allow a.test:22\nallow tcp a.test:22", 4},
	{"allow tcp a.test:22\nallow a.test:22", 3},
	{"allow tcp a.test:22\nallow a.test:23", 0},
	{"allow tcp a.test:20-30\nallow a.test:25", 3},
	{"allow tcp a.test:80\nallow a.test:80", 3},
	{"allow tcp a.test:22\nallow b.test:22", 0},
	{"allow tcp a.b.test:22\nallow *.b.test:22", 3},
	{"allow tcp a.b.test:22\nallow .b.test:22", 3},
	{"allow tcp b.test:22\nallow *.b.test:22", 0},
	{"allow tcp c.a.b.test:22\nallow *.b.test:22", 0},
	{"allow tcp .b.test:22\nallow c.a.b.test:22", 3},
	{"allow tcp *.b.test:22\nallow .a.b.test:22", 3},
	{"allow tcp *.b.test:22\nallow **.a.b.test:22", 0},
	{"allow tcp any:443 ticket=T\nallow a.test", 3},
	{"allow tcp a.test:443\nallow any ticket=T", 3},
	{"allow tcp any:22 ticket=T\nallow any ticket=T", 0},
	{"allow tcp a.test:8443\nallow a.test:8443 tls=splice", 3},
	{"allow tcp ip:10.0.0.0/8:22\nallow ip:10.1.0.0/16:22", 3},
	{"allow tcp ip:10.1.0.0/16:22\nallow ip:10.0.0.0/8:22", 3},
	{"allow tcp ip:10.1.0.0/16:22\nallow ip:10.2.0.0/16:22", 0},
	{"allow tcp ip:10.1.0.0/16:22\nallow any:22 ticket=T", 0},
	{"allow tcp a.test:22 expires=2020-01-01\nallow a.test:22", 3},
	/* one host and port is spliced or inspected; of two, the more specific rule says */
	{"allow a.test tls=splice\nallow a.test", 3},
	{"allow a.test\nallow a.test tls=splice", 4},
	{"allow a.test tls=splice\nallow a.test:80", 0},
	{"allow a.test:80 tls=splice\nallow a.test:80", 0}, /* TLS and plain HTTP */
	{"allow a.test:80 tls=splice\nallow a.test:80 scheme=https", 3},
	{"allow a.test tls=splice\nallow *.test.test", 0},
	{"allow a.b.test tls=splice\nallow *.b.test", 0},
	{"allow .b.test tls=splice\nallow **.b.test", 3},
	{"allow *.b.test tls=splice\nallow **.b.test", 0},
	/* a deny rule that nobody could enforce */
	{"allow a.test tls=splice\ndeny a.test POST", 3},
	{"allow a.test tls=splice\ndeny .test.test POST\ndeny a.test", 0},
	{"allow a.b.test tls=splice\ndeny .b.test ANY /x", 3},
	{"allow .b.test tls=splice\ndeny a.b.test ANY /x", 3},
	{"allow a.test tls=splice\ndeny a.test:80 POST", 0},
	{"allow a.test tls=splice\ndeny a.test POST scheme=http", 0},
	{"allow a.test tls=splice\ndeny any DELETE", 3},
	{"allow tcp a.test:22\ndeny a.test POST", 0},
};

static void rules_that_can_not_both_hold_do_not_load(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(conflicts); i++) {
		char text[512];
		struct policy *p = NULL;
		(void)snprintf(
			text, sizeof(text), "policy 1\n[profile p]\n%s\n", conflicts[i].rules);
		int r = policy_setup_compile(slice_of(text), &p);
		const struct policy_diagnostic *d = &policy_setup_report.items[0];
		bool found = r == -EINVAL && strcmp(d->code, "transport") == 0 &&
			d->line == conflicts[i].line;
		if (conflicts[i].line == 0 ? r != 0 : !found)
			fail_msg("%s: %d, line %u: %s", conflicts[i].rules, r, d->line, d->text);
		policy_free(p);
	}
}

/** Groups meet in the profile that uses both. */
static void groups_may_contradict_one_another_only_apart(void **state)
{
	(void)state;
	struct policy *p =
		policy_setup("policy 1\n[group a]\nallow tcp a.test:22\n[group b]\n"
			     "allow a.test:22\n[profile one]\nuse a\n[profile two]\nuse b\n");
	policy_free(p);
	p = NULL;
	assert_int_equal(policy_setup_compile(SLICE("policy 1\n[group a]\nallow tcp a.test:22\n"
						    "[group b]\nallow a.test:22\n[profile p]\n"
						    "use a\nuse b\n"),
				 &p),
		-EINVAL);
	assert_int_equal(policy_setup_report.items[0].line, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_that_can_not_both_hold_do_not_load),
		cmocka_unit_test(groups_may_contradict_one_another_only_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
