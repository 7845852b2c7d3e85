/*
 * The compiled matcher against a naive one: random policies, random questions, the same verdict by the same
 * rule; and what lint says of the policy holds for the questions. ECLUSA_SEED repeats a run; ECLUSA_POLICIES sets how many policies (100 questions each).
 */
#include "tests/unit/policy_setup.h"

#include "policy/lint.h"

#include <stdlib.h>
#include <time.h>

#define RULES_MAX     80
#define PATHS_MAX     3
#define RULES_LINE    3 /* of the first rule */
#define QUESTIONS     100
#define POLICIES      2000
#define NOW_MS        UINT64_C(1800000000000) /* 2027 */
#define METHODS_COUNT 4
#define METHODS_ANY   0x100u

static const char *const method_names[METHODS_COUNT] = {"GET", "HEAD", "POST", "PUT"};

struct model_rule {
	bool allow;
	const char *prefix;
	char name[64];
	unsigned ports; /* index into port_texts */
	unsigned methods;
	char paths[PATHS_MAX][40];
	size_t path_count;
	const char *scheme; /* "", "http", "https" */
	bool expired;
	bool query_denied;
	bool encoded_slash;
	unsigned resp_body_kib;
	char id[16];
};

struct model {
	struct model_rule rules[RULES_MAX];
	size_t count;
};

struct model_question {
	char host[96];
	uint16_t port;
	bool tls;
	const char *method;
	char path[80];
	bool has_query;
};

struct answer {
	enum reason reason;
	const struct model_rule *rule;
};

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

static const char *const port_texts[] = {"", ":443", ":80,443", ":80", ":8000-8010", ":443,8005"};

static bool model_has_port(const struct model_rule *r, uint16_t port)
{
	switch (r->ports) {
	case 0:
		return !r->allow || port == 443;
	case 1:
		return port == 443;
	case 2:
		return port == 80 || port == 443;
	case 3:
		return port == 80;
	case 4:
		return port >= 8000 && port <= 8010;
	default:
		return port == 443 || port == 8005;
	}
}

static bool model_has_scheme(const struct model_rule *r, const struct model_question *q)
{
	if (r->scheme[0] == '\0')
		return !r->allow || q->tls == (q->port != 80);
	return (strcmp(r->scheme, "https") == 0) == q->tls;
}

static bool model_has_method(const struct model_rule *r, const char *method)
{
	for (unsigned i = 0; i < METHODS_COUNT; i++) {
		if (strcmp(method_names[i], method) == 0 && (r->methods >> i & 1) != 0)
			return true;
	}
	return (r->methods & METHODS_ANY) != 0;
}

static bool model_covers(const struct model_rule *r, const char *host)
{
	size_t name_len = strlen(r->name);
	size_t host_len = strlen(host);
	if (strcmp(r->name, host) == 0)
		return r->prefix[0] == '\0' || strcmp(r->prefix, ".") == 0;
	if (r->prefix[0] == '\0' || host_len <= name_len + 1 ||
		host[host_len - name_len - 1] != '.' ||
		strcmp(host + host_len - name_len, r->name) != 0)
		return false;
	bool one = memchr(host, '.', host_len - name_len - 1) == NULL;
	return strcmp(r->prefix, "*.") != 0 || one;
}

/** @start: the pattern stands at the start of a segment. */
static bool glob(const char *pattern, const char *path, bool start)
{
	if (start && strcmp(pattern, "**") == 0)
		return true;
	if (*pattern == '\0')
		return *path == '\0';
	if (*pattern != '*')
		return *pattern == *path && glob(pattern + 1, path + 1, *pattern == '/');
	bool whole = start && (pattern[1] == '/' || pattern[1] == '\0');
	if (!whole && glob(pattern + 1, path, false))
		return true;
	for (; *path != '\0' && *path != '/'; path++) {
		if (glob(pattern + 1, path + 1, false))
			return true;
	}
	return false;
}

static int model_literal(const struct model_rule *r, const char *path)
{
	int best = -1;
	if (r->path_count == 0)
		return 0;
	for (size_t i = 0; i < r->path_count; i++) {
		int literal = 0;
		for (const char *c = r->paths[i]; *c != '\0'; c++)
			literal += *c != '*';
		if (glob(r->paths[i], path, true) && literal > best)
			best = literal;
	}
	return best;
}

