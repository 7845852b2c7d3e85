/*
 * Text into HTML. The one place where what a log says becomes part of a page: it ends no element and no attribute, and
 * what would steer a screen or the direction of text is shown by its number instead.
 */
#ifndef ECLUSA_REPORT_HTML_H
#define ECLUSA_REPORT_HTML_H

#include "common/buf.h"

/* Errors are sticky in the buf. */

/** Text for between tags, any bytes. */
void html_text(struct buf *to, struct slice text);
/** With commas between thousands. */
void html_number(struct buf *to, uint64_t number);
/** "1.5 MiB". */
void html_bytes(struct buf *to, uint64_t bytes);
/** "2026-11-29 20:30:15", UTC; 0 is nothing. */
void html_time(struct buf *to, uint64_t time_ms);
/** The same without what is the same at all times of a scale of this width. */
void html_moment(struct buf *to, uint64_t time_s, uint64_t width_s);

#endif
