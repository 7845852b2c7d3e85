/* See tool.h. Input: the user's command line. */
#include "cli/tool.h"

#include "common/slice.h"
#include "policy/report.h"

#include <stdio.h>
#include <string.h>

#define NAMES_MAX 32

static const struct tool *tool_at(const struct tool_family *f, size_t index)
{
	return (const struct tool *)(const void *)((const char *)f->tools + index * f->tool_bytes);
}

static int print_help(const struct tool_family *f)
{
	(void)fputs("usage:\n", stdout);
	for (size_t i = 0; i < f->tool_count; i++)
		(void)printf("  %s %s %s\n", f->name, tool_at(f, i)->name, tool_at(f, i)->usage);
	(void)fputs(f->help, stdout);
	return fflush(stdout) != 0 ? TOOL_EXIT_USAGE : 0;
}

int tool_usage(const struct tool_family *f, const char *what, const char *arg)
{
	char shown[128];
	(void)fprintf(stderr, "%s: %s%s; see %s --help\n", f->name, what,
		slice_escape(slice_of(arg), shown, sizeof(shown)), f->name);
	return TOOL_EXIT_USAGE;
}

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/** The standard input's name is a word. */
static bool is_option(const char *word)
{
	return word[0] == '-' && word[1] != '\0';
}

static const struct tool_option *find_option(
	const struct tool_family *f, const struct tool *tool, const char *word)
{
	for (size_t i = 0; i < f->option_count; i++) {
		const struct tool_option *o = &f->options[i];
		bool ours = o->tools == TOOL_EVERY || (tool->options & o->tools) != 0;
		if (ours && strcmp(word, o->word) == 0)
			return o;
	}
	return NULL;
}

static int set_value(
	const struct tool_family *f, const struct tool_option *o, const char *value, void *to)
{
	if (o->kind == TOOL_LIST) {
		size_t *count = (size_t *)(void *)((char *)to + o->count_member);
		(*(const char ***)(void *)((char *)to + o->member))[(*count)++] = value;
		return 0;
	}
	const char **text = (const char **)(void *)((char *)to + o->member);
	if (*text != NULL)
		return tool_usage(f, "an option stands twice: ", o->word);
	*text = value;
	return 0;
}

/** The option at *at, and its value if it has one. @return 0 or TOOL_EXIT_USAGE. */
static int take_option(const struct tool_family *f, struct tool_line *l, int *at)
{
	const struct tool_option *o = find_option(f, l->tool, l->argv[*at]);
	if (o == NULL)
		return tool_usage(f, "unknown option ", l->argv[*at]);
	if (o->kind == TOOL_FLAG) {
		*(bool *)(void *)((char *)l->to + o->member) = true;
		return 0;
	}
	if (*at + 1 == l->argc)
		return tool_usage(f, "a value is missing after ", l->argv[*at]);
	(*at)++;
	return set_value(f, o, l->argv[*at], l->to);
}

static int wrong_words(const struct tool_family *f, const struct tool *tool)
{
	const char *end = strchrnul(tool->usage, '\n');
	(void)fprintf(stderr, "%s: wrong number of words: %s %s %.*s\n", f->name, f->name,
		tool->name, (int)(end - tool->usage), tool->usage);
	return TOOL_EXIT_USAGE;
}

static int take_words(const struct tool_family *f, struct tool_line *l)
{
	bool options = true;
	l->words = l->argv;
	for (int i = 2; i < l->argc; i++) {
		int status = 0;
		if (options && strcmp(l->argv[i], "--") == 0)
			options = false;
		else if (options && is_option(l->argv[i]))
			status = take_option(f, l, &i);
		else
			l->argv[l->word_count++] = l->argv[i]; /* word_count < i */
		if (status != 0)
			return status;
	}
	if (l->word_count < l->tool->words_min || l->word_count > l->tool->words_max)
		return wrong_words(f, l->tool);
	return 0;
}

static int unknown_tool(const struct tool_family *f, const char *word)
{
	const char *names[NAMES_MAX + 1] = {NULL};
	char shown[128];
	for (size_t i = 0; i < f->tool_count && i < NAMES_MAX; i++)
		names[i] = tool_at(f, i)->name;
	const char *nearest = report_nearest(slice_of(word), names);
	if (nearest == NULL)
		return tool_usage(f, "unknown subcommand ", word);
	(void)fprintf(stderr, "%s: unknown subcommand %s; did you mean %s?\n", f->name,
		slice_escape(slice_of(word), shown, sizeof(shown)), nearest);
	return TOOL_EXIT_USAGE;
}

int tool_take(const struct tool_family *f, struct tool_line *line)
{
	const struct tool *tool = NULL;
	line->tool = NULL;
	if (line->argc < 2)
		return tool_usage(f, "a subcommand is missing", "");
	for (size_t i = 0; i < f->tool_count && tool == NULL; i++) {
		if (strcmp(line->argv[1], tool_at(f, i)->name) == 0)
			tool = tool_at(f, i);
	}
	if (tool == NULL)
		return is_help(line->argv[1]) ? print_help(f) : unknown_tool(f, line->argv[1]);
	for (int i = 2; i < line->argc && strcmp(line->argv[i], "--") != 0; i++) {
		if (is_help(line->argv[i]))
			return print_help(f);
	}
	line->tool = tool;
	int status = take_words(f, line);
	if (status != 0)
		line->tool = NULL;
	return status;
}