static void fold(const char *path, char to[static 80])
{
	size_t len = 0;
	while (*path != '\0') {
		bool encoded = strncmp(path, "%2F", 3) == 0;
		char c = encoded ? '/' : *path;
		path += encoded ? 3 : 1;
		if (c != '/' || len == 0 || to[len - 1] != '/')
			to[len++] = c;
	}
	to[len] = '\0';
}

static bool model_denies(const struct model_rule *r, const struct model_question *q, bool host_only)
{
	char folded[80];
	fold(q->path, folded);
	if (!model_has_port(r, q->port) || !model_has_scheme(r, q))
		return false;
	if (host_only)
		return r->methods == METHODS_ANY && r->path_count == 0;
	return model_has_method(r, q->method) &&
		(model_literal(r, q->path) >= 0 || model_literal(r, folded) >= 0);
}

static enum reason model_stage(const struct model_rule *r, const struct model_question *q,
	bool host_only, int *ret_literal)
{
	*ret_literal = 0;
	if (!model_has_port(r, q->port))
		return REASON_DENY_PORT;
	if (!model_has_scheme(r, q))
		return REASON_DENY_SCHEME;
	if (!host_only && !model_has_method(r, q->method))
		return REASON_DENY_METHOD;
	int literal = host_only ? 0 : model_literal(r, q->path);
	if (literal < 0)
		return REASON_DENY_PATH;
	*ret_literal = literal;
	return r->expired ? REASON_DENY_EXPIRED : REASON_ALLOW_RULE;
}

static int stage_rank(enum reason reason)
{
	static const enum reason order[] = {REASON_DENY_DEFAULT, REASON_DENY_PORT,
		REASON_DENY_SCHEME, REASON_DENY_METHOD, REASON_DENY_PATH, REASON_DENY_EXPIRED,
		REASON_ALLOW_RULE};
	int rank = 0;
	while (order[rank] != reason)
		rank++;
	return rank;
}

static int method_count(const struct model_rule *r)
{
	return (r->methods & METHODS_ANY) != 0 ? 1000 : __builtin_popcount(r->methods);
}

static int host_rank(const struct model_rule *r)
{
	return r->prefix[0] == '\0' ? 2 : strcmp(r->prefix, "*.") == 0;
}

/** A request body is zero for reading rules and 1 MiB for writing ones, unless said. */
static int writes(const struct model_rule *r)
{
	return (r->methods & (METHODS_ANY | 4 | 8)) != 0;
}

static bool model_better(
	const struct model_rule *a, int a_literal, const struct model_rule *b, int b_literal)
{
	const int order[] = {host_rank(a) - host_rank(b),
		(int)strlen(a->name) - (int)strlen(b->name), a_literal - b_literal,
		method_count(b) - method_count(a), a->query_denied - b->query_denied,
		b->encoded_slash - a->encoded_slash, writes(b) - writes(a),
		(int)b->resp_body_kib - (int)a->resp_body_kib};
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (order[i] != 0)
			return order[i] > 0;
	}
	return strcmp(a->id, b->id) < 0;
}

