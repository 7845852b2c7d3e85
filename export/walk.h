/*
 * One pass over a JSON text that checks its grammar and picks members by a table: at the top, or in an object there. No tree, no
 * allocation, no recursion. The input may be anything.
 */
#ifndef ECLUSA_EXPORT_WALK_H
#define ECLUSA_EXPORT_WALK_H

#include "common/slice.h"

#define WALK_DEPTH_MAX 64 /* objects and arrays in one another */
#define WALK_ROWS_MAX  16

enum walk_type {
	WALK_TEXT,   /* a struct slice: what stands between the quotes, escapes included */
	WALK_NUMBER, /* a uint64_t: whole and not negative; others count as not there */
};

/** What to pick: a member of the object @parent at the top, or of the top itself (""). */
struct walk_row {
	const char *parent, *name;
	enum walk_type type;
	size_t offset; /* in the caller's struct */
};

/** @return whether the text is one JSON object. What is found goes to @to; of members that stand twice, the first. */
bool walk_line(struct slice text, const struct walk_row *rows, size_t count, void *to);

#endif
