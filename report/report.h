/*
 * A report on a stretch of the audit log, for people: one HTML file that opens offline and asks no other host for anything. Events come
 * one at a time and are only counted, so memory is bounded however long the log is: what is rare in a log with more
 * different hosts than REPORT_KEYS_MAX ends in a row "others". The log may hold what a peer wrote; here it only ever
 * becomes text.
 */
#ifndef ECLUSA_REPORT_REPORT_H
#define ECLUSA_REPORT_REPORT_H

#include "audit/reader.h"
#include "common/buf.h"

#define REPORT_KEYS_MAX                                                                            \
	((size_t)4096) /* different hosts that are counted, and so on for each table */
#define REPORT_ROWS_MAX  ((size_t)200) /* of a table that are shown */
#define REPORT_BYTES_MAX ((size_t)32 << 20)

/** Which events, by the wall clock in ms: from <= time < to. */
struct report_options {
	uint64_t from_ms;
	uint64_t to_ms; /* UINT64_MAX: no end */
	uint64_t now_ms;
	const char *source; /* where the log is, for the page's head */
};

struct report;

/** @return NULL without memory. @options is copied, its texts are borrowed. */
struct report *report_new(const struct report_options *options);
void report_free(struct report *r);
/** Count one event: an audit_line_visit with a struct report. @return 0 or -ENOMEM. */
int report_take(void *report, const struct audit_line *line);
/** Lines that were no events, as the reader counted them. */
void report_skipped(struct report *r, uint64_t lines);
/** Write the page. Nothing can be taken afterwards. @return 0, -ENOMEM, -ENOBUFS. */
int report_write(struct report *r, struct buf *to);
/** The same as text for a terminal, or as one JSON object; all reasons, and at most @rows of each other table. @return 0, -ENOBUFS. */
int report_stats(struct report *r, size_t rows, bool json, struct buf *to);

#endif
