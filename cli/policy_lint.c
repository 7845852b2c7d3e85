/* `eclusa policy lint`: every finding of every path, each a policy of its own. */
#include "cli/policy.h"
#include "cli/policy_sarif.h"

#include "common/cleanup.h"
#include "policy/lint.h"

#include <stdio.h>

/** What a lint run found so far, over all its paths. */
struct lint_run {
	const struct policy_words *words;
	bool unreadable;
	size_t findings;
	size_t errors;
	struct buf out;
	struct json json;
	struct json *as_json; /* &json, or NULL for lines */
};

static void add_report(struct lint_run *run, const char *path, const struct policy_report *report)
{
	for (size_t i = 0; i < report->count; i++) {
		if (run->words->sarif)
			sarif_finding(&run->json, &report->items[i]);
		else
			policy_print_finding(&report->items[i], &run->out, run->as_json);
	}
	run->findings += report->count;
	run->errors += report->errors;
	if (report->count == POLICY_DIAGNOSTICS_MAX)
		(void)fprintf(stderr, "eclusa policy: %s: only the first %d findings are shown\n",
			path, POLICY_DIAGNOSTICS_MAX);
}

static void lint_path(struct lint_run *run, const char *path)
{
	struct policy *policy = NULL;
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	int r = report == NULL ? -ENOMEM : policy_load(path, &policy, report);
	struct lint_options options = {run->words->at_ms, run->words->strict};
	if (r == 0)
		lint_policy(policy, &options, report);
	policy_free(policy);
	if (r < 0 && r != -EINVAL)
		run->unreadable = true;
	else
		add_report(run, path, report);
}

int policy_lint(const struct policy_words *words)
{
	struct lint_run run = {.words = words, .out = {.limit = 0}};
	if (words->json && words->sarif)
		return policy_usage("--json and --sarif exclude one another", "");
	if (words->sarif) {
		sarif_open(&run.json, &run.out);
	} else if (words->json) {
		run.as_json = &run.json;
		json_open(&run.json, &run.out);
		json_object(&run.json, NULL);
		json_array(&run.json, "findings");
	}
	for (size_t i = 0; i < words->word_count; i++)
		lint_path(&run, words->words[i]);
	if (words->sarif) {
		sarif_close(&run.json);
	} else if (words->json) {
		json_array_end(&run.json);
		json_uint(&run.json, "errors", run.errors);
		json_object_end(&run.json);
		(void)buf_append(&run.out, SLICE("\n"));
	}
	int status = run.unreadable ? POLICY_EXIT_UNREADABLE
		: run.findings > 0  ? POLICY_EXIT_FINDINGS
				    : POLICY_EXIT_CLEAN;
	return policy_finish(&run.out, status);
}
