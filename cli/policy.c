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
	"usage: eclusa policy lint PATH [--json]\n"
	"\n"
	"Check an allowlist: PATH is a file, or a folder whose *.allow files are taken together.\n"
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

static void add_text(const struct policy_report *report, struct buf *to)
{
	for (size_t i = 0; i < report->count; i++) {
		char line[1024];
		(void)buf_printf(to, "%s\n",
			policy_diagnostic_format(&report->items[i], line, sizeof(line)));
	}
}

static void add_json(const struct policy_report *report, struct buf *to)
{
	struct json j;
	json_open(&j, to);
	json_object(&j, NULL);
	json_array(&j, "findings");
	for (size_t i = 0; i < report->count; i++) {
		const struct policy_diagnostic *d = &report->items[i];
		json_object(&j, NULL);
		json_text(&j, "file", d->file);
		json_uint(&j, "line", d->line);
		json_uint(&j, "column", d->column);
		json_text(&j, "severity", d->error ? "error" : "warning");
		json_text(&j, "code", d->code);
		json_text(&j, "text", d->text);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_uint(&j, "errors", report->errors);
	json_object_end(&j);
	(void)buf_append(to, SLICE("\n"));
}

static int print_report(const struct policy_report *report, bool as_json)
{
	struct buf out = {.limit = 0};
	if (as_json)
		add_json(report, &out);
	else
		add_text(report, &out);
	int r = out.failed ? -ENOMEM : file_write_all(STDOUT_FILENO, buf_slice(&out));
	buf_fini(&out);
	if (r < 0) {
		(void)fprintf(
			stderr, "eclusa policy: can't write the findings: %s\n", strerror(-r));
		return POLICY_EXIT_UNREADABLE;
	}
	if (report->errors > report->count)
		(void)fprintf(stderr,
			"eclusa policy: %zu errors, only the first %zu findings are shown\n",
			report->errors, report->count);
	return report->count > 0 ? POLICY_EXIT_FINDINGS : POLICY_EXIT_CLEAN;
}

static int lint(const char *path, bool as_json)
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
		return POLICY_EXIT_UNREADABLE;
	}
	return print_report(report, as_json);
}

static int command_lint(int argc, char **argv)
{
	const char *path = NULL;
	bool as_json = false;
	bool options = true;
	for (int i = 1; i < argc; i++) {
		if (options && strcmp(argv[i], "--") == 0)
			options = false;
		else if (options && strcmp(argv[i], "--json") == 0)
			as_json = true;
		else if (options && strcmp(argv[i], "--help") == 0)
			return fputs(help, stdout) < 0 ? POLICY_EXIT_UNREADABLE : POLICY_EXIT_CLEAN;
		else if (options && argv[i][0] == '-')
			return usage_error("unknown option ", argv[i]);
		else if (path != NULL)
			return usage_error("one PATH only, not also ", argv[i]);
		else
			path = argv[i];
	}
	return path == NULL ? usage_error("lint needs a PATH", "") : lint(path, as_json);
}

int command_policy(int argc, char **argv)
{
	if (argc < 2)
		return usage_error("a subcommand is missing", "");
	if (strcmp(argv[1], "lint") == 0)
		return command_lint(argc - 1, argv + 1);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return fputs(help, stdout) < 0 ? POLICY_EXIT_UNREADABLE : POLICY_EXIT_CLEAN;
	return usage_error("unknown subcommand ", argv[1]);
}
