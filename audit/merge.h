/*
 * The lines of all segments of an audit folder in the order of their times, forwards or backwards; those of one segment in its own
 * order, which is that of their numbers. A picture of the moment: what is written meanwhile is not in it. Memory is bounded by
 * how many segments overlap in time, not by how long they are.
 */
#ifndef ECLUSA_AUDIT_MERGE_H
#define ECLUSA_AUDIT_MERGE_H

#include "audit/lines.h"
#include "common/failure.h"

struct merge;

struct merge_options {
	bool backwards;
	uint64_t since_ms,
		until_ms; /* segments that can have nothing of [since, until) are left out; 0: no limit */
};

struct merge_line {
	struct slice bytes; /* without newline; until the next call */
	const char *file;   /* its name in the folder, until merge_free() */
	uint64_t time_ms;   /* 0: it has none */
	bool whole;         /* it ended in a newline; else it is the torn end of its file */
};

/** @folder_fd is borrowed. @return 0 or negative errno, then @why is filled. */
int merge_open(int folder_fd, const struct merge_options *options, struct merge **ret,
	struct failure *why);
/** @return 1, 0 at the end, negative errno, then @why is filled. */
int merge_next(struct merge *m, struct merge_line *ret, struct failure *why);
void merge_free(struct merge *m);

/** Bytes of lines that were given, and of all that there is to read; lines that were too long to be ours. */
uint64_t merge_done_bytes(const struct merge *m);
uint64_t merge_all_bytes(const struct merge *m);
uint64_t merge_too_long(const struct merge *m);

/** Each segment of the picture, where it ended. @return 0, or what a visit returned. */
typedef int merge_visit(void *arg, const char *file, off_t end);
int merge_files(const struct merge *m, merge_visit *visit, void *arg);

/** Whether a name in an audit folder is a segment's. */
bool merge_is_segment(const char *name);

#endif
