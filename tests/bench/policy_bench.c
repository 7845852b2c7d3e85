/*
 * `make bench`: what a decision costs beside a naive scan of all rules, and what rules cost in memory and time to
 * load. The questions come in random order from a fixed seed; medians of several rounds. The million goes through profile_build(),
 * because a file holds 20,000 rules at most.
 */
#include "policy/bundle.h"
#include "policy/matcher_table.h"
#include "policy/profile.h"

#include "common/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define QUESTIONS     65536
#define ROUNDS        5
#define FILE_RULES    10000
#define MILLION_RULES 1000000
#define BUNDLE_BYTES  ((size_t)32 << 20)
#define NOW_MS        UINT64_C(1800000000000)

/** Every allocation of the program is counted: a decision makes none. */
static unsigned long allocation_count;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
	allocation_count++;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	allocation_count++;
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	allocation_count++;
	return __libc_realloc(old, size);
}

static uint64_t random_state = 88172645463325252;

static unsigned pick(unsigned below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned)((random_state >> 11) % below);
}

static uint64_t now_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void check(bool fine, const char *what)
{
	if (fine)
		return;
	(void)fprintf(stderr, "policy_bench: %s\n", what);
	exit(1);
}

/** How rules are spread; each has its own questions. */
enum shape {
	SHAPE_HOSTS, /* half exact names, a quarter one label below, a quarter any depth */
	SHAPE_PATHS, /* one host, one path a rule */
	SHAPE_COUNT
};

enum ask { ASK_ALLOWED, ASK_PATH_DENIED, ASK_UNKNOWN, ASK_COUNT };

static const char *const ask_names[ASK_COUNT] = {"allowed", "deny.path", "deny.default"};

static const char *prefix_of(unsigned i)
{
	static const char *const prefixes[] = {"", "*.", "", "**."};
	return prefixes[i % 4];
}

static void write_rule(enum shape shape, unsigned i, char *to, size_t capacity)
{
	if (shape == SHAPE_HOSTS)
		(void)snprintf(to, capacity, "%sh%u.team%u.example.com", prefix_of(i), i, i % 97);
	else
		(void)snprintf(to, capacity, "api.example.com");
}

static void write_path(enum shape shape, unsigned i, char *to, size_t capacity)
{
	if (shape == SHAPE_HOSTS)
		(void)snprintf(to, capacity, "/v1/**");
	else
		(void)snprintf(to, capacity, "/v1/models/m%u/*", i);
}

struct question {
	struct host host;
	char path[40];
	struct policy_question q;
};

static void make_questions(struct question *to, enum shape shape, enum ask ask, unsigned rules)
{
	for (size_t n = 0; n < QUESTIONS; n++) {
		struct question *x = &to[n];
		char name[64];
		char host[HOST_NAME_BYTES];
		unsigned i = pick(rules);
		bool deeper = shape == SHAPE_HOSTS && prefix_of(i)[0] != '\0';
		write_rule(shape, i, name, sizeof(name));
		const char *bare = name + strlen(deeper ? prefix_of(i) : "");
		if (ask == ASK_UNKNOWN)
			(void)snprintf(host, sizeof(host), "u%u.other.example.com", i);
		else
			(void)snprintf(host, sizeof(host), "%s%s", deeper ? "www." : "", bare);
		check(host_parse(slice_of(host), &x->host) == 0, "a host");
		if (ask == ASK_PATH_DENIED)
			(void)snprintf(x->path, sizeof(x->path), "/v2/models/m%u/x", i);
		else
			(void)snprintf(x->path, sizeof(x->path), "/v1/models/m%u/x", i);
		x->q = (struct policy_question){.host = &x->host,
			.port = 443,
			.scheme = POLICY_SCHEME_HTTPS,
			.method = SLICE("GET"),
			.path = slice_of(x->path),
			.now_ms = NOW_MS};
	}
}

static int compare_numbers(const void *a, const void *b)
{
	const double *left = a;
	const double *right = b;
	return (*left > *right) - (*left < *right);
}

static double measure(const struct profile *p, const struct question *questions, enum ask ask)
{
	static const enum reason reasons[] = {
		REASON_ALLOW_RULE, REASON_DENY_PATH, REASON_DENY_DEFAULT};
	double rounds[ROUNDS];
	unsigned long allocations = allocation_count;
	for (size_t round = 0; round < ROUNDS; round++) {
		uint64_t start = now_ns();
		for (size_t n = 0; n < QUESTIONS; n++) {
			struct policy_verdict v;
			policy_decide(p, &questions[n].q, &v);
			check(v.reason == reasons[ask], "another verdict than expected");
		}
		rounds[round] = (double)(now_ns() - start) / QUESTIONS;
	}
	check(allocation_count == allocations, "a decision allocated memory");
	qsort(rounds, ROUNDS, sizeof(rounds[0]), compare_numbers);
	return rounds[ROUNDS / 2];
}

static bool ends_in(struct slice host, struct slice name)
{
	return host.len > name.len && slice_ends(host, name) &&
		host.ptr[host.len - name.len - 1] == '.';
}

/** The naive one: every rule is asked in turn. */
static const struct rule_entry *scan(const struct profile *p, const struct policy_question *q)
{
	struct slice host = slice_of(q->host->name);
	const struct rule_entry *found = NULL;
	size_t found_literal = 0;
	for (size_t i = 0; i < p->rule_count; i++) {
		const struct rule_entry *r = p->rules[i];
		size_t literal;
		bool named = r->kind == PATTERN_EXACT ? slice_equal(host, r->name)
						      : ends_in(host, r->name);
		if (named && rule_has_port(r, q->port) && rule_has_scheme(r, q->port, q->scheme) &&
			rule_has_method(r, q->method) && rule_has_path(r, q->path, &literal) &&
			(found == NULL ||
				rule_compare_specificity(r, literal, found, found_literal) > 0)) {
			found = r;
			found_literal = literal;
		}
	}
	return found;
}

