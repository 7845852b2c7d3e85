/* A batch as lines of text, for sinks that are files or streams. */
#ifndef ECLUSA_EXPORT_LINES_H
#define ECLUSA_EXPORT_LINES_H

#include "export/sink.h"

/** Every format: a line of each is a line. */
#define LINES_FORMATS ((1U << AUDIT_FORMAT_COUNT) - 1)

/** What stands before all lines of this format, with newline; nothing for most. */
void lines_head(enum audit_format format, struct buf *to);
/** Append the lines that wait, a newline behind each. @return 0, -ENOBUFS, -ENOMEM. */
int lines_join(const struct sink_batch *batch, struct buf *to);
/** Write all of it; waits where the descriptor does. *ret_torn: whether what is written now ends within a line. @return 0 or negative errno. */
int lines_write(int fd, struct slice text, bool *ret_torn);
/** All lines that waited are delivered. */
void lines_delivered(struct sink_batch *batch);

#endif
