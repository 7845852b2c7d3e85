/*
 * An event line of ours in the formats that other systems read: a table of mappings a format (format_*.c), from members of the
 * OCSF line to names of the format. Pure: a line in, a line out. What a peer wrote stays a value: each format escapes
 * for itself, and no value ends a field or a line. The input may be anything; what is no JSON object is refused.
 */
#ifndef ECLUSA_AUDIT_FORMAT_H
#define ECLUSA_AUDIT_FORMAT_H

#include "audit/reader.h"
#include "common/buf.h"

enum audit_format {
	AUDIT_FORMAT_OCSF,      /* the bytes of the log as they are */
	AUDIT_FORMAT_OCSF_BARE, /* without the chain's members, for receivers that check none */
	AUDIT_FORMAT_ECS,       /* Elastic Common Schema 9 */
	AUDIT_FORMAT_CEF,       /* Common Event Format 0 */
	AUDIT_FORMAT_LEEF,      /* Log Event Extended Format 2.0, tabs between attributes */
	AUDIT_FORMAT_CSV,       /* RFC 4180, the same columns for every class */
	AUDIT_FORMAT_COUNT
};

/** The most that one line becomes in any format, for lines of at most AUDIT_LINE_BYTES_MAX. */
#define AUDIT_FORMAT_BYTES_MAX ((size_t)128 << 10)

/**
 * Append the line (without newline) in a format to @to, without newline. @return 0; -EBADMSG: no JSON object (whether a sealed
 * line is one is not looked at for ocsf and ocsf-bare); -ENOBUFS: it does not fit, or there is no memory; then @to may hold a part of it.
 */
int audit_format_write(enum audit_format format, struct slice line, struct buf *to);
/** The same for a line that a reader gave. @return 0, -ENOBUFS. */
int audit_format_line(enum audit_format format, const struct audit_line *line, struct buf *to);
/** What stands before all lines, without newline: the names of the columns of csv; else empty. */
void audit_format_head(enum audit_format format, struct buf *to);

/** "ocsf", "ocsf-bare", "ecs", "cef", "leef", "csv". */
const char *audit_format_name(enum audit_format format);
/** @return whether there is one of this name. */
bool audit_format_find(struct slice name, enum audit_format *ret);

#endif
