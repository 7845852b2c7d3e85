/* Many lines to one place, written some at a time, so that memory is bounded: standard output, or a file that appears when it is whole. */
#ifndef ECLUSA_CLI_AUDIT_OUTPUT_H
#define ECLUSA_CLI_AUDIT_OUTPUT_H

#include "common/buf.h"

#include <limits.h>

/** Release with audit_output_close(). */
struct audit_output {
	struct buf lines;         /* append here, then audit_output_line() */
	const char *path;         /* NULL: standard output */
	char temporary[PATH_MAX]; /* "" : there is none */
	int fd;
	bool terminal;
};

/** @path NULL or "-": standard output. @return 0, or negative errno after a line on stderr. */
int audit_output_open(struct audit_output *o, const char *path);
/** End the line that was appended. @return 0, or negative errno after a line on stderr (none for a reader that went away). */
int audit_output_line(struct audit_output *o);
/** Append a line of the log and end it: its own bytes, but on a terminal nothing that drives one. */
int audit_output_raw(struct audit_output *o, struct slice line);
/** Write what waits. @return 0, or negative errno after a line on stderr. */
int audit_output_flush(struct audit_output *o);
/** @status below 0: it came to nothing, leave no file. @return @status, or negative errno after a line on stderr. */
int audit_output_close(struct audit_output *o, int status);

#endif
