/* The kinds of sinks: each is one file, sink_<name>.c, whose only public symbol stands here. */
#ifndef ECLUSA_EXPORT_KINDS_H
#define ECLUSA_EXPORT_KINDS_H

#include "export/sink.h"

extern const struct sink_kind sink_elastic_bulk;
extern const struct sink_kind sink_file;
extern const struct sink_kind sink_journald;
extern const struct sink_kind sink_ndjson;
extern const struct sink_kind sink_otlp;
extern const struct sink_kind sink_splunk_hec;
extern const struct sink_kind sink_stdout;
extern const struct sink_kind sink_syslog;

#endif
