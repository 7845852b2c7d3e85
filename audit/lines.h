/*
 * The lines of one segment, forwards or backwards, in bounded memory and without an open file between reads: many segments can be
 * read side by side. What stands in a line is not looked at, but for its time. Longer lines than any of ours are passed over.
 */
#ifndef ECLUSA_AUDIT_LINES_H
#define ECLUSA_AUDIT_LINES_H

#include "common/slice.h"

#include <sys/types.h>

#define LINES_BUFFER_BYTES ((size_t)64 << 10)

/** Zero-initialise but what the caller sets; release with lines_fini(). */
struct lines {
	int folder_fd;    /* borrowed */
	const char *name; /* in the folder; borrowed */
	off_t from, to;   /* what is to be read; both move towards each other */
	bool backwards;

	char *data;
	size_t start, end, capacity;
	bool passing_over; /* inside of a line that is too long */
	bool whole;        /* the last line that was given ended in a newline */
	uint64_t too_long; /* lines that were passed over */
};

/** The next line without newline; it lives until the next call. Empty lines are not given. @return 1, 0 at the end, negative errno. */
int lines_next(struct lines *l, struct slice *ret);
void lines_fini(struct lines *l);

/** The member "time" of a line of ours, in ms; 0 when there is none. Peers can't write one: their quotes are escaped. */
uint64_t lines_time_ms(struct slice line);

#endif
