/* `eclusa policy`: the table of its tools, and their options. */
#include "cli/policy.h"
#include "cli/command.h"
#include "cli/tool.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "policy/value.h"

#include <stddef.h>
#include <stdio.h>

struct policy_tool {
	struct tool tool; /* options: bits of enum policy_option */
	policy_tool_run *run;
};

static const struct policy_tool tools[] = {
	{{"lint",
		 "[--strict] [--at DATE] [--observed AUDIT] [--trust KEY] [--sarif] PATH...\n"
		 "      check policy text: syntax, groups and profiles, expect lines, rules that never "
		 "decide,\n"
		 "      contradict one another or end soon; --strict: a rule that has ended is an error;\n"
		 "      --observed: name rules that neither an expect line nor this audit log hits",
		 POLICY_OPTION_STRICT | POLICY_OPTION_SARIF | POLICY_OPTION_AT |
			 POLICY_OPTION_OBSERVED | POLICY_OPTION_TRUST,
		 1, SIZE_MAX},
		policy_lint},
	{{"test", "[--trust KEY] PATH...\n      judge the expect lines alone, and count them",
		 POLICY_OPTION_TRUST, 1, SIZE_MAX},
		policy_test},
	{{"explain",
		 "[--policy PATH [--trust KEY] | --allow RULE...] [--at DATE] [PROFILE] METHOD URL\n"
		 "      verdict and rule for one request, near misses, the smallest edit that allows it",
		 POLICY_OPTION_POLICY | POLICY_OPTION_ALLOW | POLICY_OPTION_AT |
			 POLICY_OPTION_TRUST,
		 2, 3},
		policy_explain_request},
	{{"show",
		 "[--profile NAME] [--trust KEY] PATH\n      effective rules, in one spelling, with their places",
		 POLICY_OPTION_PROFILE | POLICY_OPTION_TRUST, 1, 1},
		policy_show},
	{{"diff",
		 "[--at DATE] OLD NEW\n      decisions that change; status 1 when anything becomes wider",
		 POLICY_OPTION_AT, 2, 2},
		policy_diff_files},
	{{"replay",
		 "[--profile NAME] [--at DATE] [--trust KEY] AUDIT... NEW\n"
		 "      judge a recorded log again by the policy NEW: verdicts that flip; status 1 when any does",
		 POLICY_OPTION_PROFILE | POLICY_OPTION_AT | POLICY_OPTION_TRUST, 2, SIZE_MAX},
		policy_replay},
	{{"suggest",
		 "[--profile NAME] [--fold] [--allow-write] [--allow-private] AUDIT...\n"
		 "      from what observe mode let pass, the narrowest rules that let it pass when enforced",
		 POLICY_OPTION_PROFILE | POLICY_OPTION_SUGGEST, 1, SIZE_MAX},
		policy_suggest_rules},
	{{"fmt", "[--check | --write] PATH...\n      one layout: print it, say which files differ, or write it back",
		 POLICY_OPTION_CHECK | POLICY_OPTION_WRITE, 1, SIZE_MAX},
		policy_fmt},
	{{"import",
		 "--from squid|smokescreen|hosts|srt [--profile NAME] [--output FILE] [FILE]...\n"
		 "    eclusa policy import --from npm|pip|apt [--online] [--profile NAME] [--output FILE]\n"
		 "      another tool's list, or what your npm, pip or apt is set to, as policy text",
		 POLICY_OPTION_IMPORT | POLICY_OPTION_PROFILE, 0, SIZE_MAX},
		policy_import},
	{{"sign",
		 "--key KEY PATH\n      write a manifest of what loads, and its signature, beside the policy",
		 POLICY_OPTION_KEY, 1, 1},
		policy_sign},
	{{"verify",
		 "[--trust KEY] PATH...\n      was this signed by a key that is trusted, here or by the configuration?",
		 POLICY_OPTION_TRUST, 1, SIZE_MAX},
		policy_verify},
	{{"reload",
		 "STATE-DIR\n      have the eclusa-proxy that keeps its state there load its policy again, and "
		 "say what changed",
		 0, 1, 1},
		policy_reload},
};

