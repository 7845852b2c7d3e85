/*
 * The exact bytes of a file's lines, one after another, in bounded memory: for whoever checks hashes. What stands in
 * a line is not looked at. reader.h is for those who want to know what happened.
 */
#ifndef ECLUSA_AUDIT_SCAN_H
#define ECLUSA_AUDIT_SCAN_H

#include "common/slice.h"

#define SCAN_BUFFER_BYTES ((size_t)256 << 10) /* a longer line is given in pieces without end */

/** Zero-initialise but fd, which is borrowed and read from its position on; release with scan_fini(). */
struct scan {
	int fd;
	char *data;
	size_t start, end;
	uint64_t number; /* of the last line, from 1 */
	uint64_t bytes;  /* given out so far, newlines included */
	bool whole;      /* the last line ended in a newline */
};

/** The next line, without newline; it lives until the next call. @return 1, 0 at the end, negative errno. */
int scan_next(struct scan *s, struct slice *ret);
void scan_fini(struct scan *s);

#endif
