/* What each key of a rule grants, what is granted without it, what a use line narrows, and which rules can't stand together. */
#include "tests/unit/policy_setup.h"

#include "policy/canonical.h"
#include "policy/profile.h"

#include <inttypes.h>

/** The only rule of a policy of one rule in profile p. */
static const struct rule *only_rule(const struct policy *p)
{
	const struct profile *profile = policy_setup_profile(p, "p");
	assert_int_equal(profile->rule_count, 1);
	return &profile->rules[0]->rule;
}

static struct policy *compile(const char *head, const char *rule)
{
	char text[1024];
	(void)snprintf(text, sizeof(text), "policy 1\n%s[profile p]\n%s\n", head, rule);
	return policy_setup(text);
}

#define MIB (UINT64_C(1) << 20)

static void each_key_is_in_its_field(void **state)
{
	(void)state;
	static const struct {
		const char *rule;
		size_t offset;
		uint64_t value;
	} fields[] = {
		{"allow a.test", offsetof(struct rule, budget.up_bytes), MIB},
		{"allow a.test POST", offsetof(struct rule, budget.up_bytes), MIB},
		{"allow a.test POST req-body=8m", offsetof(struct rule, budget.up_bytes), 8 * MIB},
		{"allow a.test POST req-body=8m up=2m", offsetof(struct rule, budget.up_bytes),
			2 * MIB},
		{"allow a.test up=1k", offsetof(struct rule, budget.up_bytes), 1024},
		{"allow a.test tls=splice", offsetof(struct rule, budget.up_bytes), MIB},
		{"allow tcp a.test:22", offsetof(struct rule, budget.up_bytes), MIB},
		{"allow tcp a.test:22 up=3g", offsetof(struct rule, budget.up_bytes), 3072 * MIB},
		{"allow tcp a.test:22", offsetof(struct rule, req_body_bytes), POLICY_UNLIMITED},
		{"allow a.test", offsetof(struct rule, budget.down_bytes), POLICY_UNLIMITED},
		{"allow a.test down=5m", offsetof(struct rule, budget.down_bytes), 5 * MIB},
		{"allow a.test", offsetof(struct rule, budget.requests), POLICY_UNLIMITED},
		{"allow a.test requests=7", offsetof(struct rule, budget.requests), 7},
		{"allow a.test", offsetof(struct rule, budget.window_ms), 0},
		{"allow a.test requests=7 window=1h", offsetof(struct rule, budget.window_ms),
			3600000},
		{"allow a.test up=7 window=200ms", offsetof(struct rule, budget.window_ms), 200},
		{"allow a.test", offsetof(struct rule, budget.max_uses), POLICY_UNLIMITED},
		{"allow a.test max-uses=1", offsetof(struct rule, budget.max_uses), 1},
		{"allow a.test", offsetof(struct rule, budget.rate_ms), 0},
		{"allow a.test rate=50/s", offsetof(struct rule, budget.rate_uses), 50},
		{"allow a.test rate=50/s", offsetof(struct rule, budget.rate_ms), 1000},
		{"allow a.test rate=50/m", offsetof(struct rule, budget.rate_ms), 60000},
		{"allow a.test rate=50/h", offsetof(struct rule, budget.rate_ms), 3600000},
		{"allow a.test", offsetof(struct rule, budget.connections), POLICY_UNLIMITED},
		{"allow a.test conns=4", offsetof(struct rule, budget.connections), 4},
		{"allow a.test", offsetof(struct rule, budget.time_ms), POLICY_UNLIMITED},
		{"allow a.test time=10m", offsetof(struct rule, budget.time_ms), 600000},
		{"allow a.test time=2d", offsetof(struct rule, budget.time_ms), 172800000},
		{"allow a.test", offsetof(struct rule, header_deny_count), 0},
		{"allow a.test header-deny=Cookie,authorization",
			offsetof(struct rule, header_deny_count), 2},
	};
	for (size_t i = 0; i < array_size(fields); i++) {
		uint64_t value;
		struct policy *p = compile("", fields[i].rule);
		memcpy(&value, (const char *)only_rule(p) + fields[i].offset, sizeof(value));
		if (value != fields[i].value)
			fail_msg("%s: %" PRIu64, fields[i].rule, value);
		policy_free(p);
	}
}

static void each_switch_is_off_until_it_is_said(void **state)
{
	(void)state;
	struct policy *p = compile("", "allow a.test tls=inspect mode=enforce upgrade=deny");
	const struct rule *r = only_rule(p);
	assert_true(!r->observe && !r->websocket && r->transport == POLICY_INSPECT);
	policy_free(p);
	p = compile("", "allow a.test mode=observe upgrade=websocket header-deny=B,a");
	r = only_rule(p);
	assert_true(r->observe && r->websocket);
	assert_true(slice_equal(r->header_deny[0], SLICE("a")));
	assert_true(slice_equal(r->header_deny[1], SLICE("b")));
	policy_free(p);
}

