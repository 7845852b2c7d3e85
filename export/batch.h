/* Lines on their way to a sink, with the memory that they live in and the places in the log that they came from. */
#ifndef ECLUSA_EXPORT_BATCH_H
#define ECLUSA_EXPORT_BATCH_H

#include "export/cursor.h"
#include "export/sink.h"

#define BATCH_PARTS_MAX      64                 /* files that one batch has lines of */
#define BATCH_LINE_BYTES_MAX ((size_t)64 << 10) /* eight times what Eclusa writes; more is poison */
#define BATCH_POISON_BYTES   1024               /* of such a line that are kept */

/** The lines of one file end here. */
struct batch_part {
	struct cursor_segment *segment;
	uint64_t end;      /* offset behind them */
	uint64_t sequence; /* number of the last one; 0: not known */
};

struct batch {
	struct sink_batch sink; /* what the sink sees */
	struct batch_part parts[BATCH_PARTS_MAX];
	size_t part_count;
	struct buf raw;  /* lines as they are in the log */
	struct buf text; /* in the sink's format, when that is another one */
	size_t capacity; /* of sink.lines */
	size_t lines_max, text_max;
	enum audit_format format;
};

/** @raw_bytes of lines at most. NULL: out of memory. */
struct batch *batch_new(const struct sink_config *c, size_t raw_bytes);
void batch_free(struct batch *b);
/** Room for more bytes of the log. */
size_t batch_room(const struct batch *b);
/**
 * Take whole lines, each with its newline, from bytes that stand at the end of raw; lines up to the number @skip_through are left out. *ret_taken: bytes that
 * were taken, fewer when the batch is full. @return 0 or -ENOMEM.
 */
int batch_take(struct batch *b, struct slice lines, uint64_t skip_through, size_t *ret_taken,
	uint64_t *ret_sequence);
/** A line that can't be sent: its beginning. */
int batch_take_poison(struct batch *b, struct slice beginning, const char *why);
/** Whether no line waits, and none is on its way. */
bool batch_is_done(const struct batch *b);
bool batch_has(const struct batch *b, enum sink_fate fate);
/** Lines that were on their way wait again. */
void batch_recall(struct batch *b);

#endif
