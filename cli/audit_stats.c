/* `eclusa audit stats`: what report.h counts, of the events that fit, as text or JSON. */
#include "cli/audit_filter.h"

#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "report/report.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define ROWS_DEFAULT 10
#define TELL_LINES   4096 /* between two looks at the clock */

struct counting {
	const struct audit_filter *filter;
	struct report *report;
	struct audit_progress progress;
	uint64_t lines, done_bytes, all_bytes;
};

static int count(void *arg, const struct audit_line *line)
{
	struct counting *c = arg;
	c->done_bytes += audit_line_bytes(line).len + 1;
	if (++c->lines % TELL_LINES == 0)
		audit_progress_show(&c->progress, c->done_bytes, c->all_bytes);
	return audit_filter_takes(c->filter, line) ? report_take(c->report, line) : 0;
}

/** What there is to read. A file that can't be looked at is the reader's to complain about. */
static uint64_t folder_bytes(const char *path)
{
	struct dirent *entry;
	struct stat st;
	uint64_t bytes = 0;
	DIR *dir = opendir(path);
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_size;
	}
	if (dir != NULL)
		(void)closedir(dir);
	return bytes;
}

static int complain(const char *text)
{
	char shown[FAILURE_TEXT_BYTES];
	(void)fprintf(
		stderr, "eclusa audit: %s\n", slice_escape(slice_of(text), shown, sizeof(shown)));
	return AUDIT_EXIT_UNREADABLE;
}

static int count_all(struct counting *c, const char *path)
{
	struct audit_read read = {.visit = count, .arg = c};
	struct failure why = {0};
	c->progress.on = isatty(STDERR_FILENO);
	c->all_bytes = c->progress.on ? folder_bytes(path) : 0;
	int r = audit_read_path(&read, path, &why);
	audit_progress_end(&c->progress);
	report_skipped(c->report, read.skipped);
	return r < 0 ? complain(why.code != 0 ? why.text : "can't read the log") : 0;
}

static int run(struct counting *c, const char *path, uint64_t rows, bool json)
{
	struct buf out = {.limit = REPORT_BYTES_MAX};
	int status = count_all(c, path);
	if (status != 0)
		return status;
	(void)report_stats(c->report, rows, json, &out); /* errors show in out.failed */
	return audit_finish(&out, AUDIT_EXIT_SOUND);
}

int audit_tool_stats(const struct audit_words *words)
{
	char path[PATH_MAX];
	uint64_t rows = ROWS_DEFAULT;
	struct failure why = {0};
	struct audit_filter filter;
	if (audit_filter_read(words, &filter) != 0 ||
		(words->count != NULL &&
			audit_number(words->count, "-n takes a number up to 200, not ",
				REPORT_ROWS_MAX, &rows) != 0))
		return AUDIT_EXIT_UNREADABLE;
	if (words->folder == NULL &&
		audit_folder_default(geteuid() == 0, path, sizeof(path), &why) < 0)
		return complain(why.text);
	const struct report_options options = {.to_ms = UINT64_MAX, .now_ms = clock_wall_ms()};
	struct counting c = {.filter = &filter, .report = report_new(&options)};
	if (c.report == NULL)
		return complain("out of memory");
	int status = run(&c, words->folder != NULL ? words->folder : path, rows, words->json);
	report_free(c.report);
	return status;
}
