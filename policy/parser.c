/* The frame of policy text: files, includes, sections, and which statement may stand where. See syntax.h. */
#include "policy/syntax.h"
#include "policy/value.h"

#include "common/cleanup.h"

static void parse_file(struct syntax *tree, struct source_file *file, unsigned depth);

static void report_at(struct parser *p, const struct token *t, const char *code, const char *text)
{
	report_error(p->tree->report, token_place(p, t, 0), code, "%s", text);
}

static struct source_file *find_file(struct syntax *tree, const char *name)
{
	for (size_t i = 0; i < tree->file_count; i++) {
		if (strcmp(tree->files[i].name, name) == 0)
			return &tree->files[i];
	}
	return NULL;
}

static void parse_include(struct parser *p, const struct statement_line *l)
{
	char name[BUNDLE_NAME_BYTES_MAX + 1];
	if (l->count != 2) {
		report_at(p, &l->tokens[0], "syntax", "write: include PATH");
		return;
	}
	const struct token *path = &l->tokens[1];
	const char *wrong = bundle_include_check(path->text);
	if (wrong == NULL && bundle_include_name(p->file->name, path->text, name) < 0)
		wrong = "the name of the included file is too long";
	if (wrong == NULL && p->depth == SYNTAX_DEPTH_MAX)
		wrong = "includes nest more than 8 deep";
	if (wrong != NULL) {
		report_at(p, path, "include", wrong);
		return;
	}
	struct source_file *file = find_file(p->tree, name);
	if (file == NULL)
		report_at(p, path, "include", "the included file was not loaded");
	else if (file->state == FILE_OPEN)
		report_at(
			p, path, "include", "the file includes itself, directly or through others");
	else if (file->state == FILE_UNREAD)
		parse_file(p->tree, file, p->depth + 1);
}

static void parse_require(struct parser *p, const struct statement_line *l)
{
	static const char *const words[] = {"owner", "ticket", "expires", "tests", NULL};
	if (l->count == 1)
		report_at(p, &l->tokens[0], "syntax", "write: require owner ticket expires tests");
	for (size_t i = 1; i < l->count; i++) {
		size_t found = 0;
		while (words[found] != NULL &&
			!slice_equal(l->tokens[i].text, slice_of(words[found])))
			found++;
		if (words[found] == NULL)
			report_at(p, &l->tokens[i], "syntax",
				"require takes owner, ticket, expires and tests");
		else
			p->file->required |= 1u << found;
	}
}

static void parse_defaults(struct parser *p, const struct statement_line *l)
{
	if (l->count == 1)
		report_at(p, &l->tokens[0], "syntax", "write: defaults KEY=VALUE ...");
	(void)attribute_parse(p, l, 1, ATTRIBUTE_ON_DEFAULTS, &p->file->defaults);
}

/** The words between '[' and ']'. False: the brackets are not in their place. */
static bool section_words(
	const struct statement_line *l, struct token *words, size_t capacity, size_t *ret_count)
{
	if (l->count > capacity)
		return false;
	for (size_t i = 0; i < l->count; i++)
		words[i] = l->tokens[i];
	struct token *first = &words[0];
	struct token *last = &words[l->count - 1];
	first->text = slice_part(first->text, 1, first->text.len);
	first->column++;
	if (!slice_ends(last->text, SLICE("]")))
		return false;
	last->text.len--;
	*ret_count = l->count;
	return true;
}

