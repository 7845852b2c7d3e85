/* From a bundle to a policy: every step in its order, and the checks that need the whole. */
#include "policy/conflict.h"
#include "policy/expect.h"
#include "policy/resolve.h"
#include "policy/source.h"

#include "common/cleanup.h"

struct compiler {
	struct policy *policy;
	struct syntax tree;
	struct resolver resolver;
	const char **file_names;
};

/** Errors that belong to the bundle as a whole. */
static int bundle_error(struct policy_report *report, const char *name, const char *text)
{
	report_error(report, (struct place){name, 1, 1}, "bundle", "%s", text);
	return -EINVAL;
}

static int count_texts(struct slice rest, size_t *ret_count)
{
	struct bundle_text text;
	size_t count = 0;
	int r;
	while ((r = bundle_next(&rest, &text)) > 0)
		count++;
	*ret_count = count;
	return r;
}

static int read_texts(struct compiler *c, struct slice rest)
{
	struct syntax *tree = &c->tree;
	for (size_t i = 0; i < tree->file_count; i++) {
		struct bundle_text text;
		if (bundle_next(&rest, &text) <= 0)
			return -EINVAL;
		struct source_file *file = &tree->files[i];
		file->kind = text.kind;
		file->content = text.content;
		file->name = arena_dup(tree->arena, text.name);
		if (file->name == NULL)
			return -ENOMEM;
		c->file_names[i] = file->name;
		if (text.content.len > POLICY_FILE_BYTES_MAX)
			return bundle_error(
				tree->report, file->name, "the file is larger than 1 MiB");
		if (memchr(text.name.ptr, '\0', text.name.len) != NULL)
			return bundle_error(tree->report, file->name, "a NUL byte in a file name");
	}
	return 0;
}

static int compiler_read(struct compiler *c, struct slice bundle)
{
	struct syntax *tree = &c->tree;
	struct slice rest;
	size_t count = 0;
	if (bundle.len > POLICY_BUNDLE_BYTES_MAX || bundle_start(bundle, &rest) < 0 ||
		count_texts(rest, &count) < 0)
		return bundle_error(tree->report, "policy", "this is not a policy bundle");
	if (count == 0 || count > BUNDLE_FILES_MAX)
		return bundle_error(tree->report, "policy", "a policy has 1 to 1024 files");
	tree->files = arena_alloc(tree->arena, count, sizeof(*tree->files));
	c->file_names = arena_alloc(tree->arena, count, sizeof(*c->file_names));
	if (tree->files == NULL || c->file_names == NULL)
		return -ENOMEM;
	tree->file_count = count;
	return read_texts(c, rest);
}

static int compare_ids(const void *a, const void *b)
{
	const struct rule_entry *left = *(const struct rule_entry *const *)a;
	const struct rule_entry *right = *(const struct rule_entry *const *)b;
	int order = strcmp(left->rule.id, right->rule.id);
	if (order == 0)
		order = strcmp(left->place.file, right->place.file);
	return order != 0
		? order
		: (left->place.line > right->place.line) - (left->place.line < right->place.line);
}

static size_t collect_rules(
	const struct statement_list *list, const struct rule_entry **to, size_t count)
{
	for (const struct statement *s = list->first; s != NULL; s = s->next) {
		if (s->kind == STATEMENT_RULE && s->rule->rule.id != NULL)
			to[count++] = s->rule;
	}
	return count;
}

/** An id names one rule of the whole policy. */
static int check_ids(struct compiler *c)
{
	struct syntax *tree = &c->tree;
	auto_free const struct rule_entry **rules = calloc(tree->rule_count + 1, sizeof(*rules));
	if (rules == NULL)
		return -ENOMEM;
	size_t count = collect_rules(&tree->globals, rules, 0);
	for (const struct section *s = tree->sections; s != NULL; s = s->next)
		count = collect_rules(&s->statements, rules, count);
	qsort(rules, count, sizeof(*rules), compare_ids);
	for (size_t i = 1; i < count; i++) {
		if (strcmp(rules[i]->rule.id, rules[i - 1]->rule.id) == 0)
			report_error(tree->report, rules[i]->place, "duplicate-id",
				"id %.64s was taken at %s:%u", rules[i]->rule.id,
				rules[i - 1]->rule.file, rules[i - 1]->rule.line);
	}
	return 0;
}

static bool has_expects(const struct section *s)
{
	for (const struct statement *st = s->statements.first; st != NULL; st = st->next) {
		if (st->kind == STATEMENT_EXPECT)
			return true;
	}
	return false;
}

static bool allows_something(const struct profile *p)
{
	for (size_t i = 0; i < p->rule_count; i++) {
		if (p->rules[i]->rule.allow)
			return true;
	}
	return false;
}

/** Expect lines of a section, by its own rules; only when nothing else is wrong. */
static void judge_expects(struct compiler *c, const struct section *s, const struct profile *p)
{
	struct policy_report *report = c->tree.report;
	for (const struct statement *st = s->statements.first; st != NULL; st = st->next) {
		if (st->kind == STATEMENT_EXPECT)
			expect_judge(st->expect, st->place, p, report);
	}
	if (s->is_profile && (s->file->required & REQUIRE_TESTS) != 0 && !has_expects(s) &&
		allows_something(p))
		report_error(report, s->place, "required",
			"this file requires tests, and profile %s has no expect line", s->name);
}

