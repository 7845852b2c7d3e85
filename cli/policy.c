/* `eclusa policy`: the table of its tools, and their options. */
#include "cli/policy.h"
#include "cli/command.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "policy/report.h"
#include "policy/value.h"

#include <stddef.h>
#include <stdio.h>

struct policy_tool {
	const char *name;
	const char *usage; /* words after the name, and what it does */
	unsigned options;  /* bits of enum policy_option */
	size_t words_min;
	size_t words_max;
	policy_tool_run *run;
};

static const struct policy_tool tools[] = {
	{"lint",
		"[--strict] [--at DATE] [--observed AUDIT] [--trust KEY] [--sarif] PATH...\n"
		"      check policy text: syntax, groups and profiles, expect lines, rules that never "
		"decide,\n"
		"      contradict one another or end soon; --strict: a rule that has ended is an error;\n"
		"      --observed: name rules that neither an expect line nor this audit log hits",
		POLICY_OPTION_STRICT | POLICY_OPTION_SARIF | POLICY_OPTION_AT |
			POLICY_OPTION_OBSERVED | POLICY_OPTION_TRUST,
		1, SIZE_MAX, policy_lint},
	{"test", "[--trust KEY] PATH...\n      judge the expect lines alone, and count them",
		POLICY_OPTION_TRUST, 1, SIZE_MAX, policy_test},
	{"explain",
		"[--policy PATH [--trust KEY] | --allow RULE...] [--at DATE] [PROFILE] METHOD URL\n"
		"      verdict and rule for one request, near misses, the smallest edit that allows it",
		POLICY_OPTION_POLICY | POLICY_OPTION_ALLOW | POLICY_OPTION_AT | POLICY_OPTION_TRUST,
		2, 3, policy_explain_request},
	{"show",
		"[--profile NAME] [--trust KEY] PATH\n      effective rules, in one spelling, with their places",
		POLICY_OPTION_PROFILE | POLICY_OPTION_TRUST, 1, 1, policy_show},
	{"diff",
		"[--at DATE] OLD NEW\n      decisions that change; status 1 when anything becomes wider",
		POLICY_OPTION_AT, 2, 2, policy_diff_files},
	{"replay",
		"[--profile NAME] [--at DATE] [--trust KEY] AUDIT... NEW\n"
		"      judge a recorded log again by the policy NEW: verdicts that flip; status 1 when any does",
		POLICY_OPTION_PROFILE | POLICY_OPTION_AT | POLICY_OPTION_TRUST, 2, SIZE_MAX,
		policy_replay},
	{"suggest",
		"[--profile NAME] [--fold] [--allow-write] [--allow-private] AUDIT...\n"
		"      from what observe mode let pass, the narrowest rules that let it pass when enforced",
		POLICY_OPTION_PROFILE | POLICY_OPTION_SUGGEST, 1, SIZE_MAX, policy_suggest_rules},
	{"fmt", "[--check | --write] PATH...\n      one layout: print it, say which files differ, or write it back",
		POLICY_OPTION_CHECK | POLICY_OPTION_WRITE, 1, SIZE_MAX, policy_fmt},
	{"import",
		"--from squid|smokescreen|hosts|srt [--profile NAME] [--output FILE] [FILE]...\n"
		"    eclusa policy import --from npm|pip|apt [--online] [--profile NAME] [--output FILE]\n"
		"      another tool's list, or what your npm, pip or apt is set to, as policy text",
		POLICY_OPTION_IMPORT | POLICY_OPTION_PROFILE, 0, SIZE_MAX, policy_import},
	{"sign",
		"--key KEY PATH\n      write a manifest of what loads, and its signature, beside the policy",
		POLICY_OPTION_KEY, 1, 1, policy_sign},
	{"verify",
		"[--trust KEY] PATH...\n      was this signed by a key that is trusted, here or by the configuration?",
		POLICY_OPTION_TRUST, 1, SIZE_MAX, policy_verify},
	{"reload",
		"STATE-DIR\n      have the eclusa-proxy that keeps its state there load its policy again, and "
		"say what changed",
		0, 1, 1, policy_reload},
};