/** Where a line's values go in struct policy_words. */
static const struct tool_option options[] = {
	{"--json", TOOL_EVERY, TOOL_FLAG, offsetof(struct policy_words, json), 0},
	{"--check", POLICY_OPTION_CHECK, TOOL_FLAG, offsetof(struct policy_words, check), 0},
	{"--write", POLICY_OPTION_WRITE, TOOL_FLAG, offsetof(struct policy_words, write), 0},
	{"--strict", POLICY_OPTION_STRICT, TOOL_FLAG, offsetof(struct policy_words, strict), 0},
	{"--sarif", POLICY_OPTION_SARIF, TOOL_FLAG, offsetof(struct policy_words, sarif), 0},
	{"--fold", POLICY_OPTION_SUGGEST, TOOL_FLAG, offsetof(struct policy_words, fold), 0},
	{"--allow-write", POLICY_OPTION_SUGGEST, TOOL_FLAG,
		offsetof(struct policy_words, allow_write), 0},
	{"--allow-private", POLICY_OPTION_SUGGEST, TOOL_FLAG,
		offsetof(struct policy_words, allow_private), 0},
	{"--online", POLICY_OPTION_IMPORT, TOOL_FLAG, offsetof(struct policy_words, online), 0},
	{"--policy", POLICY_OPTION_POLICY, TOOL_TEXT, offsetof(struct policy_words, policy), 0},
	{"--profile", POLICY_OPTION_PROFILE, TOOL_TEXT, offsetof(struct policy_words, profile), 0},
	{"--observed", POLICY_OPTION_OBSERVED, TOOL_TEXT, offsetof(struct policy_words, observed),
		0},
	{"--key", POLICY_OPTION_KEY, TOOL_TEXT, offsetof(struct policy_words, key), 0},
	{"--from", POLICY_OPTION_IMPORT, TOOL_TEXT, offsetof(struct policy_words, from), 0},
	{"--output", POLICY_OPTION_IMPORT, TOOL_TEXT, offsetof(struct policy_words, output), 0},
	{"-o", POLICY_OPTION_IMPORT, TOOL_TEXT, offsetof(struct policy_words, output), 0},
	{"--at", POLICY_OPTION_AT, TOOL_TEXT, offsetof(struct policy_words, at), 0},
	{"--allow", POLICY_OPTION_ALLOW, TOOL_LIST, offsetof(struct policy_words, allow),
		offsetof(struct policy_words, allow_count)},
	{"--trust", POLICY_OPTION_TRUST, TOOL_LIST, offsetof(struct policy_words, trust),
		offsetof(struct policy_words, trust_count)},
};

static const struct tool_family family = {
	.name = "eclusa policy",
	.tools = tools,
	.tool_count = array_size(tools),
	.tool_bytes = sizeof(tools[0]),
	.options = options,
	.option_count = array_size(options),
	.help = "\n"
		"PATH is a file, or a folder whose *.allow files are taken together; AUDIT a file or "
		"folder of the audit log.\n"
		"\n"
		"  --json   one JSON object instead of lines\n"
		"  --help   this text\n"
		"\n"
		"Findings are printed as file:line:column: severity: code: text.\n"
		"Exit status: 0 clean or allowed, 1 findings or denied, 2 unreadable or wrong "
		"usage.\n",
};

int policy_usage(const char *what, const char *arg)
{
	return tool_usage(&family, what, arg);
}

/** The last moment of --at's day, or now. @return 0 or POLICY_EXIT_UNREADABLE after saying why. */
static int take_moment(struct policy_words *words)
{
	words->at_ms = clock_wall_ms();
	if (words->at == NULL)
		return 0;
	if (value_date(slice_of(words->at), &words->at_ms) != NULL)
		return policy_usage("--at takes YYYY-MM-DD, not ", words->at);
	words->at_ms--;
	return 0;
}

int command_policy(int argc, char **argv)
{
	auto_free const char **lists = calloc(2 * (size_t)argc + 1, sizeof(*lists));
	struct policy_words words = {.allow = lists, .trust = lists + argc};
	struct tool_line line = {.argc = argc, .argv = argv, .to = &words};
	if (lists == NULL)
		return policy_usage("out of memory", "");
	int status = tool_take(&family, &line);
	if (line.tool == NULL)
		return status;
	words.words = line.words;
	words.word_count = line.word_count;
	status = take_moment(&words);
	return status != 0 ? status : ((const struct policy_tool *)line.tool)->run(&words);
}
