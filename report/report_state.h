/* A report from inside: what was counted. Shared by the files that count and those that write. */
#ifndef ECLUSA_REPORT_REPORT_STATE_H
#define ECLUSA_REPORT_REPORT_STATE_H

#include "audit/seen.h"
#include "report/report.h"
#include "report/spread.h"
#include "report/tally.h"

enum report_table {
	REPORT_DENIED,
	REPORT_WOULD,
	REPORT_HOSTS,
	REPORT_REASONS,
	REPORT_RULES,
	REPORT_SANDBOXES,
	REPORT_POLICIES,
	REPORT_TABLE_COUNT
};

struct report {
	struct report_options options;
	struct tally tables[REPORT_TABLE_COUNT];
	struct spread spread;
	uint64_t counts[TALLY_COUNTS]; /* of all decisions */
	uint64_t events, skipped, left_out /* of the stretch */;
	uint64_t first_ms, last_ms;
	uint64_t starts; /* of sandboxes */
	uint64_t lost, recovered, checkpoints,
		violations;     /* events of these kinds, lost: of lines */
	struct audit_seen seen; /* of the file that is read now: one event twice is one */
	char *file;
};

/** rows.c: what is left of the counts is what is shown. */
void report_rows_close(struct report *r);
/** rows.c: one table, with its head, and what there is instead of it when it is empty. */
void report_rows(const struct report *r, enum report_table table, struct buf *to);
/** chart.c: the verdicts over time, with the numbers as a table below. */
void report_chart(const struct report *r, struct buf *to);
/** page.c: the whole. */
void report_page(const struct report *r, struct buf *to);

#endif
