/* `eclusa policy test`: the expect lines alone. What else keeps a policy from loading is shown, too: its lines can't be judged. */
#include "cli/policy.h"

#include "common/cleanup.h"

struct test_run {
	const struct policy_words *words;
	bool unreadable;
	bool broken; /* some path does not load for other reasons */
	size_t expects;
	size_t failed;
	struct buf out;
	struct json json;
	struct json *as_json; /* &json, or NULL for lines */
};

static void add_report(struct test_run *run, const struct policy_report *report)
{
	bool judged = report->errors == report->expects_failed;
	for (size_t i = 0; i < report->count; i++) {
		if (report->items[i].severity == POLICY_ERROR)
			policy_print_finding(&report->items[i], &run->out, run->as_json);
	}
	run->broken = run->broken || !judged;
	run->expects += report->expects;
	run->failed += report->expects_failed;
}

static void test_path(struct test_run *run, const char *path)
{
	struct policy *policy = NULL;
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	int r = report == NULL ? -ENOMEM : policy_load(run->words, path, &policy, report);
	policy_free(policy);
	if (r < 0 && r != -EINVAL)
		run->unreadable = true;
	else
		add_report(run, report);
}

static void end(struct test_run *run)
{
	size_t passed = run->expects - run->failed;
	if (run->as_json == NULL) {
		(void)buf_printf(&run->out, "%zu passed, %zu failed%s\n", passed, run->failed,
			run->broken ? "; errors keep lines from being judged" : "");
		return;
	}
	json_array_end(&run->json);
	json_uint(&run->json, "passed", passed);
	json_uint(&run->json, "failed", run->failed);
	json_bool(&run->json, "judged", !run->broken);
	json_object_end(&run->json);
	(void)buf_append(&run->out, SLICE("\n"));
}

int policy_test(const struct policy_words *words)
{
	struct test_run run = {.words = words, .out = {.limit = 0}};
	if (words->json) {
		run.as_json = &run.json;
		json_open(&run.json, &run.out);
		json_object(&run.json, NULL);
		json_array(&run.json, "findings");
	}
	for (size_t i = 0; i < words->word_count; i++)
		test_path(&run, words->words[i]);
	end(&run);
	int status = run.unreadable            ? POLICY_EXIT_UNREADABLE
		: run.broken || run.failed > 0 ? POLICY_EXIT_FINDINGS
					       : POLICY_EXIT_CLEAN;
	return policy_finish(&run.out, status);
}
