/* The events of an audit folder that a tool was asked for, in order; what is wrong with a line is told and is no reason to stop. */
#ifndef ECLUSA_CLI_AUDIT_QUERY_H
#define ECLUSA_CLI_AUDIT_QUERY_H

#include "audit/merge.h"
#include "cli/audit_filter.h"

struct audit_query {
	const struct audit_filter *filter;
	audit_line_visit *visit; /* -ECANCELED: that was enough, which is no failure */
	void *arg;
	bool backwards, progress; /* progress: on a terminal, on stderr */

	uint64_t taken, skipped; /* events that were visited; lines that are none */
	uint64_t torn;           /* last lines without an end */
	struct merge *merge;     /* for merge_files(), until audit_query_fini() */
};

/** Take a picture of the folder (borrowed). @return 0, or negative errno after a line on stderr. */
int audit_query_open(struct audit_query *q, int folder_fd);
/** Visit what is in it. @return 0, or negative errno after a line on stderr. */
int audit_query_run(struct audit_query *q);
/** One line that is not from the merge. @return 0, or what the visit returned. */
int audit_query_line(struct audit_query *q, struct slice bytes);
/** Lines on stderr about what was left out, if anything was. */
void audit_query_tell(const struct audit_query *q);
void audit_query_fini(struct audit_query *q);

#endif
