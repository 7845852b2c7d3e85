/*
 * Our own event lines, read back one at a time in bounded memory: from a segment, or from all of a folder. The one place
 * that parses them. A file that a stranger may have changed: a line that is no event is counted and skipped, since a crash
 * may have torn it; `audit verify` is the tool that complains.
 */
#ifndef ECLUSA_AUDIT_READER_H
#define ECLUSA_AUDIT_READER_H

#include "common/failure.h"
#include "common/slice.h"

/** A line that is a JSON object. Lives as long as the visit. */
struct audit_line;

/** Its bytes without newline, and its number in the file, from 1. */
struct slice audit_line_bytes(const struct audit_line *line);
uint64_t audit_line_number(const struct audit_line *line);
/** File name within the folder, or the path that was given; "" when a descriptor was. */
const char *audit_line_file(const struct audit_line *line);
/**
 * The value at a path of members, such as "http_request.url.path" or, in an array, "metadata.labels.0". Text is valid
 * UTF-8 that may hold any character, NUL too, and one more NUL behind its end; ptr NULL when there is none.
 */
struct slice audit_line_text(const struct audit_line *line, const char *path);
/** A number that is not negative; 0 for everything else. */
uint64_t audit_line_number_at(const struct audit_line *line, const char *path);
/** @return whether there is a number that is not negative. */
bool audit_line_find_number(const struct audit_line *line, const char *path, uint64_t *ret);
bool audit_line_true(const struct audit_line *line, const char *path);
/**
 * Whether it counts: not a torn line, which comes again whole from its ring, nor one that says that something
 * is open, whose end is an event of its own.
 */
bool audit_line_counts(const struct audit_line *line);
/** Whether it tells of a name that got an address: nothing left by that, and what comes of it has events of its own. */
bool audit_line_is_answer(const struct audit_line *line);

/** @return 0 to go on; a negative errno ends the reading, and is its result. */
typedef int audit_line_visit(void *arg, const struct audit_line *line);

/** What reading came to. Zero-initialise; adds up over calls. */
struct audit_read {
	audit_line_visit *visit;
	void *arg;
	uint64_t lines;   /* that were visited */
	uint64_t skipped; /* that are no JSON objects */
};

/** One line that the caller has, without newline. @return 0, or what the visit returned. */
int audit_read_line(struct audit_read *read, struct slice bytes);
/** The whole segment, by pread: the descriptor's position does not matter. @return 0 or negative errno. */
int audit_read_fd(struct audit_read *read, int segment_fd);
/**
 * @path a segment, or an audit folder whose segments are read in order of their names. A named file of which no line is an
 * object is -EINVAL: it is another file. @return 0 or negative errno, then @why is filled.
 */
int audit_read_path(struct audit_read *read, const char *path, struct failure *why);

#endif
