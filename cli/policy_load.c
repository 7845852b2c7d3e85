/* Policies and findings for the tools of `eclusa policy`. See policy.h. */
#include "cli/policy.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "policy/report.h"
#include "policy/trust.h"

#include <stdio.h>

void policy_print_finding(const struct policy_diagnostic *d, struct buf *out, struct json *json)
{
	char line[1024];
	if (json == NULL) {
		(void)buf_printf(out, "%s\n", policy_diagnostic_format(d, line, sizeof(line)));
		return;
	}
	json_object(json, NULL);
	json_text(json, "file", d->file);
	json_uint(json, "line", d->line);
	json_uint(json, "column", d->column);
	json_text(json, "severity", policy_severity_name(d->severity));
	json_text(json, "code", d->code);
	json_text(json, "text", d->text);
	json_object_end(json);
}

/** A policy, or the rules of --allow when @path is NULL. Here only --trust asks for a signature: drafts have none yet. */
static int read_bundle(
	const struct policy_words *words, const char *path, struct buf *to, struct failure *why)
{
	struct trust trust;
	int r = trust_open(NULL, words->trust, words->trust_count, &trust, why);
	if (r < 0)
		return r;
	return path != NULL ? trust_read_policy(&trust, path, to, NULL, why)
			    : trust_read_rules(&trust, words->allow, words->allow_count, to, why);
}

int policy_load(const struct policy_words *words, const char *path, struct policy **ret,
	struct policy_report *report)
{
	struct buf bundle;
	struct failure why = {0};
	buf_init(&bundle, POLICY_BUNDLE_BYTES_MAX);
	int r = read_bundle(words, path, &bundle, &why);
	if (r == 0) {
		r = policy_compile(buf_slice(&bundle), ret, report);
		if (r < 0 && r != -EINVAL)
			(void)failure_errno(&why, r, "%s", path == NULL ? "--allow" : path);
	}
	buf_fini(&bundle);
	if (why.code == 0)
		return r;
	if (why.code == -EKEYREJECTED && path != NULL) {
		report_error(report, (struct place){path, 1, 1}, "untrusted", "%s", why.text);
		return -EINVAL;
	}
	(void)fprintf(stderr, "eclusa policy: %s\n", why.text);
	return why.code == -EINVAL ? -EIO : why.code; /* -EINVAL says that the report has errors */
}

struct policy *policy_load_good(const struct policy_words *words, const char *path)
{
	struct policy *policy = NULL;
	char line[1024];
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	if (report == NULL)
		return NULL;
	if (path == NULL)
		path = words->policy;
	if (policy_load(words, path, &policy, report) == 0)
		return policy;
	for (size_t i = 0; i < report->count; i++) {
		if (report->items[i].severity == POLICY_ERROR)
			(void)fprintf(stderr, "%s\n",
				policy_diagnostic_format(&report->items[i], line, sizeof(line)));
	}
	return NULL;
}

int policy_finish(struct buf *out, int status)
{
	int r = out->failed ? -ENOMEM : file_write_all(STDOUT_FILENO, buf_slice(out));
	buf_fini(out);
	if (r == 0)
		return status;
	(void)fprintf(stderr, "eclusa policy: can't write: %s\n", strerror(-r));
	return POLICY_EXIT_UNREADABLE;
}
