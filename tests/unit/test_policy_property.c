/*
 * The compiled matcher against a naive one: random policies, random questions, the same verdict by the same
 * rule; and what lint says of the policy holds for the questions. ECLUSA_SEED repeats a run; ECLUSA_POLICIES sets how many policies (100 questions each).
 */
#include "tests/unit/policy_model.h"

#include "policy/lint.h"

#include <stdlib.h>
#include <time.h>

#define RULES_LINE 3 /* of the first rule */
#define QUESTIONS  100
#define POLICIES   10000
#define NOW_MS     UINT64_C(1800000000000) /* 2027 */

static uint64_t random_state;

static unsigned pick(unsigned below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)((random_state >> 11) % below);
}

static bool chance(unsigned percent)
{
	return pick(100) < percent;
}

static void random_name(char *to, size_t capacity, unsigned labels)
{
	static const char *const words[] = {"a", "b", "c", "ab", "x-1"};
	size_t len = 0;
	for (unsigned i = 0; i < labels; i++)
		len += (size_t)snprintf(to + len, capacity - len, "%s.", words[pick(5)]);
	(void)snprintf(to + len, capacity - len, "%s", chance(80) ? "test" : "example");
}

static void random_pattern(char *to, size_t capacity)
{
	static const char *const words[] = {"a", "b", "ab", "c%2Fd", "*", "a*", "*b", "a*b*"};
	size_t len = 0;
	unsigned segments = pick(4) + 1;
	for (unsigned i = 0; i < segments; i++)
		len += (size_t)snprintf(
			to + len, capacity - len, "/%s", words[pick(chance(60) ? 4 : 8)]);
	if (chance(30))
		(void)snprintf(to + len, capacity - len, "%s", chance(70) ? "/**" : "/");
}

/** Networks inside one another, of each class; some of them end in an address of a metadata service. */
static void random_address_rule(struct model_rule *r)
{
	static const uint32_t bases[] = {0x0a010203, 0x08080808, 0xa9fea9fe, 0xa83f8110};
	static const unsigned lengths[] = {8, 15, 16, 24, 31, 32};
	r->prefix = "ip:";
	r->bits = lengths[pick(6)];
	r->base = bases[pick(4)] >> (32 - r->bits) << (32 - r->bits);
	(void)snprintf(r->name, sizeof(r->name), "%u.%u.%u.%u%s%.0d", r->base >> 24,
		r->base >> 16 & 255, r->base >> 8 & 255, r->base & 255, r->bits == 32 ? "" : "/",
		r->bits == 32 ? 0 : (int)r->bits);
}

/** Bytes that nobody reads have no requests. tcp has ports of its own: beside HTTP it would not load. */
static void make_unread(struct model_rule *r)
{
	bool tcp = strcmp(r->prefix, "ip:") == 0 || chance(50);
	r->transport = tcp ? POLICY_TCP : POLICY_SPLICE;
	if (tcp)
		r->ports = 6 + pick(2);
	r->methods = METHODS_ANY;
	r->path_count = 0;
	r->scheme = "";
	r->query_denied = r->encoded_slash = false;
	r->resp_body_kib = 1 << 30;
}

static void random_rule(struct model_rule *r, const char *host, bool crowded, unsigned number)
{
	static const char *const prefixes[] = {"", "*.", "**.", "."};
	*r = (struct model_rule){.allow = chance(80), .scheme = "", .resp_body_kib = 1 << 20};
	r->prefix = prefixes[crowded ? 0 : pick(4)];
	if (crowded)
		(void)snprintf(r->name, sizeof(r->name), "%s", host);
	else
		random_name(r->name, sizeof(r->name), pick(3) + 1);
	if (!crowded && chance(10))
		random_address_rule(r);
	if (!crowded && chance(5)) {
		r->prefix = "any";
		r->name[0] = '\0';
	}
	r->ports = crowded || chance(50) ? 0 : pick(6);
	r->methods = r->allow ? 3 : METHODS_ANY;
	if (!crowded && chance(50))
		r->methods = chance(20) ? METHODS_ANY : pick(15) + 1;
	r->path_count = crowded ? pick(PATHS_MAX) + 1 : pick(PATHS_MAX + 1);
	for (size_t i = 0; i < r->path_count; i++)
		random_pattern(r->paths[i], sizeof(r->paths[i]));
	if (chance(15))
		r->scheme = chance(50) ? "http" : "https";
	r->expired = r->allow && chance(10);
	r->query_denied = r->allow && chance(20);
	r->encoded_slash = r->allow && chance(30);
	r->observe = r->allow && chance(8);
	if (r->allow && chance(20))
		r->resp_body_kib = pick(3) + 1;
	if (r->allow && !crowded && chance(20))
		make_unread(r);
	(void)snprintf(r->id, sizeof(r->id), "r%u", number);
}