static int print_help(void)
{
	(void)fputs("usage:\n", stdout);
	for (size_t i = 0; i < array_size(tools); i++)
		(void)printf("  eclusa policy %s %s\n", tools[i].name, tools[i].usage);
	(void)fputs(
		"\n"
		"PATH is a file, or a folder whose *.allow files are taken together; AUDIT a file or "
		"folder of the audit log.\n"
		"\n"
		"  --json   one JSON object instead of lines\n"
		"  --help   this text\n"
		"\n"
		"Findings are printed as file:line:column: severity: code: text.\n"
		"Exit status: 0 clean or allowed, 1 findings or denied, 2 unreadable or wrong "
		"usage.\n",
		stdout);
	return fflush(stdout) != 0 ? POLICY_EXIT_UNREADABLE : POLICY_EXIT_CLEAN;
}

int policy_usage(const char *what, const char *arg)
{
	char shown[128];
	(void)fprintf(stderr, "eclusa policy: %s%s; see eclusa policy --help\n", what,
		slice_escape(slice_of(arg), shown, sizeof(shown)));
	return POLICY_EXIT_UNREADABLE;
}

/** An option without a value. False: it is none, or not this tool's. */
static bool take_flag(const struct policy_tool *tool, const char *word, struct policy_words *to)
{
	static const struct {
		const char *word;
		unsigned option; /* 0: every tool's */
		size_t member;   /* of struct policy_words */
	} flags[] = {
		{"--json", 0, offsetof(struct policy_words, json)},
		{"--check", POLICY_OPTION_CHECK, offsetof(struct policy_words, check)},
		{"--write", POLICY_OPTION_WRITE, offsetof(struct policy_words, write)},
		{"--strict", POLICY_OPTION_STRICT, offsetof(struct policy_words, strict)},
		{"--sarif", POLICY_OPTION_SARIF, offsetof(struct policy_words, sarif)},
		{"--fold", POLICY_OPTION_SUGGEST, offsetof(struct policy_words, fold)},
		{"--allow-write", POLICY_OPTION_SUGGEST,
			offsetof(struct policy_words, allow_write)},
		{"--allow-private", POLICY_OPTION_SUGGEST,
			offsetof(struct policy_words, allow_private)},
		{"--online", POLICY_OPTION_IMPORT, offsetof(struct policy_words, online)},
	};
	for (size_t i = 0; i < array_size(flags); i++) {
		if (strcmp(word, flags[i].word) != 0 ||
			(flags[i].option != 0 && (tool->options & flags[i].option) == 0))
			continue;
		*(bool *)((char *)to + flags[i].member) = true;
		return true;
	}
	return false;
}

/** Options with a value. */
static const struct valued {
	const char *word;
	enum policy_option option;
	size_t member; /* of struct policy_words: the text that it sets, once; 0: see take_value() */
} valued[] = {
	{"--policy", POLICY_OPTION_POLICY, offsetof(struct policy_words, policy)},
	{"--profile", POLICY_OPTION_PROFILE, offsetof(struct policy_words, profile)},
	{"--observed", POLICY_OPTION_OBSERVED, offsetof(struct policy_words, observed)},
	{"--key", POLICY_OPTION_KEY, offsetof(struct policy_words, key)},
	{"--from", POLICY_OPTION_IMPORT, offsetof(struct policy_words, from)},
	{"--output", POLICY_OPTION_IMPORT, offsetof(struct policy_words, output)},
	{"-o", POLICY_OPTION_IMPORT, offsetof(struct policy_words, output)},
	{"--allow", POLICY_OPTION_ALLOW, 0},
	{"--trust", POLICY_OPTION_TRUST, 0},
	{"--at", POLICY_OPTION_AT, 0},
};

/** The option of this tool that takes a value, or NULL. */
static const struct valued *valued_option(const struct policy_tool *tool, const char *word)
{
	for (size_t i = 0; i < array_size(valued); i++) {
		if (strcmp(word, valued[i].word) == 0 && (tool->options & valued[i].option) != 0)
			return &valued[i];
	}
	return NULL;
}

