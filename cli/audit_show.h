/* An event as one line for people. What a peer wrote stays text in it: it ends no line and drives no terminal. */
#ifndef ECLUSA_CLI_AUDIT_SHOW_H
#define ECLUSA_CLI_AUDIT_SHOW_H

#include "audit/reader.h"
#include "common/buf.h"

/** Whether lines to this descriptor are coloured: a terminal that is not dumb, and no NO_COLOR. */
bool audit_show_coloured(int fd);
/** Append the line without newline. Errors are sticky in @to. */
void audit_show(const struct audit_line *line, bool coloured, struct buf *to);

#endif
