/* `eclusa audit export`: the events as other systems read them; see audit/format.h. */
#include "cli/audit_output.h"
#include "cli/audit_query.h"

#include "audit/format.h"
#include "common/cleanup.h"

#include <inttypes.h>
#include <stdio.h>

struct exporting {
	enum audit_format format;
	struct audit_output output;
};

static int give_bare(struct exporting *e, const struct audit_line *line)
{
	struct buf bare = {0};
	int r = audit_format_line(e->format, line, &bare);
	if (r == 0)
		r = audit_output_raw(&e->output, buf_slice(&bare));
	buf_fini(&bare);
	return r;
}

/** The log's own formats may hold what a terminal acts on; the others never do. */
static int give(void *arg, const struct audit_line *line)
{
	struct exporting *e = arg;
	if (e->format == AUDIT_FORMAT_OCSF)
		return audit_output_raw(&e->output, audit_line_bytes(line));
	if (e->format == AUDIT_FORMAT_OCSF_BARE)
		return give_bare(e, line);
	(void)audit_format_line(e->format, line, &e->output.lines); /* errors show in failed */
	return audit_output_line(&e->output);
}

static int give_head(struct exporting *e)
{
	audit_format_head(e->format, &e->output.lines);
	return buf_len(&e->output.lines) > 0 ? audit_output_line(&e->output) : 0;
}

static int export_all(struct exporting *e, struct audit_query *q, const char *path)
{
	int r = audit_output_open(&e->output, path);
	if (r < 0)
		return r;
	r = give_head(e);
	if (r == 0)
		r = audit_query_run(q);
	return audit_output_close(&e->output, r);
}

int audit_tool_export(const struct audit_words *words)
{
	struct audit_filter filter;
	struct exporting e = {.format = AUDIT_FORMAT_OCSF};
	if (words->format == NULL)
		return audit_usage("export needs --format ocsf|ocsf-bare|ecs|cef|leef|csv", "");
	if (!audit_format_find(slice_of(words->format), &e.format))
		return audit_usage("--format takes ocsf, ocsf-bare, ecs, cef, leef or csv, not ",
			words->format);
	if (audit_filter_read(words, &filter) != 0)
		return AUDIT_EXIT_UNREADABLE;
	struct audit_query q = {.filter = &filter,
		.visit = give,
		.arg = &e,
		.progress = words->output != NULL || !isatty(STDOUT_FILENO)};
	auto_fd folder = audit_open_folder(words);
	if (folder < 0 || audit_query_open(&q, folder) < 0)
		return AUDIT_EXIT_UNREADABLE;
	int r = export_all(&e, &q, words->output);
	audit_query_tell(&q);
	if (r == 0 && isatty(STDERR_FILENO) && words->output != NULL)
		(void)fprintf(stderr, "%" PRIu64 " events\n", q.taken);
	audit_query_fini(&q);
	return r < 0 ? AUDIT_EXIT_UNREADABLE : AUDIT_EXIT_SOUND;
}
