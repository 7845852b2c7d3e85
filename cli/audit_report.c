/* `eclusa audit report`: what report.h makes of a log, as one HTML file. */
#include "cli/audit.h"

#include "audit/segment.h"
#include "cli/audit_time.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "report/report.h"

#include <limits.h>
#include <stdio.h>

static int complain(const char *text)
{
	char shown[FAILURE_TEXT_BYTES];
	(void)fprintf(
		stderr, "eclusa audit: %s\n", slice_escape(slice_of(text), shown, sizeof(shown)));
	return AUDIT_EXIT_UNREADABLE;
}

/** @return 0 or AUDIT_EXIT_UNREADABLE after saying why. */
static int take_period(const struct audit_words *words, struct report_options *to)
{
	to->now_ms = clock_wall_ms();
	to->to_ms = UINT64_MAX;
	if (words->since != NULL &&
		!audit_time_parse(slice_of(words->since), to->now_ms, &to->from_ms))
		return audit_usage(
			"--from and --since take " AUDIT_TIME_FORMS ", not ", words->since);
	if (words->until != NULL &&
		!audit_time_parse(slice_of(words->until), to->now_ms, &to->to_ms))
		return audit_usage(
			"--to and --until take " AUDIT_TIME_FORMS ", not ", words->until);
	if (to->from_ms >= to->to_ms)
		return audit_usage("--from is not before --to: ", words->until);
	return 0;
}

/** To the file, whole or not at all, or to standard output. */
static int put(const char *path, struct buf *page)
{
	if (path == NULL || strcmp(path, "-") == 0)
		return audit_finish(page, AUDIT_EXIT_SOUND);
	char shown[PATH_MAX];
	int r = file_replace(path, buf_slice(page), 0600);
	buf_fini(page);
	if (r < 0)
		(void)fprintf(stderr, "eclusa audit: can't write %s: %s\n",
			slice_escape(slice_of(path), shown, sizeof(shown)), strerror(-r));
	return r < 0 ? AUDIT_EXIT_UNREADABLE : AUDIT_EXIT_SOUND;
}

static int write_report(struct report *report, const struct audit_words *words, const char *source)
{
	struct audit_read read = {.visit = report_take, .arg = report};
	struct failure why = {0};
	struct buf page = {.limit = REPORT_BYTES_MAX};
	if (audit_read_path(&read, source, &why) < 0)
		return complain(why.code != 0 ? why.text : "can't read the log");
	report_skipped(report, read.skipped);
	if (report_write(report, &page) < 0) {
		buf_fini(&page);
		return complain("the report is too large for memory");
	}
	return put(words->output, &page);
}

int audit_tool_report(const struct audit_words *words)
{
	char path[PATH_MAX];
	struct failure why = {0};
	struct report_options options = {.source = words->folder};
	if (take_period(words, &options) != 0)
		return AUDIT_EXIT_UNREADABLE;
	if (words->output == NULL && isatty(STDOUT_FILENO))
		return audit_usage("where to? -o FILE", "");
	if (options.source == NULL &&
		audit_folder_default(geteuid() == 0, path, sizeof(path), &why) < 0)
		return complain(why.text);
	if (options.source == NULL)
		options.source = path;
	struct report *report = report_new(&options);
	if (report == NULL)
		return complain("out of memory");
	int status = write_report(report, words, options.source);
	report_free(report);
	return status;
}
