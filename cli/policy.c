/* `eclusa policy`: tools for the people who write allowlists. Reads files, prints findings, changes nothing. */
#include "cli/command.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/json.h"
#include "policy/policy.h"
#include "policy/source.h"

#include <stdio.h>

enum policy_exit { POLICY_EXIT_CLEAN = 0, POLICY_EXIT_FINDINGS = 1, POLICY_EXIT_UNREADABLE = 2 };

static const char help[] =
	"usage: eclusa policy lint PATH... [--json]\n"
	"\n"
	"Check allowlists: PATH is a file, or a folder whose *.allow files are taken together.\n"
	"Parses it, resolves groups and profiles, and judges its expect lines. Nothing is changed.\n"
	"\n"
	"  --json   one JSON object instead of lines\n"
	"  --help   this text\n"
	"\n"
	"Findings are printed as file:line:column: severity: code: text.\n"
	"Exit status: 0 clean, 1 findings, 2 unreadable or wrong usage.\n";

static int usage_error(const char *what, const char *arg)
{
	char shown[128];
	(void)fprintf(stderr, "eclusa policy: %s%s; see eclusa policy --help\n", what,
		slice_escape(slice_of(arg), shown, sizeof(shown)));
	return POLICY_EXIT_UNREADABLE;
}

static int print_help(void)
{
	return fputs(help, stdout) < 0 || fflush(stdout) != 0 ? POLICY_EXIT_UNREADABLE
							      : POLICY_EXIT_CLEAN;
}

/** What a lint run found so far, over all its paths. */
struct lint_run {
	bool as_json;
	bool unreadable;
	size_t findings;
	size_t errors;
	struct buf out;
	struct json json;
};

static void add_finding(struct lint_run *run, const struct policy_diagnostic *d)
{
	char line[1024];
	if (!run->as_json) {
		(void)buf_printf(
			&run->out, "%s\n", policy_diagnostic_format(d, line, sizeof(line)));
		return;
	}
	json_object(&run->json, NULL);
	json_text(&run->json, "file", d->file);
	json_uint(&run->json, "line", d->line);
	json_uint(&run->json, "column", d->column);
	json_text(&run->json, "severity", d->error ? "error" : "warning");
	json_text(&run->json, "code", d->code);
	json_text(&run->json, "text", d->text);
	json_object_end(&run->json);
}

static void add_report(struct lint_run *run, const char *path, const struct policy_report *report)
{
	for (size_t i = 0; i < report->count; i++)
		add_finding(run, &report->items[i]);
	run->findings += report->count;
	run->errors += report->errors;
	if (report->count == POLICY_DIAGNOSTICS_MAX)
		(void)fprintf(stderr, "eclusa policy: %s: only the first %d findings are shown\n",
			path, POLICY_DIAGNOSTICS_MAX);
}

/** Each path is a policy of its own. */
static void lint_path(struct lint_run *run, const char *path)
{
	struct buf bundle;
	struct failure why = {0};
	struct policy *policy = NULL;
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	buf_init(&bundle, POLICY_BUNDLE_BYTES_MAX);
	int r = report == NULL ? failure_errno(&why, -ENOMEM, "%s", path)
			       : policy_source_read(path, &bundle, &why);
	if (r == 0) {
		r = policy_compile(buf_slice(&bundle), &policy, report);
		if (r < 0 && r != -EINVAL)
			(void)failure_errno(&why, r, "%s", path);
	}
	policy_free(policy);
	buf_fini(&bundle);
	if (why.code != 0) {
		(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
		run->unreadable = true;
		return;
	}
	add_report(run, path, report);
}

static int lint(char *const *paths, size_t count, bool as_json)
{
	struct lint_run run = {.as_json = as_json, .out = {.limit = 0}};
	if (as_json) {
		json_open(&run.json, &run.out);
		json_object(&run.json, NULL);
		json_array(&run.json, "findings");
	}
	for (size_t i = 0; i < count; i++)
		lint_path(&run, paths[i]);
	if (as_json) {
		json_array_end(&run.json);
		json_uint(&run.json, "errors", run.errors);
		json_object_end(&run.json);
		(void)buf_append(&run.out, SLICE("\n"));
	}
	int r = run.out.failed ? -ENOMEM : file_write_all(STDOUT_FILENO, buf_slice(&run.out));
	buf_fini(&run.out);
	if (r < 0)
		(void)fprintf(
			stderr, "eclusa policy: can't write the findings: %s\n", strerror(-r));
	if (r < 0 || run.unreadable)
		return POLICY_EXIT_UNREADABLE;
	return run.findings > 0 ? POLICY_EXIT_FINDINGS : POLICY_EXIT_CLEAN;
}

static int command_lint(int argc, char **argv)
{
	bool as_json = false;
	bool options = true;
	size_t count = 0;
	for (int i = 1; i < argc; i++) {
		if (options && strcmp(argv[i], "--") == 0)
			options = false;
		else if (options && strcmp(argv[i], "--json") == 0)
			as_json = true;
		else if (options && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0))
			return print_help();
		else if (options && argv[i][0] == '-')
			return usage_error("unknown option ", argv[i]);
		else
			argv[count++] = argv[i]; /* paths move to the front; count <= i */
	}
	return count == 0 ? usage_error("lint needs a PATH", "") : lint(argv, count, as_json);
}

int command_policy(int argc, char **argv)
{
	if (argc < 2)
		return usage_error("a subcommand is missing", "");
	if (strcmp(argv[1], "lint") == 0)
		return command_lint(argc - 1, argv + 1);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return print_help();
	return usage_error("unknown subcommand ", argv[1]);
}