static void write_methods(const struct model_rule *r, struct buf *to)
{
	const char *separator = " ";
	if ((r->methods & METHODS_ANY) != 0)
		(void)buf_append_text(to, " ANY");
	for (unsigned i = 0; i < METHODS_COUNT; i++) {
		if ((r->methods >> i & 1) == 0)
			continue;
		(void)buf_printf(to, "%s%s", separator, method_names[i]);
		separator = ",";
	}
}

static void write_rule(const struct model_rule *r, struct buf *to)
{
	(void)buf_printf(to, "%s %s%s%s%s", r->allow ? "allow" : "deny",
		r->transport == POLICY_TCP ? "tcp " : "", r->prefix, r->name, port_texts[r->ports]);
	if (r->transport == POLICY_INSPECT)
		write_methods(r, to);
	for (size_t i = 0; i < r->path_count; i++)
		(void)buf_printf(to, " %s", r->paths[i]);
	(void)buf_printf(to, " id=%s", r->id);
	if (strcmp(r->prefix, "any") == 0)
		(void)buf_append_text(to, " ticket=T");
	if (r->transport == POLICY_SPLICE)
		(void)buf_append_text(to, " tls=splice");
	if (r->observe)
		(void)buf_append_text(to, " mode=observe");
	if (r->scheme[0] != '\0')
		(void)buf_printf(to, " scheme=%s", r->scheme);
	if (r->expired)
		(void)buf_append_text(to, " expires=2026-01-31");
	if (r->query_denied)
		(void)buf_append_text(to, " query=deny");
	if (r->encoded_slash)
		(void)buf_append_text(to, " enc-slash=literal");
	if (r->resp_body_kib < 1 << 20)
		(void)buf_printf(to, " resp-body=%uk", r->resp_body_kib);
	(void)buf_append_text(to, "\n");
}

/** An address at the start of a rule's network, or near it. */
static void ask_address(struct model_question *q, uint32_t base)
{
	q->is_address = true;
	q->address = base + (chance(50) ? 0 : pick(3));
	(void)snprintf(q->host, sizeof(q->host), "%u.%u.%u.%u", q->address >> 24,
		q->address >> 16 & 255, q->address >> 8 & 255, q->address & 255);
}

static void random_host(struct model_question *q, const struct model *m)
{
	const struct model_rule *r = &m->rules[pick((unsigned)m->count)];
	if (strcmp(r->prefix, "ip:") == 0)
		ask_address(q, chance(70) ? r->base : 0xa9fea9fd);
	else if (r->name[0] != '\0' && chance(70))
		(void)snprintf(q->host, sizeof(q->host), "%s%s", chance(60) ? "" : "b.", r->name);
	else
		random_name(q->host, sizeof(q->host), pick(5));
}

static void random_question(struct model_question *q, const struct model *m)
{
	static const uint16_t ports[] = {443, 443, 443, 22, 80, 80, 8005, 9001};
	static const char *const words[] = {"a", "b", "ab", "c%2Fd", "aab", "", "c"};
	size_t len = 0;
	unsigned segments = pick(5) + 1;
	*q = (struct model_question){.port = ports[pick(8)], .has_query = chance(20)};
	q->method = method_names[chance(60) ? 0 : pick(METHODS_COUNT)];
	q->tls = chance(90) ? q->port != 80 : chance(50);
	random_host(q, m);
	for (unsigned i = 0; i < segments; i++)
		len += (size_t)snprintf(q->path + len, sizeof(q->path) - len, "/%s",
			words[pick(chance(85) ? 4 : 7)]);
}

static void compare(const struct policy_verdict *v, struct answer a, const struct buf *text,
	const struct model_question *q, const char *what)
{
	const char *got = v->rule == NULL ? "-" : v->rule->id;
	if (v->reason == a.reason && v->would == a.would && strcmp(got, a.id) == 0)
		return;
	fail_msg("%s %s %s://%s:%u%s%s: %s (%s) by %s, the naive one says %s (%s) by %s; "
		 "policy:\n%.*s",
		what, q->method, q->tls ? "https" : "http", q->host, q->port, q->path,
		q->has_query ? "?q" : "", reason_code(v->reason), reason_code(v->would), got,
		reason_code(a.reason), reason_code(a.would), a.id, (int)buf_len(text),
		buf_slice(text).ptr);
}

/** Whether lint found @code at the rule; true also when there may be more findings than a report holds. */
static bool lint_said(const struct policy_report *report, const struct model *m,
	const struct model_rule *r, const char *code)
{
	unsigned line = (unsigned)(r - m->rules) + RULES_LINE;
	for (size_t i = 0; i < report->count; i++) {
		if (report->items[i].line == line && strcmp(report->items[i].code, code) == 0)
			return true;
	}
	return report->count == POLICY_DIAGNOSTICS_MAX;
}

static bool same_limits(const struct model_rule *a, const struct model_rule *b)
{
	return writes(a) == writes(b) && a->resp_body_kib == b->resp_body_kib &&
		a->query_denied == b->query_denied && a->encoded_slash == b->encoded_slash &&
		a->observe == b->observe;
}