/** The naive one: every rule is asked, in order. */
static struct answer model_decide(
	const struct model *m, const struct model_question *q, bool host_only)
{
	struct answer near = {REASON_DENY_DEFAULT, NULL};
	const struct model_rule *deny = NULL;
	int near_literal = 0;
	for (size_t i = 0; i < m->count; i++) {
		const struct model_rule *r = &m->rules[i];
		int literal;
		if (!model_covers(r, q->host))
			continue;
		if (!r->allow) {
			if (model_denies(r, q, host_only) &&
				(deny == NULL || strlen(r->name) < strlen(deny->name)))
				deny = r;
			continue;
		}
		enum reason reason = model_stage(r, q, host_only, &literal);
		int ahead = stage_rank(reason) - stage_rank(near.reason);
		if (ahead < 0 ||
			(ahead == 0 && near.rule != NULL &&
				!model_better(r, literal, near.rule, near_literal)))
			continue;
		near = (struct answer){reason, r};
		near_literal = literal;
	}
	if (deny != NULL)
		return (struct answer){REASON_DENY_RULE, deny};
	if (near.reason == REASON_ALLOW_RULE && !host_only) {
		if (strstr(q->path, "%2F") != NULL && !near.rule->encoded_slash)
			near.reason = REASON_DENY_SMUGGLING;
		else if (q->has_query && near.rule->query_denied)
			near.reason = REASON_DENY_QUERY;
	}
	return near;
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

static void random_rule(struct model_rule *r, const char *host, bool crowded, unsigned number)
{
	static const char *const prefixes[] = {"", "*.", "**.", "."};
	*r = (struct model_rule){.allow = chance(80), .scheme = "", .resp_body_kib = 1 << 20};
	r->prefix = prefixes[crowded ? 0 : pick(4)];
	if (crowded)
		(void)snprintf(r->name, sizeof(r->name), "%s", host);
	else
		random_name(r->name, sizeof(r->name), pick(3) + 1);
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
	if (r->allow && chance(20))
		r->resp_body_kib = pick(3) + 1;
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
	(void)buf_printf(to, "%s %s%s%s", r->allow ? "allow" : "deny", r->prefix, r->name,
		port_texts[r->ports]);
	write_methods(r, to);
	for (size_t i = 0; i < r->path_count; i++)
		(void)buf_printf(to, " %s", r->paths[i]);
	(void)buf_printf(to, " id=%s", r->id);
	if (r->scheme[0] != '\0')
		(void)buf_printf(to, " scheme=%s", r->scheme);
	if (r->expired)
		(void)buf_append_text(to, " expires=2026-01-31");
	if (r->query_denied)
		(void)buf_append_text(to, " query=deny");
	if (r->encoded_slash)
		(void)buf_append_text(to, " enc-slash=literal");
	if (r->resp_body_kib != 1 << 20)
		(void)buf_printf(to, " resp-body=%uk", r->resp_body_kib);
	(void)buf_append_text(to, "\n");
}

static void random_question(struct model_question *q, const struct model *m)
{
	static const uint16_t ports[] = {443, 443, 443, 443, 80, 80, 8005, 9000};
	static const char *const words[] = {"a", "b", "ab", "c%2Fd", "aab", "", "c"};
	size_t len = 0;
	unsigned segments = pick(5) + 1;
	*q = (struct model_question){.port = ports[pick(8)], .has_query = chance(20)};
	q->method = method_names[chance(60) ? 0 : pick(METHODS_COUNT)];
	q->tls = chance(90) ? q->port != 80 : chance(50);
	if (chance(70))
		(void)snprintf(q->host, sizeof(q->host), "%s%s", chance(60) ? "" : "b.",
			m->rules[pick((unsigned)m->count)].name);
	else
		random_name(q->host, sizeof(q->host), pick(5));
	for (unsigned i = 0; i < segments; i++)
		len += (size_t)snprintf(q->path + len, sizeof(q->path) - len, "/%s",
			words[pick(chance(85) ? 4 : 7)]);
}

static void compare(const struct policy_verdict *v, struct answer a, const struct buf *text,
	const struct model_question *q, const char *what)
{
	const char *got = v->rule == NULL ? "-" : v->rule->id;
	const char *wanted = a.rule == NULL ? "-" : a.rule->id;
	if (v->reason == a.reason && strcmp(got, wanted) == 0)
		return;
	fail_msg("%s %s %s://%s:%u%s%s: %s by %s, the naive one says %s by %s; policy:\n%.*s", what,
		q->method, q->tls ? "https" : "http", q->host, q->port, q->path,
		q->has_query ? "?q" : "", reason_code(v->reason), got, reason_code(a.reason),
		wanted, (int)buf_len(text), buf_slice(text).ptr);
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
		a->query_denied == b->query_denied && a->encoded_slash == b->encoded_slash;
}

/** Rules as specific as the one that decides, with other limits: lint has to name the later one. */
static void check_ties(const struct policy_report *report, const struct model *m,
	const struct model_question *q, const struct model_rule *best, const struct buf *text)
{
	int literal = model_literal(best, q->path);
	int other;
	for (size_t i = 0; i < m->count; i++) {
		const struct model_rule *r = &m->rules[i];
		if (r == best || !r->allow || !model_covers(r, q->host) || same_limits(r, best) ||
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

static void try_policy(struct model *m, struct buf *text)
{
	char host[64];
	bool crowded = chance(25);
	random_name(host, sizeof(host), 2);
	m->count = pick(chance(70) ? 20 : RULES_MAX) + 1;
	buf_clear(text);
	(void)buf_append_text(text, "policy 1\n[profile p]\n");
	for (size_t i = 0; i < m->count; i++) {
		random_rule(&m->rules[i], host, crowded && chance(90), (unsigned)i);
		write_rule(&m->rules[i], text);
	}
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
