/* Statements inside a section beside rules: use, set, expect. See syntax.h. */
#include "policy/syntax.h"
#include "policy/value.h"

static void report_at(
	struct parser *p, const struct token *t, size_t offset, const char *code, const char *text)
{
	report_error(p->tree->report, token_place(p, t, offset), code, "%s", text);
}

struct statement *statement_add(struct parser *p, enum statement_kind kind, const struct token *at)
{
	struct statement_list *list =
		p->section == NULL ? &p->tree->globals : &p->section->statements;
	struct statement *s = arena_alloc(p->tree->arena, 1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->kind = kind;
	s->place = token_place(p, at, 0);
	if (list->last == NULL)
		list->first = s;
	else
		list->last->next = s;
	list->last = s;
	return s;
}

/** Room for one more use or expect line. */
static bool count_other(struct parser *p, const struct token *at)
{
	if (p->tree->other_count++ < SYNTAX_STATEMENTS_MAX)
		return true;
	if (p->tree->other_count == SYNTAX_STATEMENTS_MAX + 1)
		report_at(p, at, 0, "too-many", "more than 20000 use and expect lines");
	return false;
}

void statement_use(struct parser *p, const struct statement_line *l)
{
	if (!count_other(p, &l->tokens[0]))
		return;
	if (l->count == 1) {
		report_at(p, &l->tokens[0], 0, "syntax", "write: use GROUP [expires=DATE ...]");
		return;
	}
	const char *wrong = value_name(l->tokens[1].text);
	if (wrong != NULL) {
		report_at(p, &l->tokens[1], 0, "name", wrong);
		return;
	}
	struct use *use = arena_alloc(p->tree->arena, 1, sizeof(*use));
	if (use == NULL || !attribute_parse(p, l, 2, ATTRIBUTE_ON_USE, &use->narrow))
		return;
	use->group = arena_dup(p->tree->arena, l->tokens[1].text);
	struct statement *s =
		use->group == NULL ? NULL : statement_add(p, STATEMENT_USE, &l->tokens[1]);
	if (s != NULL)
		s->use = use;
}

struct setting {
	const char *key;
	const char *value; /* the one that is in force; others need a later version */
};

/** mode: what the rules of the profile refuse is refused, or only recorded. */
static void set_mode(struct parser *p, const struct statement_line *l)
{
	const struct token *value = &l->tokens[2];
	struct section *s = p->section;
	bool observe = slice_equal(value->text, SLICE("observe"));
	if (!observe && !slice_equal(value->text, SLICE("enforce")))
		report_at(p, value, 0, "value", "set mode takes enforce or observe");
	else if (s->mode_given)
		report_error(p->tree->report, token_place(p, &l->tokens[0], 0), "duplicate-setting",
			"mode was set on line %u", s->mode_place.line);
	s->mode_given = true;
	s->observe = observe;
	s->mode_place = token_place(p, &l->tokens[0], 0);
}

/** commit: whether a decision is on the disk before what it lets pass leaves, or soon after. */
static void set_commit(struct parser *p, const struct statement_line *l)
{
	const struct token *value = &l->tokens[2];
	struct section *s = p->section;
	bool before = slice_equal(value->text, SLICE("before"));
	if (!before && !slice_equal(value->text, SLICE("after")))
		report_at(p, value, 0, "value", "set commit takes after or before");
	else if (s->commit_given)
		report_error(p->tree->report, token_place(p, &l->tokens[0], 0), "duplicate-setting",
			"commit was set on line %u", s->commit_place.line);
	s->commit_given = true;
	s->commit_before = before;
	s->commit_place = token_place(p, &l->tokens[0], 0);
}

void statement_set(struct parser *p, const struct statement_line *l)
{
	static const struct setting settings[] = {
		{"on-full", "deny"}, {"dns", "proxy-only"}, {"tls-min", "1.2"}};
	if (l->count != 3) {
		report_at(p, &l->tokens[0], 0, "syntax", "write: set KEY VALUE");
		return;
	}
	if (slice_equal(l->tokens[1].text, SLICE("mode"))) {
		set_mode(p, l);
		return;
	}
	if (slice_equal(l->tokens[1].text, SLICE("commit"))) {
		set_commit(p, l);
		return;
	}
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		if (!slice_equal(l->tokens[1].text, slice_of(settings[i].key)))
			continue;
		if (!slice_equal(l->tokens[2].text, slice_of(settings[i].value)))
			report_error(p->tree->report, token_place(p, &l->tokens[2], 0),
				"unsupported", "set %s takes only %s in this version",
				settings[i].key, settings[i].value);
		return;
	}
	report_at(p, &l->tokens[1], 0, "unknown-setting",
		"unknown setting; there are mode, on-full, dns, commit and tls-min");
}

static bool known_code(struct slice code)
{
	for (int i = 0; i < REASON_COUNT; i++) {
		if (slice_equal(code, slice_of(reason_code((enum reason)i))))
			return true;
	}
	return false;
}

/** by=, code=, at= of an expect line. @return NULL or what is wrong. */
static const char *expect_attribute(struct parser *p, struct slice text, struct expect *e)
{
	struct slice key;
	struct slice value;
	if (!attribute_looks_like(text))
		return "write: expect allow|deny METHOD URL [by=ID] [code=REASON] [at=DATE]";
	attribute_split(text, &key, &value);
	if (slice_equal(key, SLICE("by"))) {
		e->by = arena_dup(p->tree->arena, value);
		return NULL;
	}
	if (slice_equal(key, SLICE("code"))) {
		e->code = arena_dup(p->tree->arena, value);
		return known_code(value) ? NULL : "there is no such reason code";
	}
	if (slice_equal(key, SLICE("at"))) {
		const char *wrong = value_date(value, &e->at_ms);
		e->at_ms -= wrong == NULL; /* the last moment of that day */
		return wrong;
	}
	return "an expect line takes by=, code= and at=";
}

void statement_expect(struct parser *p, const struct statement_line *l)
{
	if (!count_other(p, &l->tokens[0]))
		return;
	bool allow = l->count > 1 && slice_equal(l->tokens[1].text, SLICE("allow"));
	bool deny = l->count > 1 && slice_equal(l->tokens[1].text, SLICE("deny"));
	if (l->count < 4 || !(allow || deny)) {
		report_at(p, &l->tokens[0], 0, "syntax",
			"write: expect allow|deny METHOD URL [by=ID] [code=REASON] [at=DATE]");
		return;
	}
	struct expect *e = arena_alloc(p->tree->arena, 1, sizeof(*e));
	if (e == NULL)
		return;
	e->allow = allow;
	e->method = l->tokens[2].text;
	e->url = l->tokens[3].text;
	e->url_place = token_place(p, &l->tokens[3], 0);
	for (size_t i = 4; i < l->count; i++) {
		const char *wrong = expect_attribute(p, l->tokens[i].text, e);
		if (wrong != NULL) {
			report_at(p, &l->tokens[i], 0, "value", wrong);
			return;
		}
	}
	struct statement *s = statement_add(p, STATEMENT_EXPECT, &l->tokens[0]);
	if (s != NULL)
		s->expect = e;
}
