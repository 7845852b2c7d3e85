/*
 * What diff says of two random policies holds for random requests: none changes its verdict or limits by a rule that
 * diff does not tell. ECLUSA_SEED repeats a run.
 */
#include "tests/unit/policy_setup.h"

#include "policy/diff.h"
#include "policy/rule.h"

#include <stdlib.h>
#include <time.h>

#define PAIRS     1500
#define RULES_MAX 6
#define QUESTIONS 150

static uint64_t random_state;
static size_t compared;

static size_t pick(size_t count)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (size_t)(random_state % count);
}

#define PICK(words) (words)[pick(array_size(words))]

static const char *const targets[] = {"a.test", "*.a.test", "**.a.test", ".a.test", "b.a.test",
	"*.b.a.test", ".b.a.test", "c.test", "any", "ip:10.0.0.0/8", "ip:10.1.0.0/16",
	"ip:10.1.2.3", "ip:192.88.98.0/24"};
static const char *const ports[] = {"", "", "", ":80", ":443,8443", ":8000-8010", ":80-443"};
static const char *const methods[] = {"", "", " GET", " GET,POST", " ANY", " PUT"};
static const char *const paths[] = {"", "", " /x", " /x/*", " /x/**", " /*/y", " /x*/y", " /*z/y",
	" /x/* /*/y", " /*/*/r", " /x/**"};
static const char *const attributes[] = {"", "", "", " query=deny", " enc-slash=literal",
	" scheme=http", " scheme=https", " resp-body=1k", " req-body=1k", " addr=10.0.0.0/8",
	" expires=2020-01-01", " expires=2100-01-01", " mode=observe", " up=1k", " rate=3/m"};
static const char *const unread[] = {"", " up=2m", " mode=observe", " expires=2020-01-01"};

static void write_rule(char to[static 128])
{
	bool deny = pick(4) == 0;
	const char *attribute = PICK(attributes);
	const char *target = PICK(targets);
	const char *ticket = strcmp(target, "any") == 0 ? " ticket=T" : "";
	bool address = target[0] == 'i';
	if (pick(8) == 0 && !address)
		(void)snprintf(to, 128, "allow %s%s tls=splice%s%s", target, PICK(ports),
			PICK(unread), ticket);
	else if (pick(8) == 0)
		(void)snprintf(to, 128, "allow tcp %s:22%s%s", target, PICK(unread), ticket);
	else
		(void)snprintf(to, 128, "%s %s%s%s%s%s%s", deny ? "deny" : "allow", target,
			PICK(ports), PICK(methods), PICK(paths),
			deny || (address && strstr(attribute, "addr") != NULL) ? "" : attribute,
			ticket);
}