static double measure_scan(const struct profile *p, const struct question *questions)
{
	size_t count = p->rule_count > FILE_RULES ? 10 : 200;
	uint64_t start = now_ns();
	for (size_t n = 0; n < count; n++)
		check(scan(p, &questions[n].q) != NULL, "the scan found nothing");
	return (double)(now_ns() - start) / (double)count;
}

static void print_decisions(const struct profile *p, enum shape shape, const char *name)
{
	struct question *questions = calloc(QUESTIONS, sizeof(*questions));
	check(questions != NULL, "out of memory");
	for (enum ask ask = 0; ask < ASK_COUNT; ask++) {
		make_questions(questions, shape, ask, (unsigned)p->rule_count);
		double ns = measure(p, questions, ask);
		(void)printf("%-22s %-13s %9.0f ns", name, ask_names[ask], ns);
		if (ask == ASK_ALLOWED) {
			double naive = measure_scan(p, questions);
			(void)printf("   linear scan %11.0f ns  (%.0f times)", naive, naive / ns);
		}
		(void)printf("\n");
	}
	(void)printf(
		"%-22s %-13s %9.0f bytes a rule (and %zu of the rule itself, its text aside)\n",
		name, "tables", (double)p->matcher.bytes / (double)p->rule_count,
		sizeof(struct rule_entry));
	free(questions);
}

static void write_bundle(struct buf *bundle, enum shape shape)
{
	struct buf text = {.limit = BUNDLE_BYTES};
	(void)buf_append_text(&text, "policy 1\n[profile p]\n");
	for (unsigned i = 0; i < FILE_RULES; i++) {
		char host[HOST_NAME_BYTES];
		char path[64];
		write_rule(shape, i, host, sizeof(host));
		write_path(shape, i, path, sizeof(path));
		(void)buf_printf(&text, "allow %s %s id=r%u\n", host, path, i);
	}
	struct bundle_text file = {BUNDLE_FILE, SLICE("p.allow"), buf_slice(&text)};
	check(bundle_open(bundle) == 0 && bundle_append(bundle, &file) == 0, "out of memory");
	buf_fini(&text);
}

static void bench_file(enum shape shape, const char *name)
{
	static struct policy_report report;
	struct buf bundle = {.limit = BUNDLE_BYTES};
	struct policy *policy = NULL;
	double rounds[ROUNDS];
	write_bundle(&bundle, shape);
	for (size_t round = 0; round < ROUNDS; round++) {
		policy_free(policy);
		uint64_t start = now_ns();
		check(policy_compile(buf_slice(&bundle), &policy, &report) == 0, "no policy");
		rounds[round] = (double)(now_ns() - start) / 1e6;
	}
	qsort(rounds, ROUNDS, sizeof(rounds[0]), compare_numbers);
	(void)printf("%-22s %-13s %9.1f ms\n", name, "load", rounds[ROUNDS / 2]);
	print_decisions(&policy->profiles[0], shape, name);
	policy_free(policy);
	buf_fini(&bundle);
}

/** A rule as the compiler makes it. */
static const struct rule_entry *make_rule(struct arena *arena, enum shape shape, unsigned i)
{
	static const struct port_range ports[] = {{443, 443}};
	static const struct slice methods[] = {{"GET", 3}, {"HEAD", 4}};
	static const struct slice everything[] = {{"/v1/**", 6}};
	struct rule_entry *r = arena_alloc(arena, 1, sizeof(*r));
	struct host host;
	char text[HOST_NAME_BYTES];
	size_t offset;
	check(r != NULL, "out of memory");
	write_rule(shape, i, text, sizeof(text));
	check(pattern_parse_host(slice_of(text), &r->kind, &host, &offset) == NULL, "a pattern");
	r->name = (struct slice){arena_dup(arena, slice_of(host.name)), strlen(host.name)};
	r->rule = (struct rule){
		.file = "p.allow", .line = i, .text = "", .allow = true, .resp_body_bytes = 1};
	(void)snprintf(text, sizeof(text), "r%u", i);
	r->rule.id = arena_dup(arena, slice_of(text));
	r->place = (struct place){"p.allow", i, 1};
	r->ports = ports;
	r->port_count = 1;
	r->methods = methods;
	r->method_count = 2;
	r->paths = everything;
	r->path_count = 1;
	r->expires_ms = RULE_NEVER_MS;
	check(rule_describe(r, arena) == 0, "out of memory");
	return r;
}

static void bench_million(const char *name)
{
	struct arena arena = {0};
	struct profile p = {.name = "p"};
	const struct rule_entry **rules = arena_alloc(&arena, MILLION_RULES, sizeof(*rules));
	check(rules != NULL, "out of memory");
	for (unsigned i = 0; i < MILLION_RULES; i++)
		rules[i] = make_rule(&arena, SHAPE_HOSTS, i);
	uint64_t start = now_ns();
	check(profile_build(&p, &arena, rules, MILLION_RULES) == 0, "out of memory");
	(void)printf("%-22s %-13s %9.0f ms\n", name, "index", (double)(now_ns() - start) / 1e6);
	print_decisions(&p, SHAPE_HOSTS, name);
	arena_fini(&arena);
}

int main(void)
{
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	bench_file(SHAPE_HOSTS, "10,000 hosts");
	bench_file(SHAPE_PATHS, "10,000 paths, 1 host");
	bench_million("1,000,000 hosts");
	return 0;
}
