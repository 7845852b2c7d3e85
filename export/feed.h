/*
 * What a sink reads next: lines of all files of the audit folder, each file from its first line to its last, also while it is being
 * written. Files are found by the index, and by a look into the folder for what the index lacks. The folder's files are trusted as far
 * as their owner is; what is no line of ours is given on as poison and not repaired.
 */
#ifndef ECLUSA_EXPORT_FEED_H
#define ECLUSA_EXPORT_FEED_H

#include "export/batch.h"

struct feed;

struct feed_lag {
	uint64_t bytes; /* in the log that are not delivered */
	uint64_t
		events; /* the same; where a file is still written: an estimate by the size of lines */
};

/** @channel: folder.h's. @cursor is borrowed, and changed as lines are acknowledged. @return 0 or negative errno with a line. */
int feed_open(int channel, struct cursor *cursor, struct feed **ret, struct failure *why);
void feed_free(struct feed *f);
/**
 * Look for what is new in the index and in files. @return 1: there is something to read; 0: nothing; negative errno with a line (-EPIPE: whoever
 * hands out files has gone).
 */
int feed_look(struct feed *f, struct failure *why);
/** Read the next lines. @return 1: *ret is owned by the caller; 0: nothing after all; negative errno with a line. */
int feed_take(struct feed *f, const struct sink_config *c, struct batch **ret, struct failure *why);
/** All lines of a batch are done, and of those before it: moves the cursor. */
void feed_acknowledge(struct feed *f, const struct batch *b);
void feed_lag(const struct feed *f, struct feed_lag *ret);

#endif
