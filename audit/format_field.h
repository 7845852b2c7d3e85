/*
 * What the tables of the formats are made of: a row says which member of our line becomes which name, and how. All
 * values are had here; the format's own file only knows how it writes a name and a value.
 */
#ifndef ECLUSA_AUDIT_FORMAT_FIELD_H
#define ECLUSA_AUDIT_FORMAT_FIELD_H

#include "audit/format.h"

enum format_kind {
	FORMAT_TEXT,   /* the text at the path */
	FORMAT_NUMBER, /* the number at the path, not negative */
	FORMAT_FIXED,  /* the path itself */
	FORMAT_WITH, /* the path's part behind '=', where there is something at the part before it */
	FORMAT_WITH_IPV6,   /* likewise, where that is an address of version 6 */
	FORMAT_LOWER,       /* the text in lower case */
	FORMAT_TRUE,        /* true, where it is true */
	FORMAT_TIME,        /* RFC 3339 of the milliseconds there */
	FORMAT_TIME_QRADAR, /* likewise, as yyyy-MM-dd'T'HH:mm:ss.SSSZ wants it */
	FORMAT_NANOSECONDS, /* of the milliseconds there */
	FORMAT_SEVERITY,    /* 0 to 10 of an OCSF severity_id */
	FORMAT_SENTENCE, /* what the reason code there means: the same for each event of the code */
	FORMAT_IP,       /* the text, where it is an address */
	FORMAT_IPV4,     /* where it is one of version 4 */
	FORMAT_IPV6,
	FORMAT_LABEL,        /* the value of the label of this name */
	FORMAT_TLS_PROTOCOL, /* "tls" of "TLSv1.3" */
	FORMAT_TLS_VERSION,  /* "1.3" of it */
	FORMAT_LIST,         /* texts: the path has a '*' for their number */
	FORMAT_ECS_KIND,     /* event.kind, from severity_id */
	FORMAT_ECS_CATEGORY, /* event.category, from class and activity: a list */
	FORMAT_ECS_TYPE,     /* event.type: a list */
};

struct format_field {
	const char *name; /* in the format */
	const char *path; /* in the line */
	enum format_kind kind;
};

#define FORMAT_SMALL_BYTES 128
#define FORMAT_LIST_MAX    64 /* elements of one list that are given out */

/** A value; text is the line's, a constant, or @small. */
struct format_value {
	struct slice text;       /* UTF-8 of any characters */
	bool is_number, is_true; /* what it is in JSON; else a string */
	uint64_t number;
	char small[FORMAT_SMALL_BYTES];
};

/** The value of a row, or element @index of its list. @return false: there is none. */
bool format_value(const struct audit_line *line, const struct format_field *field, size_t index,
	struct format_value *ret);
static inline bool format_is_list(const struct format_field *field)
{
	return field->kind == FORMAT_LIST || field->kind == FORMAT_ECS_CATEGORY ||
		field->kind == FORMAT_ECS_TYPE;
}

/** Elements of event.category and event.type (format_ecs.c); NULL: there is no such element. */
const char *format_ecs_category(const struct audit_line *line, size_t index);
const char *format_ecs_type(const struct audit_line *line, size_t index);

/** A format's own line. Errors are sticky in @to. */
typedef void format_writer(const struct audit_line *line, struct buf *to);
format_writer format_ecs;
format_writer format_cef;
format_writer format_leef;
format_writer format_csv;
void format_csv_head(struct buf *to);

#endif
