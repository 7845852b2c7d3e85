/* What each key of a rule grants, and what is granted without it. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_key_is_in_its_field),
		cmocka_unit_test(each_switch_is_off_until_it_is_said),
		cmocka_unit_test(the_spelling_loads_again),
		cmocka_unit_test(counters_go_by_what_a_rule_is_called_or_says),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