/** Rules as specific as the one that decides, with other limits: lint has to name the later one. */
static void check_ties(const struct policy_report *report, const struct model *m,
	const struct model_question *q, const struct model_rule *best, const struct buf *text)
{
	int literal = model_literal(best, q->path);
	int other;
	for (size_t i = 0; i < m->count; i++) {
		const struct model_rule *r = &m->rules[i];
		if (r == best || !r->allow || !model_covers(r, q) || same_limits(r, best) ||
			strcmp(r->name, best->name) != 0 || host_rank(r) != host_rank(best) ||
			method_count(r) != method_count(best) ||
			model_stage(r, q, false, &other) != REASON_ALLOW_RULE || other != literal)
			continue;
		if (!lint_said(report, m, r > best ? r : best, "equal-specificity"))
			fail_msg("lint misses that %s and %s tie at %s%s; policy:\n%.*s", r->id,
				best->id, q->host, q->path, (int)buf_len(text),
				buf_slice(text).ptr);
	}
}

static void check_lint(const struct policy_report *report, const struct model *m,
	const struct model_question *q, struct answer a, const struct buf *text)
{
	if (a.reason != REASON_ALLOW_RULE)
		return;
	if (report->count < POLICY_DIAGNOSTICS_MAX && lint_said(report, m, a.rule, "unreachable"))
		fail_msg("lint calls %s unreachable, and it admits %s%s; policy:\n%.*s", a.rule->id,
			q->host, q->path, (int)buf_len(text), buf_slice(text).ptr);
	check_ties(report, m, q, a.rule, text);
}

static void ask_both(const struct profile *p, const struct model *m,
	const struct policy_report *report, const struct buf *text)
{
	struct model_question asked;
	struct policy_verdict v;
	struct host host;
	random_question(&asked, m);
	assert_int_equal(host_parse(slice_of(asked.host), &host), 0);
	struct policy_question q = {.host = &host,
		.port = asked.port,
		.scheme = asked.tls ? POLICY_SCHEME_HTTPS : POLICY_SCHEME_HTTP,
		.method = slice_of(asked.method),
		.path = slice_of(asked.path),
		.has_query = asked.has_query,
		.encoded_slash = strstr(asked.path, "%2F") != NULL,
		.now_ms = NOW_MS};
	policy_decide(p, &q, &v);
	struct answer answer = model_decide(m, &asked, false);
	compare(&v, answer, text, &asked, "request");
	check_lint(report, m, &asked, answer, text);
	policy_decide_host(p, &q, &v);
	compare(&v, model_decide(m, &asked, true), text, &asked, "host");
}

/** Whether rule @i can't stand beside those before it. */
static bool conflicts(const struct model *m, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (model_conflict(&m->rules[i], &m->rules[k]))
			return true;
	}
	return false;
}

static void try_policy(struct model *m, struct buf *text)
{
	char host[64];
	bool crowded = chance(25);
	random_name(host, sizeof(host), 2);
	m->count = pick(chance(70) ? 20 : RULES_MAX) + 1;
	buf_clear(text);
	(void)buf_append_text(text, "policy 1\n[profile p]\n");
	m->observe = chance(10);
	for (size_t i = 0; i < m->count; i++) {
		do
			random_rule(&m->rules[i], host, crowded && chance(90), (unsigned)i);
		while (conflicts(m, i));
		write_rule(&m->rules[i], text);
		m->rules[i].observe = m->rules[i].allow && (m->rules[i].observe || m->observe);
	}
	if (m->observe)
		(void)buf_append_text(text, "set mode observe\n");
	assert_int_equal(buf_append(text, SLICE("\0")), 0);
	struct policy *p = policy_setup(buf_slice(text).ptr);
	static struct policy_report report;
	report = (struct policy_report){.count = 0};
	lint_policy(p, &(struct lint_options){.now_ms = NOW_MS}, &report);
	for (int i = 0; i < QUESTIONS; i++)
		ask_both(policy_setup_profile(p, NULL), m, &report, text);
	policy_free(p);
}

static uint64_t number_from(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	uint64_t value = otherwise;
	if (text != NULL)
		assert_int_equal(slice_decimal(slice_of(text), UINT64_MAX, true, &value), 0);
	return value;
}

static void test_the_compiled_matcher_agrees_with_a_naive_one(void **state)
{
	(void)state;
	static struct model m;
	struct buf text = {.limit = 0};
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	uint64_t seed =
		number_from("ECLUSA_SEED", (uint64_t)now.tv_sec * 1000003 + (uint64_t)now.tv_nsec);
	uint64_t policies = number_from("ECLUSA_POLICIES", POLICIES);
	print_message("# ECLUSA_SEED=%llu ECLUSA_POLICIES=%llu\n", (unsigned long long)seed,
		(unsigned long long)policies);
	random_state = seed == 0 ? 1 : seed;
	for (uint64_t i = 0; i < policies; i++)
		try_policy(&m, &text);
	buf_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_compiled_matcher_agrees_with_a_naive_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
