/* See resolve.h. */
#include "policy/resolve.h"

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

/** A number that `use` narrows: the rule's value, and the highest that any rule of the group has. */
struct narrowing {
	enum attribute_key key;
	const char *name;
	uint64_t wanted;
	uint64_t highest;
};

static uint64_t number_of(const struct rule_entry *rule, enum attribute_key key)
{
	if (key == ATTRIBUTE_EXPIRES)
		return rule->expires_ms;
	return key == ATTRIBUTE_REQ_BODY ? rule->rule.req_body_bytes : rule->rule.resp_body_bytes;
}

static void number_set(struct rule_entry *rule, enum attribute_key key, uint64_t value)
{
	if (key == ATTRIBUTE_EXPIRES)
		rule->expires_ms = value;
	else if (key == ATTRIBUTE_REQ_BODY)
		rule->rule.req_body_bytes = value;
	else
		rule->rule.resp_body_bytes = value;
}

/** The rule in place @i as one that only this section has; NULL when out of memory. */
static struct rule_entry *own_rule(struct resolver *r, size_t i)
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

/** Lower the rules from @from on to what the use line says. */
static void narrow_number(struct resolver *r, size_t from, struct narrowing *n)
{
	for (size_t i = from; i < r->rule_count; i++) {
		if (!r->rules[i]->rule.allow)
			continue;
		uint64_t value = number_of(r->rules[i], n->key);
		n->highest = value > n->highest ? value : n->highest;
		struct rule_entry *own = value > n->wanted ? own_rule(r, i) : NULL;
		if (own != NULL)
			number_set(own, n->key, n->wanted);
	}
}

static void narrow_query(struct resolver *r, size_t from, const struct attributes *a)
{
	if (!a->query_denied) {
		report_error(r->tree->report, a->places[ATTRIBUTE_QUERY], "widens",
			"query=allow would widen the group; use only narrows");
		return;
	}
	for (size_t i = from; i < r->rule_count; i++) {
		struct rule_entry *own = r->rules[i]->rule.allow ? own_rule(r, i) : NULL;
		if (own != NULL)
			own->rule.query_denied = true;
	}
}

static void narrow(struct resolver *r, size_t from, const struct use *use)
{
	const struct attributes *a = &use->narrow;
	struct narrowing numbers[] = {
		{ATTRIBUTE_EXPIRES, "expires", a->expires_ms, 0},
		{ATTRIBUTE_REQ_BODY, "req-body", a->req_body_bytes, 0},
		{ATTRIBUTE_RESP_BODY, "resp-body", a->resp_body_bytes, 0},
	};
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct narrowing *n = &numbers[i];
		if (!attribute_given(a->given, n->key))
			continue;
		narrow_number(r, from, n);
		if (n->wanted > n->highest)
			report_error(r->tree->report, a->places[n->key], "widens",
				"%s= is beyond what every rule of group %s allows; use only narrows",
				n->name, use->group);
	}
	if (attribute_given(a->given, ATTRIBUTE_QUERY))
		narrow_query(r, from, a);
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
	narrow(r, from, use);
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

/** The profile and those it extends, nearest first. */
static void take_chain(struct resolver *r, const struct section *s)
{
	for (unsigned depth = 0; s != NULL; depth++) {
		take_section(r, s, 0);
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

int resolver_profile(struct resolver *r, const struct section *s, struct profile *ret)
{
	r->rule_count = 0;
	r->visits = 0;
	r->full = false;
	for (const struct statement *st = r->tree->globals.first; st != NULL; st = st->next)
		take_rule(r, st->rule, st->place);
	take_chain(r, s);
	r->instance_count += r->rule_count;
	const struct rule_entry **rules =
		arena_alloc(r->tree->arena, r->rule_count, sizeof(*rules));
	if (rules == NULL)
		return -ENOMEM;
	if (r->rule_count > 0)
		memcpy(rules, r->rules, r->rule_count * sizeof(*rules));
	ret->name = s->name;
	return profile_build(ret, r->tree->arena, rules, r->rule_count);
}
