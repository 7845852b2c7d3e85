/* See sink.h: the table of kinds. A kind is one file, sink_<name>.c, and a line here. */
#include "export/sink.h"

#include "common/cleanup.h"
#include "export/kinds.h"

#include <stdarg.h>
#include <stdio.h>

static const struct sink_kind *const kinds[] = {
	&sink_syslog,
	&sink_ndjson,
	&sink_splunk_hec,
	&sink_elastic_bulk,
	&sink_otlp,
	&sink_journald,
	&sink_file,
	&sink_stdout,
};

const struct sink_kind *sink_kind_at(size_t index)
{
	return index < array_size(kinds) ? kinds[index] : NULL;
}

const struct sink_kind *sink_kind_find(struct slice name)
{
	for (size_t i = 0; i < array_size(kinds); i++) {
		if (slice_equal(name, slice_of(kinds[i]->name)))
			return kinds[i];
	}
	return NULL;
}

void sink_poison(struct sink_line *line, const char *format, ...)
{
	char said[SINK_WHY_BYTES];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(said, sizeof(said), format, args); /* cut, on purpose */
	va_end(args);
	(void)slice_escape(slice_of(said), line->why, sizeof(line->why));
	line->fate = SINK_POISON;
}