static void the_spelling_loads_again(void **state)
{
	(void)state;
	static const struct {
		const char *head;
		const char *rule;
		const char *canonical;
	} lines[] = {
		{"", "allow tcp a.test:22 time=1h max-uses=3",
			"allow tcp a.test:22 time=1h max-uses=3 up=1m"},
		{"", "allow a.test tls=splice down=1g",
			"allow a.test:443 tls=splice up=1m down=1g"},
		{"", "allow any:443,8443 GET /x ticket=T",
			"allow any:443,8443 GET /x req-body=0 resp-body=1g up=1m ticket=T"},
		{"", "allow ip:192.0.2.7/32 GET",
			"allow ip:192.0.2.7:443 GET /** req-body=0 "
			"resp-body=1g up=1m"},
		{"", "allow ip:10.0.0.0/8:8443 ANY",
			"allow ip:10.0.0.0/8:8443 ANY /** req-body=1m resp-body=1g up=1m"},
		{"", "allow ip:[2001:DB8::0/32]",
			"allow ip:[2001:db8::/32]:443 GET,HEAD /** req-body=0 resp-body=1g up=1m"},
		{"", "allow tcp ip:[2001:db8::7]:22", "allow tcp ip:[2001:db8::7]:22 up=1m"},
		{"",
			"allow a.test window=90m rate=5/m requests=9 conns=2 mode=observe "
			"upgrade=websocket header-deny=x time=1500ms expires=2030-01-31",
			"allow a.test:443 GET,HEAD /** mode=observe header-deny=x upgrade=websocket "
			"req-body=0 resp-body=1g rate=5/m conns=2 time=1500ms up=1m requests=9 "
			"window=90m expires=2030-01-31"},
		{"", "deny any", "deny any ANY /**"},
		{"", "deny ip:10.0.0.0/8", "deny ip:10.0.0.0/8 ANY /**"},
		{"defaults rate=9/s conns=1 time=5s max-uses=8 up=2m down=3m requests=4 window=1d "
		 "header-deny=y mode=observe query=deny\n",
			"allow a.test",
			"allow a.test:443 GET,HEAD /** mode=observe query=deny header-deny=y "
			"req-body=0 resp-body=1g rate=9/s conns=1 time=5s max-uses=8 up=2m down=3m "
			"requests=4 window=1d"},
		{"defaults query=deny header-deny=y req-body=1m scheme=http\n",
			"allow a.test tls=splice up=9m", "allow a.test:443 tls=splice up=9m"},
		{"defaults ticket=T-9 up=9m\n", "deny any:25", "deny any:25 ANY /** ticket=T-9"},
		{"defaults ticket=T-9\n", "allow any",
			"allow any:443 GET,HEAD /** req-body=0 resp-body=1g up=1m ticket=T-9"},
	};
	for (size_t i = 0; i < array_size(lines); i++) {
		struct policy *p = compile(lines[i].head, lines[i].rule);
		struct buf written = {.limit = 0};
		assert_int_equal(canonical_rule(only_rule(p), &written), 0);
		assert_int_equal(buf_append(&written, (struct slice){"", 1}), 0);
		assert_string_equal(buf_slice(&written).ptr, lines[i].canonical);
		struct policy *again = compile("", lines[i].canonical);
		assert_string_equal(profile_digest(policy_setup_profile(p, "p")),
			profile_digest(policy_setup_profile(again, "p")));
		policy_free(again);
		policy_free(p);
		buf_fini(&written);
	}
}

/** Keys stay when what stands around a rule changes, and differ where counters must not be shared. */
static void counters_go_by_what_a_rule_is_called_or_says(void **state)
{
	(void)state;
	static const struct {
		const char *a;
		const char *b;
		bool same;
	} pairs[] = {
		{"allow a.test", "# moved\n\nallow a.test", true},
		{"allow a.test", "allow a.test:443 GET,HEAD /** up=5m rate=1/s", true},
		{"allow a.test id=x", "allow b.test POST id=x", true},
		{"allow a.test id=x", "allow a.test id=y", false},
		{"allow a.test id=x", "allow a.test", false},
		{"allow a.test", "allow b.test", false},
		{"allow a.test", "allow a.test GET", false},
		{"allow a.test", "allow a.test:8443", false},
		{"allow a.test", "allow a.test /x", false},
		{"allow a.test:22 ANY", "allow tcp a.test:22", false},
		{"allow a.test ANY", "allow a.test tls=splice", false},
		{"use g\n[group g]\nallow a.test", "allow a.test", false},
		{"use g\n[group g]\nallow a.test", "use g up=1k\n[group g]\nallow a.test", true},
		{"use g\n[group g]\nallow a.test", "use h\n[group h]\nallow a.test", false},
		{"allow a.test id=x", "use g\n[group g]\nallow a.test id=x", false},
		{"allow a.test", "set mode observe\nallow a.test", true},
	};
	for (size_t i = 0; i < array_size(pairs); i++) {
		struct policy *a = compile("", pairs[i].a);
		struct policy *b = compile("", pairs[i].b);
		if ((only_rule(a)->key == only_rule(b)->key) != pairs[i].same)
			fail_msg("%s | %s", pairs[i].a, pairs[i].b);
		policy_free(a);
		policy_free(b);
	}
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
		cmocka_unit_test(each_key_is_in_its_field),
		cmocka_unit_test(each_switch_is_off_until_it_is_said),
		cmocka_unit_test(the_spelling_loads_again),
		cmocka_unit_test(counters_go_by_what_a_rule_is_called_or_says),
		cmocka_unit_test(a_use_line_narrows),
		cmocka_unit_test(a_use_line_never_widens),
		cmocka_unit_test(rules_that_can_not_both_hold_do_not_load),
		cmocka_unit_test(groups_may_contradict_one_another_only_apart),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
