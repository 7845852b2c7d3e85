/* What a use line makes narrower, and what it refuses to make wider. */
#include "tests/unit/policy_setup.h"

#include "policy/canonical.h"
#include "policy/profile.h"

/** The only rule of a policy of one rule in profile p. */
static const struct rule *only_rule(const struct policy *p)
{
	const struct profile *profile = policy_setup_profile(p, "p");
	assert_int_equal(profile->rule_count, 1);
	return &profile->rules[0]->rule;
}

struct use_case {
	const char *use; /* attributes of the use line */
	const char *rules;
	const char *result; /* one effective rule, or the error */
};

#define SHOWN "allow a.test:443 GET,HEAD /** "

static const struct use_case narrower[] = {
	{"up=1k", "allow a.test", SHOWN "req-body=0 resp-body=1g up=1k"},
	{"down=1k", "allow a.test", SHOWN "req-body=0 resp-body=1g up=1m down=1k"},
	{"requests=3", "allow a.test", SHOWN "req-body=0 resp-body=1g up=1m requests=3"},
	{"max-uses=3", "allow a.test max-uses=9", SHOWN "req-body=0 resp-body=1g max-uses=3 up=1m"},
	{"conns=3", "allow a.test", SHOWN "req-body=0 resp-body=1g conns=3 up=1m"},
	{"time=3s", "allow a.test time=1m", SHOWN "req-body=0 resp-body=1g time=3s up=1m"},
	{"window=2h", "allow a.test up=1m window=1h",
		SHOWN "req-body=0 resp-body=1g up=1m window=2h"},
	{"rate=3/s", "allow a.test", SHOWN "req-body=0 resp-body=1g rate=3/s up=1m"},
	{"rate=3/s", "allow a.test rate=4/s", SHOWN "req-body=0 resp-body=1g rate=3/s up=1m"},
	{"rate=3/m", "allow a.test rate=4/s", SHOWN "req-body=0 resp-body=1g rate=3/m up=1m"},
	{"header-deny=b,a", "allow a.test header-deny=a,c",
		SHOWN "header-deny=a,b,c req-body=0 resp-body=1g up=1m"},
	{"mode=enforce", "allow a.test mode=observe", SHOWN "req-body=0 resp-body=1g up=1m"},
	{"upgrade=deny", "allow a.test upgrade=websocket", SHOWN "req-body=0 resp-body=1g up=1m"},
	{"query=deny", "allow a.test", SHOWN "query=deny req-body=0 resp-body=1g up=1m"},
	{"up=1k time=1s", "allow tcp a.test:22", "allow tcp a.test:22 time=1s up=1k"},
	{"header-deny=x query=deny", "allow a.test tls=splice",
		"allow a.test:443 tls=splice up=1m"},
	/* what is narrower already stays */
	{"up=1m", "allow a.test", SHOWN "req-body=0 resp-body=1g up=1m"},
};

static const struct use_case wider[] = {
	{"up=2m", "allow a.test", "up=2m is beyond 1m, the most that a rule of group g"},
	{"down=2m", "allow a.test down=1m", "down=2m is beyond 1m"},
	{"requests=3", "allow a.test requests=2", "requests=3 is beyond 2"},
	{"max-uses=3", "allow a.test max-uses=2", "max-uses=3 is beyond 2"},
	{"conns=3", "allow a.test conns=2", "conns=3 is beyond 2"},
	{"time=1h", "allow a.test time=1m", "time=1h is beyond 1m"},
	{"window=30m", "allow a.test up=1m window=1h", "window=30m is beyond 1h"},
	{"window=30m", "allow a.test", "window=30m is beyond the sandbox's life"},
	{"expires=2030-02-01", "allow a.test expires=2030-01-31",
		"expires=2030-02-01 is beyond 2030-01-31"},
	{"resp-body=2g", "allow a.test", "resp-body=2g is beyond 1g"},
	{"req-body=1m", "allow tcp a.test:22", "req-body= has no meaning on the rules of group g"},
	{"rate=3/s", "allow a.test rate=2/s", "rate= is beyond that of every rule of group g"},
	{"rate=60/m", "allow a.test rate=2/s", "rate= allows more at once"},
	{"mode=observe", "allow a.test", "mode=observe would widen the rules of group g"},
	{"upgrade=websocket", "allow a.test", "upgrade=websocket would widen"},
	{"query=allow", "allow a.test query=deny", "query=allow would widen"},
	{"tls=splice", "allow a.test", "tls= has no meaning on use"},
	{"addr=10.0.0.0/8", "allow a.test", "addr= has no meaning on use"},
	{"enc-slash=literal", "allow a.test", "enc-slash= has no meaning on use"},
};

