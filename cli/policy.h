/* What the tools of `eclusa policy` share: options, loading, findings, exit statuses. One file a tool. */
#ifndef ECLUSA_CLI_POLICY_H
#define ECLUSA_CLI_POLICY_H

#include "common/json.h"
#include "policy/policy.h"

enum policy_exit {
	POLICY_EXIT_CLEAN = 0,
	POLICY_EXIT_FINDINGS = 1,
	POLICY_EXIT_UNREADABLE = 2, /* wrong usage, too */
};

/** Bits: which options a tool takes, besides --json and --help. */
enum policy_option {
	POLICY_OPTION_POLICY = 1,     /* --policy PATH */
	POLICY_OPTION_ALLOW = 2,      /* --allow RULE, again and again */
	POLICY_OPTION_PROFILE = 4,    /* --profile NAME */
	POLICY_OPTION_AT = 8,         /* --at DATE */
	POLICY_OPTION_CHECK = 16,     /* --check */
	POLICY_OPTION_WRITE = 32,     /* --write */
	POLICY_OPTION_STRICT = 64,    /* --strict */
	POLICY_OPTION_SARIF = 128,    /* --sarif */
	POLICY_OPTION_OBSERVED = 256, /* --observed PATH */
	POLICY_OPTION_TRUST = 512,    /* --trust KEY, again and again */
	POLICY_OPTION_KEY = 1024,     /* --key KEY */
	POLICY_OPTION_SUGGEST = 2048, /* --fold, --allow-write, --allow-private */
	POLICY_OPTION_IMPORT = 4096,  /* --from, --output, --online */
};

/** A command line taken apart. Words point into argv. */
struct policy_words {
	bool json;
	bool check;
	bool write;
	bool strict;
	bool sarif;
	bool fold;
	bool allow_write;
	bool allow_private;
	bool online;
	const char *policy; /* NULL when not given; likewise the texts below */
	const char *profile;
	const char *observed;
	const char *key;
	const char *from;
	const char *output;
	const char *at;
	uint64_t at_ms;     /* the moment that is asked about: the end of --at's day, or now */
	const char **allow; /* into argv */
	size_t allow_count;
	const char **trust; /* likewise */
	size_t trust_count;
	char **words; /* those that are no options */
	size_t word_count;
};

/** @return exit status. */
typedef int policy_tool_run(const struct policy_words *words);

policy_tool_run policy_lint;
policy_tool_run policy_test;
policy_tool_run policy_explain_request;
policy_tool_run policy_show;
policy_tool_run policy_diff_files;
policy_tool_run policy_fmt;
policy_tool_run policy_replay;
policy_tool_run policy_suggest_rules;
policy_tool_run policy_import;
policy_tool_run policy_sign;
policy_tool_run policy_verify;
policy_tool_run policy_reload;

/** 200,000 effective rules, and their places. */
#define POLICY_OUTPUT_BYTES_MAX ((size_t)256 << 20)

/** One line on stderr, with @arg escaped. @return POLICY_EXIT_UNREADABLE */
int policy_usage(const char *what, const char *arg);

/** A finding as a line, or as an object of the array that @json has open (NULL: a line to @out). */
void policy_print_finding(const struct policy_diagnostic *d, struct buf *out, struct json *json);

/**
 * Read @path, ask for a signature where there is --trust, and compile it. @report (may not be NULL) gets the
 * findings. @return 0; -EINVAL with errors in the report; another negative errno after a line on stderr.
 */
int policy_load(const struct policy_words *words, const char *path, struct policy **ret,
	struct policy_report *report);
/**
 * As policy_load(), for a tool that can only work on a good policy: from --policy or --allow when @path is
 * NULL. Findings go to stderr. @return the policy or NULL.
 */
struct policy *policy_load_good(const struct policy_words *words, const char *path);

/** Write what a tool has to say, and free it. @return @status, or POLICY_EXIT_UNREADABLE if that fails */
int policy_finish(struct buf *out, int status);

#endif