static struct section *section_new(struct parser *p, const struct token *at, bool is_profile)
{
	struct syntax *tree = p->tree;
	if (tree->section_count == SYNTAX_SECTIONS_MAX) {
		report_at(p, at, "too-many", "more than 1000 groups and profiles");
		return NULL;
	}
	struct section *s = arena_alloc(tree->arena, 1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->is_profile = is_profile;
	s->file = p->file;
	s->place = token_place(p, at, 0);
	if (tree->last_section == NULL)
		tree->sections = s;
	else
		tree->last_section->next = s;
	tree->last_section = s;
	tree->section_count++;
	return s;
}

static const struct section *find_section(
	const struct syntax *tree, bool is_profile, struct slice name)
{
	for (const struct section *s = tree->sections; s != NULL; s = s->next) {
		if (s->is_profile == is_profile && slice_equal(name, slice_of(s->name)))
			return s;
	}
	return NULL;
}

static void parse_section(struct parser *p, const struct statement_line *l)
{
	struct token words[4];
	size_t count = 0;
	bool shaped = section_words(l, words, array_size(words), &count);
	bool is_profile = shaped && slice_equal(words[0].text, SLICE("profile"));
	bool is_group = shaped && slice_equal(words[0].text, SLICE("group"));
	bool extends = count == 4 && slice_equal(words[2].text, SLICE("extends"));
	if (!(is_group && count == 2) && !(is_profile && (count == 2 || extends))) {
		report_at(p, &l->tokens[0], "syntax",
			"write [group NAME], [profile NAME] or [profile NAME extends NAME]");
		return;
	}
	const char *wrong = value_name(words[1].text);
	const struct token *blamed = &words[1];
	if (wrong == NULL && extends) {
		wrong = value_name(words[3].text);
		blamed = &words[3];
	}
	if (wrong != NULL) {
		report_at(p, blamed, "name", wrong);
		return;
	}
	const struct section *twin = find_section(p->tree, is_profile, words[1].text);
	if (twin != NULL)
		report_error(p->tree->report, token_place(p, &words[1], 0), "duplicate-section",
			"this name was taken at %s:%u", twin->place.file, twin->place.line);
	const char *name = arena_dup(p->tree->arena, words[1].text);
	const char *base = extends ? arena_dup(p->tree->arena, words[3].text) : NULL;
	if (name == NULL || (extends && base == NULL))
		return;
	struct section *s = section_new(p, &words[1], is_profile);
	if (s == NULL)
		return;
	s->name = name;
	s->extends = base;
	s->extends_place = extends ? token_place(p, &words[3], 0) : s->place;
	p->section = s;
}

/** Where a statement may stand. */
enum allowed_where { ANYWHERE, BEFORE_SECTIONS, IN_SECTIONS, IN_PROFILES };

static void parse_allow(struct parser *p, const struct statement_line *l)
{
	statement_rule(p, l, true, 1);
}

static void parse_deny(struct parser *p, const struct statement_line *l)
{
	statement_rule(p, l, false, 1);
}

struct statement_verb {
	const char *word;
	enum allowed_where where;
	void (*parse)(struct parser *p, const struct statement_line *l);
};

static const struct statement_verb verbs[] = {
	{"allow", IN_SECTIONS, parse_allow},
	{"deny", ANYWHERE, parse_deny},
	{"use", IN_SECTIONS, statement_use},
	{"set", IN_PROFILES, statement_set},
	{"expect", IN_SECTIONS, statement_expect},
	{"include", BEFORE_SECTIONS, parse_include},
	{"require", BEFORE_SECTIONS, parse_require},
	{"defaults", BEFORE_SECTIONS, parse_defaults},
};

static void report_unknown_verb(struct parser *p, const struct token *t)
{
	const char *words[array_size(verbs) + 1] = {NULL};
	char shown[64];
	for (size_t i = 0; i < array_size(verbs); i++)
		words[i] = verbs[i].word;
	const char *near = report_nearest(t->text, words);
	(void)slice_escape(t->text, shown, sizeof(shown));
	struct place at = token_place(p, t, 0);
	if (near == NULL)
		report_error(
			p->tree->report, at, "unknown-statement", "unknown statement '%s'", shown);
	else
		report_error(p->tree->report, at, "unknown-statement",
			"unknown statement '%s'; did you mean %s?", shown, near);
}

static const char *misplaced(const struct parser *p, enum allowed_where where)
{
	switch (where) {
	case ANYWHERE:
		return NULL;
	case BEFORE_SECTIONS:
		return p->section == NULL ? NULL : "this belongs before the first section";
	case IN_SECTIONS:
		return p->section != NULL
			? NULL
			: "before any section only deny, include, require and defaults may stand";
	case IN_PROFILES:
		return p->section != NULL && p->section->is_profile ? NULL
								    : "this belongs in a profile";
	}
	return NULL;
}

static void parse_statement(struct parser *p, const struct statement_line *l)
{
	const struct token *verb = &l->tokens[0];
	if (slice_starts(verb->text, SLICE("["))) {
		parse_section(p, l);
		return;
	}
	for (size_t i = 0; i < array_size(verbs); i++) {
		if (!slice_equal(verb->text, slice_of(verbs[i].word)))
			continue;
		const char *wrong = misplaced(p, verbs[i].where);
		if (wrong != NULL)
			report_at(p, verb, "misplaced", wrong);
		else
			verbs[i].parse(p, l);
		return;
	}
	if (slice_equal(verb->text, SLICE("policy")))
		report_at(p, verb, "misplaced", "policy 1 is the first statement, once a file");
	else
		report_unknown_verb(p, verb);
}

static bool is_version(const struct statement_line *l)
{
	return l->count == 2 && slice_equal(l->tokens[0].text, SLICE("policy")) &&
		slice_equal(l->tokens[1].text, SLICE("1"));
}

/** The text of rules from the command line: one profile, one rule a line, without its verb. */
static void parse_rules(struct parser *p, struct lexer *lexer, struct statement_line *line)
{
	struct token name = {SLICE(BUNDLE_RULES_PROFILE), 1, 1};
	lexer->line_only = true;
	p->section = section_new(p, &name, true);
	if (p->section == NULL)
		return;
	p->section->name = BUNDLE_RULES_PROFILE;
	while (lexer_next(lexer, line))
		statement_rule(p, line, true, 0);
}

static void parse_text(struct parser *p, struct lexer *lexer, struct statement_line *line)
{
	struct place start = {p->file->name, 1, 1};
	size_t errors = p->tree->report->errors;
	if (!lexer_next(lexer, line)) {
		if (p->tree->report->errors != errors)
			return; /* not empty: its lines were refused */
		report_error(p->tree->report, start, "version",
			"the file is empty; its first statement must be: policy 1");
		return;
	}
	/* Where lines before it were refused, nobody knows what they said. */
	if (!is_version(line) && p->tree->report->errors == errors)
		report_error(p->tree->report, token_place(p, &line->tokens[0], 0), "version",
			"the first statement must be: policy 1");
	bool is_statement = !slice_equal(line->tokens[0].text, SLICE("policy"));
	if (!is_statement && !lexer_next(lexer, line))
		return;
	do {
		parse_statement(p, line);
	} while (lexer_next(lexer, line));
}

static void finish_file(struct syntax *tree, const struct source_file *file)
{
	statement_finish_file(tree, file, NULL, &tree->globals);
	for (struct section *s = tree->sections; s != NULL; s = s->next) {
		if (s->file == file)
			statement_finish_file(tree, file, s, &s->statements);
	}
}

static void parse_file(struct syntax *tree, struct source_file *file, unsigned depth)
{
	struct parser p = {.tree = tree, .file = file, .depth = depth};
	struct statement_line line;
	struct lexer lexer;
	lexer_init(&lexer, file->name, file->content, tree->report);
	file->state = FILE_OPEN;
	if (file->kind == BUNDLE_RULES)
		parse_rules(&p, &lexer, &line);
	else
		parse_text(&p, &lexer, &line);
	file->state = FILE_READ;
	finish_file(tree, file);
}

void parser_run(struct syntax *tree)
{
	for (size_t i = 0; i < tree->file_count; i++) {
		struct source_file *file = &tree->files[i];
		if (file->kind != BUNDLE_INCLUDED && file->state == FILE_UNREAD)
			parse_file(tree, file, 0);
	}
}