static struct policy *compile(char rules[static RULES_MAX][128], bool observe)
{
	char text[RULES_MAX * 130 + 64];
	size_t at = (size_t)snprintf(text, sizeof(text), "policy 1\n[profile p]\nset mode %s\n",
		observe ? "observe" : "enforce");
	struct policy *policy = NULL;
	for (size_t i = 0; i < RULES_MAX; i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s\n", rules[i]);
	return policy_setup_compile(slice_of(text), &policy) == 0 ? policy : NULL;
}

static void ask_at_random(struct policy_question *q, struct host *host)
{
	static const char *const hosts[] = {"a.test", "b.a.test", "q.a.test", "q.b.a.test",
		"r.q.b.a.test", "r.q.a.test", "s.r.q.a.test", "c.test", "other.test", "10.1.2.3",
		"10.1.2.4", "10.2.0.1", "192.88.98.9", "8.8.8.8"};
	static const uint16_t numbers[] = {
		80, 443, 443, 443, 8443, 8000, 8005, 8010, 8011, 200, 1, 22};
	static const char *const asked[] = {"GET", "GET", "POST", "PUT", "HEAD", "PATCH"};
	static const char *const requested[] = {"/", "/x", "/x/", "/x/y", "/xz/y", "/q/y", "/x/q/r",
		"/qz/y", "/a/b/r", "/x/a%2Fb", "/a%2Fb/y", "/x/y/z/u"};
	const char *path = PICK(requested);
	assert_int_equal(host_parse(slice_of(PICK(hosts)), host), 0);
	*q = (struct policy_question){.host = host,
		.port = PICK(numbers),
		.scheme = pick(3) == 0 ? POLICY_SCHEME_HTTP : POLICY_SCHEME_HTTPS,
		.method = slice_of(PICK(asked)),
		.path = slice_of(path),
		.has_query = pick(4) == 0,
		.encoded_slash = strchr(path, '%') != NULL,
		.now_ms = UINT64_C(1795961863123)};
}

/** As the proxy asks: a tunnel's host first. Without a method: whether bytes pass unread. */
static void decide(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret)
{
	bool connection = q->method.len == 0;
	if (connection || q->scheme == POLICY_SCHEME_HTTPS) {
		policy_decide_host(p, q, ret);
		bool allowed = reason_allows(ret->reason);
		bool read = allowed && ret->rule->transport == POLICY_INSPECT;
		if (allowed && (connection ? read : ret->rule->transport == POLICY_TCP))
			ret->reason = REASON_DENY_PROTOCOL;
		if (connection || (allowed && !read))
			return;
	}
	policy_decide(p, q, ret);
}

static bool told(const struct policy_diff *diff, enum diff_kind kind, const struct rule *before,
	const struct rule *after)
{
	for (size_t i = 0; i < diff->count; i++) {
		const struct diff_change *c = &diff->changes[i];
		bool old_same = kind == DIFF_ALLOWED || c->old_rule == before;
		bool new_same = kind == DIFF_DENIED || c->new_rule == after;
		if (c->kind == kind && old_same && new_same)
			return true;
	}
	return false;
}

static bool question_told(const struct policy_diff *diff, const struct policy_verdict *before,
	const struct policy_verdict *after)
{
	bool was = reason_allows(before->reason);
	bool is = reason_allows(after->reason);
	if (was != is)
		return told(diff, is ? DIFF_ALLOWED : DIFF_DENIED, before->rule, after->rule);
	if (!is)
		return true;
	const struct rule *a = after->rule;
	const struct rule *b = before->rule;
	bool wider = a->resp_body_bytes > b->resp_body_bytes || a->observe > b->observe ||
		a->budget.up_bytes > b->budget.up_bytes || a->budget.rate_ms < b->budget.rate_ms;
	bool narrower = a->resp_body_bytes < b->resp_body_bytes || a->observe < b->observe ||
		a->budget.up_bytes < b->budget.up_bytes || a->budget.rate_ms > b->budget.rate_ms;
	return (!wider || told(diff, DIFF_WIDER, before->rule, after->rule)) &&
		(!narrower || told(diff, DIFF_NARROWER, before->rule, after->rule));
}

static void compare(char old_rules[static RULES_MAX][128], char new_rules[static RULES_MAX][128])
{
	bool was = pick(8) == 0;
	bool is = pick(8) == 0 ? !was : was;
	struct policy *sides[] = {compile(old_rules, was), compile(new_rules, is)};
	struct policy_diff diff = {.count = 0};
	if (sides[0] != NULL && sides[1] != NULL) {
		const struct profile *p = policy_setup_profile(sides[0], "p");
		const struct profile *n = policy_setup_profile(sides[1], "p");
		assert_int_equal(policy_diff(p, n, UINT64_C(1795961863123), &diff), 0);
		assert_true(diff.complete);
		compared++;
		for (size_t i = 0; i < QUESTIONS; i++) {
			struct policy_question q;
			struct host host;
			struct policy_verdict before;
			struct policy_verdict after;
			ask_at_random(&q, &host);
			if (pick(8) == 0) {
				q.method = q.path = SLICE("");
				q.scheme = POLICY_SCHEME_HTTPS;
				q.has_query = q.encoded_slash = false;
			}
			decide(p, &q, &before);
			decide(n, &q, &after);
			if (question_told(&diff, &before, &after))
				continue;
			for (size_t r = 0; r < RULES_MAX; r++)
				print_message("# %s\t=> %s\n", old_rules[r], new_rules[r]);
			fail_msg("%.*s %s:%u%.*s: %s => %s", (int)q.method.len, q.method.ptr,
				host.name, q.port, (int)q.path.len, q.path.ptr,
				reason_code(before.reason), reason_code(after.reason));
		}
	}
	policy_diff_free(&diff);
	policy_free(sides[0]);
	policy_free(sides[1]);
}

static void no_request_changes_untold(void **state)
{
	(void)state;
	const char *given = getenv("ECLUSA_SEED");
	struct timespec now;
	uint64_t seed = 0;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (given == NULL || slice_decimal(slice_of(given), UINT64_MAX, false, &seed) < 0)
		seed = (uint64_t)now.tv_sec * 1000003 + (uint64_t)now.tv_nsec;
	print_message("# ECLUSA_SEED=%llu\n", (unsigned long long)seed);
	random_state = seed;
	for (size_t i = 0; i < PAIRS; i++) {
		char before[RULES_MAX][128];
		char after[RULES_MAX][128];
		for (size_t r = 0; r < RULES_MAX; r++) {
			write_rule(before[r]);
			memcpy(after[r], before[r], sizeof(after[r]));
		}
		for (size_t r = pick(3); r < 3; r++)
			write_rule(after[pick(RULES_MAX)]);
		compare(before, after);
	}
	assert_true(compared > PAIRS / 3); /* the others do not load: conflicts */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_request_changes_untold),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