static int use(const struct use_case *c, struct policy **ret)
{
	char text[512];
	(void)snprintf(text, sizeof(text), "policy 1\n[profile p]\nuse g %s\n[group g]\n%s\n",
		c->use, c->rules);
	*ret = NULL;
	return policy_setup_compile(slice_of(text), ret);
}

static void a_use_line_narrows(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(narrower); i++) {
		struct policy *p;
		struct buf written = {.limit = 0};
		if (use(&narrower[i], &p) != 0)
			fail_msg(
				"use g %s: %s", narrower[i].use, policy_setup_report.items[0].text);
		assert_int_equal(canonical_rule(only_rule(p), &written), 0);
		assert_int_equal(buf_append(&written, (struct slice){"", 1}), 0);
		assert_string_equal(buf_slice(&written).ptr, narrower[i].result);
		buf_fini(&written);
		policy_free(p);
	}
}

static void words_about_requests_say_nothing_of_bytes(void **state)
{
	(void)state;
	static const struct use_case cases[] = {
		{"header-deny=x", "allow a.test tls=splice\nallow b.test",
			"header-deny= narrows nothing of 1 rule of group g that passes bytes unread "
			"(x.allow:5)"},
		{"query=deny", "allow b.test\nallow tcp a.test:22\nallow a.test tls=splice",
			"query= narrows nothing of 2 rules of group g that pass bytes unread "
			"(x.allow:6)"},
		{"resp-body=1k", "allow a.test tls=splice\nallow b.test", "resp-body= narrows"},
		{"header-deny=x up=1k", "allow a.test\ndeny b.test", NULL},
		{"up=1k conns=2", "allow a.test tls=splice", NULL},
	};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct policy *p;
		const struct policy_diagnostic *d = &policy_setup_report.items[0];
		if (use(&cases[i], &p) != 0)
			fail_msg("use g %s: %s", cases[i].use, d->text);
		policy_free(p);
		assert_int_equal(policy_setup_report.count, cases[i].result != NULL);
		if (cases[i].result == NULL)
			continue;
		assert_int_equal(d->severity, POLICY_WARNING);
		assert_string_equal(d->code, "unread");
		if (strstr(d->text, cases[i].result) == NULL)
			fail_msg("use g %s: %s", cases[i].use, d->text);
	}
}

/** Of several rules each has the lower of its own and the line's; the group itself stays as it was. */
static void each_rule_keeps_what_is_lower(void **state)
{
	(void)state;
	static const struct {
		const char *profile;
		const char *id;
		uint64_t up_bytes;
	} wanted[] = {
		{"p", "low", 1024}, {"p", "high", 3072}, {"q", "low", 1024}, {"q", "high", 5120}};
	struct policy *policy =
		policy_setup("policy 1\n[group g]\n"
			     "allow a.test up=1k id=low\nallow b.test up=5k id=high\n"
			     "[profile p]\nuse g up=3k\n[profile q]\nuse g\n");
	for (size_t i = 0; i < array_size(wanted); i++) {
		const struct profile *p = policy_setup_profile(policy, wanted[i].profile);
		for (size_t r = 0; r < p->rule_count; r++) {
			const struct rule *rule = &p->rules[r]->rule;
			if (strcmp(rule->id, wanted[i].id) == 0)
				assert_int_equal(rule->budget.up_bytes, wanted[i].up_bytes);
		}
	}
	policy_free(policy);
}

static void a_use_line_never_widens(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(wider); i++) {
		struct policy *p;
		int r = use(&wider[i], &p);
		const struct policy_diagnostic *d = &policy_setup_report.items[0];
		if (r != -EINVAL || strstr(d->text, wider[i].result) == NULL || d->line != 3 ||
			d->column != 7)
			fail_msg("use g %s: %d %u:%u %s", wider[i].use, r, d->line, d->column,
				d->text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_use_line_narrows),
		cmocka_unit_test(words_about_requests_say_nothing_of_bytes),
		cmocka_unit_test(each_rule_keeps_what_is_lower),
		cmocka_unit_test(a_use_line_never_widens),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
