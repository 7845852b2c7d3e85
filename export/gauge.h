/*
 * Numbers about one sink, in memory that its process writes and eclusa-export reads, so that they survive the process. Each is written
 * by one process; a reader sees each of them whole, and not all of one moment.
 */
#ifndef ECLUSA_EXPORT_GAUGE_H
#define ECLUSA_EXPORT_GAUGE_H

#include "common/buf.h"
#include "export/sink.h"

#define GAUGE_FILE "metrics.json" /* in the state folder: what gauges_write() wrote last */

enum gauge_state {
	GAUGE_STARTING,
	GAUGE_IDLE, /* everything is delivered */
	GAUGE_SENDING,
	GAUGE_RETRYING, /* the last try failed */
	GAUGE_OPEN,     /* so many tries failed that only now and then one is made */
	GAUGE_STATE_COUNT
};

struct gauge {
	_Atomic(enum gauge_state) state;
	_Atomic(uint64_t) delivered, quarantined, lost; /* lines, since the state folder was new */
	_Atomic(uint64_t) batches, retries, resent, restarts; /* since eclusa-export was started */
	_Atomic(uint64_t) lag_bytes, lag_events;
	_Atomic(uint64_t) oldest_ms;    /* time of the oldest line that is not delivered; 0: none */
	_Atomic(uint64_t) delivered_ms; /* when a line was delivered last; 0: never */
	_Atomic(uint64_t) failed_ms;    /* when a try failed last; 0: never */
	char failure[256];              /* what it said, printable */
};

/** Zeroed ones that forks share. NULL: out of memory. */
struct gauge *gauges_new(size_t count);
void gauge_fail(struct gauge *g, const char *why);
/** JSON of all sinks: what `eclusa top` and the Prometheus exporter read. */
int gauges_write(const struct gauge *gauges, const struct export_config *config, struct buf *to);

#endif