static int resolve_sections(struct compiler *c)
{
	struct policy *policy = c->policy;
	bool clean = c->tree.report->errors == 0; /* else the tests would only say it again */
	policy->profiles =
		arena_alloc(&policy->arena, c->tree.section_count, sizeof(*policy->profiles));
	if (policy->profiles == NULL)
		return -ENOMEM;
	for (const struct section *s = c->tree.sections; s != NULL; s = s->next) {
		struct profile group = {0};
		struct profile *p = &group;
		if (s->is_profile)
			p = &policy->profiles[policy->profile_count++];
		size_t before = c->tree.report->errors;
		int r = resolver_profile(&c->resolver, s, p);
		if (r < 0)
			return r;
		conflict_check(p, c->tree.report);
		if (clean && c->tree.report->errors == before)
			judge_expects(c, s, p);
	}
	return 0;
}

static int compare_openings(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct policy_opening));
}

static size_t count_openings(const struct policy *p)
{
	size_t count = 0;
	for (size_t i = 0; i < p->profile_count; i++) {
		for (size_t j = 0; j < p->profiles[i].rule_count; j++)
			count += p->profiles[i].rules[j]->rule.address_count *
				p->profiles[i].rules[j]->port_count;
	}
	return count;
}

static size_t take_openings(const struct rule_entry *r, struct policy_opening *to, size_t count)
{
	for (size_t a = 0; a < r->rule.address_count; a++) {
		for (size_t p = 0; p < r->port_count; p++) {
			struct policy_opening *o = &to[count++];
			memset(o, 0, sizeof(*o)); /* padding too: they are compared as bytes */
			o->prefix.base.family = r->rule.addresses[a].base.family;
			memcpy(o->prefix.base.bytes, r->rule.addresses[a].base.bytes,
				sizeof(o->prefix.base.bytes));
			o->prefix.bits = r->rule.addresses[a].bits;
			o->ports = r->ports[p];
		}
	}
	return count;
}

static int list_openings(struct policy *p)
{
	size_t room = count_openings(p);
	size_t count = 0;
	p->openings = arena_alloc(&p->arena, room, sizeof(*p->openings));
	if (p->openings == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < p->profile_count; i++) {
		for (size_t j = 0; j < p->profiles[i].rule_count; j++)
			count = take_openings(p->profiles[i].rules[j], p->openings, count);
	}
	if (count > 1)
		qsort(p->openings, count, sizeof(*p->openings), compare_openings);
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || compare_openings(&p->openings[i], &p->openings[i - 1]) != 0)
			p->openings[p->opening_count++] = p->openings[i];
	}
	return 0;
}

static int compiler_run(struct compiler *c, struct slice bundle)
{
	struct policy *policy = c->policy;
	int r = compiler_read(c, bundle);
	if (r < 0)
		return r;
	parser_run(&c->tree);
	if (policy->arena.failed)
		return -ENOMEM;
	r = check_ids(c);
	if (r == 0)
		r = resolver_init(&c->resolver, &c->tree);
	if (r == 0)
		r = resolve_sections(c);
	resolver_fini(&c->resolver);
	if (r < 0)
		return r;
	if (c->tree.report->errors > 0)
		return -EINVAL;
	for (size_t i = 0; i < policy->profile_count && r == 0; i++)
		r = profile_seal(&policy->profiles[i]);
	return r == 0 ? list_openings(policy) : r;
}

int policy_compile(struct slice bundle, struct policy **ret_policy, struct policy_report *report)
{
	*report = (struct policy_report){.count = 0};
	struct policy *policy = calloc(1, sizeof(*policy));
	if (policy == NULL)
		return -ENOMEM;
	struct compiler c = {.policy = policy, .tree = {.arena = &policy->arena, .report = report}};
	int r = compiler_run(&c, bundle);
	report_sort(report, c.file_names, c.file_names == NULL ? 0 : c.tree.file_count);
	if (r == 0 && policy->arena.failed)
		r = -ENOMEM;
	if (r < 0) {
		policy_free(policy);
		return r;
	}
	policy->sections = c.tree.sections;
	policy->file_names = c.file_names;
	policy->file_count = c.tree.file_count;
	*ret_policy = policy;
	return 0;
}

void policy_free(struct policy *p)
{
	if (p == NULL)
		return;
	arena_fini(&p->arena);
	free(p);
}

int policy_profile(
	const struct policy *p, const char *name, const struct profile **ret, struct failure *why)
{
	bool any = name == NULL || name[0] == '\0';
	struct buf names = {.limit = FAILURE_TEXT_BYTES};
	for (size_t i = 0; i < p->profile_count; i++) {
		bool wanted = any ? p->profile_count == 1 : strcmp(p->profiles[i].name, name) == 0;
		if (wanted) {
			buf_fini(&names);
			*ret = &p->profiles[i];
			return 0;
		}
		(void)buf_printf(&names, "%s%s", i == 0 ? "" : ", ", p->profiles[i].name);
	}
	struct slice list = buf_slice(&names);
	if (p->profile_count == 0)
		(void)failure_set(why, -ENOENT, "the policy has no [profile NAME] section");
	else if (any)
		(void)failure_set(why, -ENOENT, "the policy has several profiles, name one: %.*s",
			(int)list.len, list.ptr);
	else
		(void)failure_set(why, -ENOENT, "no profile '%.64s'; there are: %.*s", name,
			(int)list.len, list.ptr);
	buf_fini(&names);
	return -ENOENT;
}

void policy_opened(const struct policy *p, policy_visit_opened *visit, void *arg)
{
	for (size_t i = 0; i < p->opening_count; i++)
		visit(&p->openings[i].prefix, p->openings[i].ports.first, p->openings[i].ports.last,
			arg);
}

uint64_t policy_next_expiry(const struct policy *p, uint64_t now_ms)
{
	uint64_t next = RULE_NEVER_MS;
	for (size_t i = 0; i < p->profile_count; i++) {
		for (size_t j = 0; j < p->profiles[i].rule_count; j++) {
			uint64_t at = p->profiles[i].rules[j]->expires_ms;
			if (at > now_ms && at < next)
				next = at;
		}
	}
	return next;
}
