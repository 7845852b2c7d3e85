/* `eclusa policy lint`: every finding of every path, each a policy of its own. */
#include "cli/policy.h"
#include "cli/policy_sarif.h"
#include "cli/recorded.h"

#include "common/cleanup.h"
#include "policy/lint.h"

#include <stdio.h>

/** What a lint run found so far, over all its paths. */
struct lint_run {
	const struct policy_words *words;
	bool unreadable;
	size_t errors;
	size_t warnings;
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
		run->warnings += report->items[i].severity == POLICY_WARNING;
	}
	run->errors += report->errors;
	if (report->count == POLICY_DIAGNOSTICS_MAX)
		(void)fprintf(stderr, "eclusa policy: %s: only the first %d findings are shown\n",
			path, POLICY_DIAGNOSTICS_MAX);
}

/** A request of the log, whatever became of it. What was redacted in its path matches a wildcard at most. */
static int visit_line(void *arg, const struct audit_line *line)
{
	struct recorded r;
	recorded_take(line, &r);
	if (r.kind != RECORDED_REQUEST && r.kind != RECORDED_REDACTED)
		return 0;
	r.question.now_ms = r.time_ms;
	lint_observe(arg, r.profile, &r.question, r.connect);
	return 0;
}

/** @return 0 or negative errno after a line on stderr. */
static int observe(const struct lint_run *run, struct policy *policy)
{
	struct audit_read read = {.visit = visit_line, .arg = policy};
	struct failure why = {0};
	if (run->words->observed == NULL)
		return 0;
	int r = audit_read_path(&read, run->words->observed, &why);
	if (r < 0)
		(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
	return r == -EINVAL ? -EIO : r; /* -EINVAL says that the report has errors */
}

static void lint_path(struct lint_run *run, const char *path)
{
	struct policy *policy = NULL;
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	int r = report == NULL ? -ENOMEM : policy_load(run->words, path, &policy, report);
	struct lint_options options = {
		run->words->at_ms, run->words->strict, run->words->observed != NULL};
	if (r == 0)
		r = observe(run, policy);
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
		json_uint(&run.json, "warnings", run.warnings);
		json_object_end(&run.json);
		(void)buf_append(&run.out, SLICE("\n"));
	}
	bool findings = run.errors > 0 || run.warnings > 0;
	int status = run.unreadable ? POLICY_EXIT_UNREADABLE
		: findings          ? POLICY_EXIT_FINDINGS
				    : POLICY_EXIT_CLEAN;
	return policy_finish(&run.out, status);
}