/** @return 0, or POLICY_EXIT_UNREADABLE after saying why. */
static int take_value(const struct valued *o, const char *value, struct policy_words *to)
{
	const char **text = (const char **)((char *)to + o->member);
	if (o->member != 0 && *text != NULL)
		return policy_usage("an option stands twice: ", o->word);
	if (o->member != 0)
		*text = value;
	if (o->option == POLICY_OPTION_ALLOW)
		to->allow[to->allow_count++] = value;
	if (o->option == POLICY_OPTION_TRUST)
		to->trust[to->trust_count++] = value;
	if (o->option == POLICY_OPTION_AT && value_date(slice_of(value), &to->at_ms) != NULL)
		return policy_usage("--at takes YYYY-MM-DD, not ", value);
	if (o->option == POLICY_OPTION_AT)
		to->at_ms--; /* the last moment of that day */
	return 0;
}

/** The standard input's name is a word. */
static bool is_option(const char *word)
{
	return word[0] == '-' && word[1] != '\0';
}

static int wrong_words(const struct policy_tool *tool)
{
	const char *end = strchr(tool->usage, '\n');
	(void)fprintf(stderr, "eclusa policy: wrong number of words: eclusa policy %s %.*s\n",
		tool->name, (int)(end - tool->usage), tool->usage);
	return POLICY_EXIT_UNREADABLE;
}

/** Words that are no options move to the front of argv. @return 0 or POLICY_EXIT_UNREADABLE. */
static int take_words(
	const struct policy_tool *tool, int argc, char **argv, struct policy_words *to)
{
	bool options = true;
	to->words = argv;
	for (int i = 1; i < argc; i++) {
		const struct valued *option = options ? valued_option(tool, argv[i]) : NULL;
		if (options && strcmp(argv[i], "--") == 0)
			options = false;
		else if (option != NULL && i + 1 == argc)
			return policy_usage("a value is missing after ", argv[i]);
		else if (option != NULL && take_value(option, argv[++i], to) != 0)
			return POLICY_EXIT_UNREADABLE;
		else if (option == NULL && options && is_option(argv[i]) &&
			!take_flag(tool, argv[i], to))
			return policy_usage("unknown option ", argv[i]);
		else if (option == NULL && !(options && is_option(argv[i])))
			argv[to->word_count++] = argv[i]; /* word_count < i */
	}
	if (to->word_count < tool->words_min || to->word_count > tool->words_max)
		return wrong_words(tool);
	return 0;
}

static int run_tool(const struct policy_tool *tool, int argc, char **argv)
{
	auto_free const char **lists = calloc(2 * (size_t)argc, sizeof(*lists));
	struct policy_words words = {
		.allow = lists, .trust = lists + argc, .at_ms = clock_wall_ms()};
	if (lists == NULL)
		return policy_usage("out of memory", "");
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return print_help();
	}
	int status = take_words(tool, argc, argv, &words);
	return status != 0 ? status : tool->run(&words);
}

static int unknown_tool(const char *word)
{
	const char *names[array_size(tools) + 1] = {NULL};
	char shown[128];
	for (size_t i = 0; i < array_size(tools); i++)
		names[i] = tools[i].name;
	const char *nearest = report_nearest(slice_of(word), names);
	if (nearest == NULL)
		return policy_usage("unknown subcommand ", word);
	(void)fprintf(stderr, "eclusa policy: unknown subcommand %s; did you mean %s?\n",
		slice_escape(slice_of(word), shown, sizeof(shown)), nearest);
	return POLICY_EXIT_UNREADABLE;
}

int command_policy(int argc, char **argv)
{
	if (argc < 2)
		return policy_usage("a subcommand is missing", "");
	for (size_t i = 0; i < array_size(tools); i++) {
		if (strcmp(argv[1], tools[i].name) == 0)
			return run_tool(&tools[i], argc - 1, argv + 1);
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_help();
	return unknown_tool(argv[1]);
}
