/* What eclusa-export tells Prometheus about its sinks. Labels are the sinks' names and kinds, as the configuration has them. */
#ifndef ECLUSA_EXPORT_METRICS_H
#define ECLUSA_EXPORT_METRICS_H

#include "export/gauge.h"

/** All sinks in Prometheus' text format. Errors are sticky in the buf. */
void export_metrics_write(
	const struct gauge *gauges, const struct export_config *config, struct buf *to);

#endif
