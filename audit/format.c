/* See format.h. */
#include "audit/format.h"

#include "audit/chain.h"
#include "audit/format_field.h"
#include "common/cleanup.h"

#include <assert.h>

static void format_ocsf(const struct audit_line *line, struct buf *to)
{
	(void)buf_append(to, audit_line_bytes(line)); /* errors are sticky in the buf */
}

/** A line as it was before it was sealed; one that is not sealed is as it is. */
static void append_bare(struct slice bytes, struct buf *to)
{
	struct chain_link link;
	if (chain_read(bytes, CHAIN_EVENT_CLOSING, &link)) {
		(void)buf_append(to, link.bare);
		(void)buf_append(to, SLICE(CHAIN_EVENT_CLOSING));
	} else {
		(void)buf_append(to, bytes);
	}
}

static void format_ocsf_bare(const struct audit_line *line, struct buf *to)
{
	append_bare(audit_line_bytes(line), to);
}

static const struct {
	const char *name;
	format_writer *write;
	void (*head)(struct buf *to);
} formats[] = {
	[AUDIT_FORMAT_OCSF] = {"ocsf", format_ocsf, NULL},
	[AUDIT_FORMAT_OCSF_BARE] = {"ocsf-bare", format_ocsf_bare, NULL},
	[AUDIT_FORMAT_ECS] = {"ecs", format_ecs, NULL},
	[AUDIT_FORMAT_CEF] = {"cef", format_cef, NULL},
	[AUDIT_FORMAT_LEEF] = {"leef", format_leef, NULL},
	[AUDIT_FORMAT_CSV] = {"csv", format_csv, format_csv_head},
};
static_assert(array_size(formats) == AUDIT_FORMAT_COUNT, "a row for each format");

int audit_format_line(enum audit_format format, const struct audit_line *line, struct buf *to)
{
	formats[format].write(line, to);
	return to->failed ? -ENOBUFS : 0;
}

/** A line on its way, as the reader's visitor sees it. */
struct formatting {
	enum audit_format format;
	struct buf *to;
};

static int visit(void *arg, const struct audit_line *line)
{
	const struct formatting *f = arg;
	return audit_format_line(f->format, line, f->to);
}

/** Whether the line needs no parsing: it is given out as it is, and looks like one that the recorder sealed. */
static bool passes_as_it_is(enum audit_format format, struct slice line)
{
	struct chain_link link;
	return (format == AUDIT_FORMAT_OCSF || format == AUDIT_FORMAT_OCSF_BARE) &&
		slice_starts(line, SLICE("{\"")) && chain_read(line, CHAIN_EVENT_CLOSING, &link);
}

int audit_format_write(enum audit_format format, struct slice line, struct buf *to)
{
	if (passes_as_it_is(format, line)) {
		if (format == AUDIT_FORMAT_OCSF)
			(void)buf_append(to, line); /* errors show in failed */
		else
			append_bare(line, to);
		return to->failed ? -ENOBUFS : 0;
	}
	struct formatting f = {.format = format, .to = to};
	struct audit_read read = {.visit = visit, .arg = &f};
	int r = audit_read_line(&read, line);
	return r == 0 && read.lines == 0 ? -EBADMSG : r;
}

void audit_format_head(enum audit_format format, struct buf *to)
{
	if (formats[format].head != NULL)
		formats[format].head(to);
}

const char *audit_format_name(enum audit_format format)
{
	return formats[format].name;
}

bool audit_format_find(struct slice name, enum audit_format *ret)
{
	for (enum audit_format f = 0; f < AUDIT_FORMAT_COUNT; f++) {
		if (slice_equal(name, slice_of(formats[f].name))) {
			*ret = f;
			return true;
		}
	}
	return false;
}
