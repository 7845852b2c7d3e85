/* What `eclusa top` shows: one picture of what is live, for a terminal of a size or as JSON. */
#ifndef ECLUSA_CLI_TOP_H
#define ECLUSA_CLI_TOP_H

#include "cli/live.h"
#include "common/buf.h"

enum top_order { TOP_BY_RATE, TOP_BY_DENIED, TOP_BY_OUT, TOP_BY_AGE, TOP_ORDER_COUNT };

/** Borrowed. */
struct top_picture {
	const char *folder;
	uint64_t now_ms;
	const struct live_sandbox *sandboxes;
	size_t sandbox_count;
	const struct live_sink *sinks;
	size_t sink_count;
	const char *sinks_failure; /* NULL: none, or nobody asked */
	uint64_t left_out;         /* files without room */
	bool behind;
	enum top_order order;
};

/** Lines of printable ASCII, at most @rows of at most @columns; with @colour bold and dim. Errors are sticky in the buf. */
void top_draw(
	const struct top_picture *p, unsigned rows, unsigned columns, bool colour, struct buf *to);
void top_json(const struct top_picture *p, struct buf *to);

#endif
