/* See resolve.h. */
#include "policy/resolve.h"

#include "policy/narrow.h"

#include <errno.h>
#include <stdlib.h>

static void take_section(struct resolver *r, const struct section *s, unsigned depth);

int resolver_init(struct resolver *r, struct syntax *tree)
{
	*r = (struct resolver){.tree = tree};
	r->rules = calloc(SYNTAX_RULES_MAX, sizeof(*r->rules));
	return r->rules == NULL ? -ENOMEM : 0;
}

void resolver_fini(struct resolver *r)
{
	free(r->rules);
	r->rules = NULL;
}

static const struct section *find_section(
	const struct syntax *tree, bool is_profile, const char *name)
{
	for (const struct section *s = tree->sections; s != NULL; s = s->next) {
		if (s->is_profile == is_profile && strcmp(s->name, name) == 0)
			return s;
	}
	return NULL;
}

/** Say what is missing, and which name was probably meant. */
static void report_missing(struct resolver *r, struct place at, bool is_profile, const char *name)
{
	const char *words[65] = {NULL};
	const char *what = is_profile ? "profile" : "group";
	size_t count = 0;
	for (const struct section *s = r->tree->sections; s != NULL && count < 64; s = s->next) {
		if (s->is_profile == is_profile)
			words[count++] = s->name;
	}
	const char *near = report_nearest(slice_of(name), words);
	if (near == NULL)
		report_error(
			r->tree->report, at, "unknown-section", "there is no %s %s", what, name);
	else
		report_error(r->tree->report, at, "unknown-section",
			"there is no %s %s; did you mean %s?", what, name, near);
}

static void report_full(struct resolver *r, struct place at, const char *text)
{
	if (!r->full)
		report_error(r->tree->report, at, "too-many", "%s", text);
	r->full = true;
}

static void take_rule(struct resolver *r, const struct rule_entry *rule, struct place at)
{
	if (r->rule_count == SYNTAX_RULES_MAX)
		report_full(r, at, "the section has more than 20000 effective rules");
	else if (r->instance_count + r->rule_count == RESOLVE_INSTANCES_MAX)
		report_full(r, at, "all profiles together have more than 200000 effective rules");
	else
		r->rules[r->rule_count++] = rule;
}

static void take_use(struct resolver *r, const struct use *use, struct place at, unsigned depth)
{
	const struct section *group = find_section(r->tree, false, use->group);
	size_t from = r->rule_count;
	if (group == NULL) {
		report_missing(r, at, false, use->group);
		return;
	}
	if (depth == SYNTAX_DEPTH_MAX) {
		report_error(r->tree->report, at, "too-deep",
			"groups use one another more than 8 deep, or in a circle");
		r->full = true;
		return;
	}
	take_section(r, group, depth + 1);
	if (!r->full) /* else not all of the group is there */
		narrow_rules(r, from, use);
}

static void take_section(struct resolver *r, const struct section *s, unsigned depth)
{
	for (const struct statement *st = s->statements.first; st != NULL && !r->full;
		st = st->next) {
		if (r->visits++ == 2 * SYNTAX_RULES_MAX)
			report_full(
				r, st->place, "the section takes too many statements from groups");
		else if (st->kind == STATEMENT_RULE)
			take_rule(r, st->rule, st->place);
		else if (st->kind == STATEMENT_USE)
			take_use(r, st->use, st->place, depth);
	}
}

/** What a profile sets: the nearest of those that it extends, or itself, has the word. NULL: none has. */
struct settings {
	const struct section *mode, *commit;
};

/** The profile and those it extends, nearest first. */
static void take_chain(struct resolver *r, const struct section *s, struct settings *ret)
{
	*ret = (struct settings){0};
	for (unsigned depth = 0; s != NULL; depth++) {
		take_section(r, s, 0);
		if (ret->mode == NULL && s->mode_given)
			ret->mode = s;
		if (ret->commit == NULL && s->commit_given)
			ret->commit = s;
		if (s->extends == NULL)
			return;
		if (depth == SYNTAX_DEPTH_MAX) {
			report_error(r->tree->report, s->extends_place, "too-deep",
				"profiles extend one another more than 8 deep, or in a circle");
			r->full = true;
			return;
		}
		const struct section *base = find_section(r->tree, true, s->extends);
		if (base == NULL)
			report_missing(r, s->extends_place, true, s->extends);
		s = base;
	}
}

/** What stands for every request that no rule names, while a profile observes. */
static const struct rule_entry *make_observer(struct resolver *r, const struct section *s)
{
	struct rule_entry *o = arena_alloc(r->tree->arena, 1, sizeof(*o));
	if (o == NULL)
		return NULL;
	*o = (struct rule_entry){.rule = {.id = "observe",
					 .file = s->mode_place.file,
					 .line = s->mode_place.line,
					 .text = "set mode observe",
					 .allow = true,
					 .encoded_slash = true,
					 .observe = true},
		.place = s->mode_place,
		.kind = PATTERN_ANY,
		.name = SLICE(""),
		.scheme = RULE_SCHEME_ANY,
		.source = o,
		.target = "any",
		.admits = "ANY /**"};
	for (enum limit l = 0; l < LIMIT_COUNT; l++)
		limit_set(o, l, l == LIMIT_WINDOW ? 0 : POLICY_UNLIMITED);
	o->rule.key = 1; /* of no rule: those are hashes */
	return o;
}

/** Everything that the profile allows observes, and so does what nothing names. */
static int observe(struct resolver *r, const struct section *mode, struct profile *ret)
{
	ret->observer = make_observer(r, mode);
	if (ret->observer == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < r->rule_count; i++) {
		if (!r->rules[i]->rule.allow || r->rules[i]->rule.observe)
			continue;
		struct rule_entry *own = resolver_own_rule(r, i);
		if (own == NULL)
			return -ENOMEM;
		own->rule.observe = true;
	}
	return 0;
}

int resolver_profile(struct resolver *r, const struct section *s, struct profile *ret)
{
	struct settings set;
	r->rule_count = 0;
	r->visits = 0;
	r->full = false;
	for (const struct statement *st = r->tree->globals.first; st != NULL; st = st->next)
		take_rule(r, st->rule, st->place);
	take_chain(r, s, &set);
	r->instance_count += r->rule_count;
	if (set.mode != NULL && set.mode->observe && observe(r, set.mode, ret) < 0)
		return -ENOMEM;
	const struct rule_entry **rules =
		arena_alloc(r->tree->arena, r->rule_count, sizeof(*rules));
	if (rules == NULL)
		return -ENOMEM;
	if (r->rule_count > 0)
		memcpy(rules, r->rules, r->rule_count * sizeof(*rules));
	ret->name = s->name;
	ret->commit_before = set.commit != NULL && set.commit->commit_before;
	return profile_build(ret, r->tree->arena, rules, r->rule_count);
}

struct rule_entry *resolver_own_rule(struct resolver *r, size_t i)
{
	if (r->rules[i]->narrowed)
		return (struct rule_entry *)r->rules[i]; /* made below, for this section */
	struct rule_entry *copy = arena_alloc(r->tree->arena, 1, sizeof(*copy));
	if (copy == NULL)
		return NULL; /* the arena's failure is seen at the end */
	*copy = *r->rules[i];
	copy->narrowed = true;
	r->rules[i] = copy;
	return copy;
}
