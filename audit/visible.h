/*
 * Text for a line that a person or a line format reads: every character that would be acted on instead of shown (ESC, line ends,
 * marks of direction) becomes visible as \u and its number. So a peer's text ends no line and drives no terminal.
 */
#ifndef ECLUSA_AUDIT_VISIBLE_H
#define ECLUSA_AUDIT_VISIBLE_H

#include "common/buf.h"

/** How one line format puts a character down. */
struct visible_style {
	const char *doubled; /* ASCII characters that get a backslash before them */
	const char *hidden;  /* those that are made visible like control characters */
	bool line_ends;      /* CR and LF become \r and \n, which readers of the format turn back */
};

/** Append text of any bytes; what is no UTF-8 becomes U+FFFD. @style NULL: as it is shown. Errors are sticky in @to. */
void visible_append(struct buf *to, struct slice text, const struct visible_style *style);

#endif
