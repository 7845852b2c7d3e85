/* See audit_query.h. */
#include "cli/audit_query.h"

#include "common/cleanup.h"

#include <inttypes.h>
#include <stdio.h>

#define TELL_LINES 4096 /* between two looks at the clock */

static int visit(void *arg, const struct audit_line *line)
{
	struct audit_query *q = arg;
	if (!audit_filter_takes(q->filter, line))
		return 0;
	q->taken++;
	return q->visit(q->arg, line);
}

int audit_query_line(struct audit_query *q, struct slice bytes)
{
	struct audit_read read = {.visit = visit, .arg = q};
	if (!audit_filter_may_take(q->filter, bytes, lines_time_ms(bytes)))
		return 0;
	int r = audit_read_line(&read, bytes);
	q->skipped += read.skipped;
	return r;
}

/** A torn line that is an event all the same, lacking only its newline, is taken. */
static int take(struct audit_query *q, const struct merge_line *line)
{
	uint64_t skipped = q->skipped;
	int r = audit_query_line(q, line->bytes);
	if (!line->whole && q->skipped > skipped) {
		char shown[256];
		q->skipped = skipped;
		q->torn++;
		(void)fprintf(stderr, "eclusa audit: %s: its last line is torn and left out\n",
			slice_escape(slice_of(line->file), shown, sizeof(shown)));
	}
	return r;
}

static int run_all(struct audit_query *q, struct failure *why)
{
	struct merge_line line;
	struct audit_progress progress = {.on = q->progress && isatty(STDERR_FILENO)};
	int r = 1;
	for (uint64_t n = 1; r > 0; n++) {
		r = merge_next(q->merge, &line, why);
		int taken = r <= 0 ? 0 : take(q, &line);
		if (taken < 0)
			r = taken;
		if (n % TELL_LINES == 0)
			audit_progress_show(
				&progress, merge_done_bytes(q->merge), merge_all_bytes(q->merge));
	}
	audit_progress_end(&progress);
	return r == -ECANCELED ? 0 : r;
}

static int complain(int r, const struct failure *why)
{
	if (r < 0 && why->text[0] != '\0')
		(void)fprintf(stderr, "eclusa audit: %s\n", why->text);
	return r;
}

int audit_query_open(struct audit_query *q, int folder_fd)
{
	struct failure why = {0};
	const struct merge_options options = {.backwards = q->backwards,
		.since_ms = q->filter->since_ms,
		.until_ms = q->filter->until_ms};
	return complain(merge_open(folder_fd, &options, &q->merge, &why), &why);
}

int audit_query_run(struct audit_query *q)
{
	struct failure why = {0};
	return complain(run_all(q, &why), &why);
}

void audit_query_tell(const struct audit_query *q)
{
	uint64_t left_out = q->skipped + merge_too_long(q->merge);
	if (left_out > 0)
		(void)fprintf(stderr,
			"eclusa audit: %" PRIu64
			" lines are no events and left out; eclusa audit verify says where\n",
			left_out);
}

void audit_query_fini(struct audit_query *q)
{
	merge_free(ptr_take(q->merge));
}
