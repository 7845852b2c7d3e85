/*
 * How far a sink has got in the audit folder: a place in the index, and one in each file that it is not done with. Kept in
 * a small text file that is replaced as a whole.
 */
#ifndef ECLUSA_EXPORT_CURSOR_H
#define ECLUSA_EXPORT_CURSOR_H

#include "common/buf.h"
#include "common/failure.h"
#include "export/folder.h"

#define CURSOR_SEGMENTS_MAX 4096 /* files that a sink is at, at once */
#define CURSOR_BYTES_MAX    ((size_t)1 << 20)

/** A file of events. The first part is kept, the second is feed.c's. */
struct cursor_segment {
	char name[FOLDER_NAME_BYTES];
	uint64_t offset;   /* delivered up to here */
	uint64_t sequence; /* number of the last line that was delivered; 0: none */
	uint64_t
		skip_through; /* lines up to this number were delivered before the file was opened again */
	bool closed;          /* the index says that it has ended, */
	uint64_t last;        /* with this number */

	int fd;           /* -1: not open now */
	uint64_t read;    /* read up to here */
	uint64_t size;    /* when it was looked at last */
	uint64_t used;    /* turn in which the descriptor was used last */
	uint64_t partial; /* with this size the rest of it was no whole line */
	bool fresh;       /* of a log that was there before this sink: no loss when it is gone */
	bool skipping;    /* within a line that is too long */
};

struct cursor {
	uint64_t index_offset;                 /* entries of the index up to here are taken */
	uint64_t index_mark;                   /* of its bytes before that; 0: not known */
	uint64_t delivered, quarantined, lost; /* lines, since the beginning */
	struct cursor_segment **segments;      /* owned; pointers stay the same */
	size_t count;
};

/** Add a file. NULL: out of memory. */
struct cursor_segment *cursor_add(struct cursor *c, struct slice name);
struct cursor_segment *cursor_find(const struct cursor *c, struct slice name);
void cursor_remove(struct cursor *c, struct cursor_segment *segment);
void cursor_fini(struct cursor *c);

/** Append the text of what is kept. */
int cursor_write(const struct cursor *c, struct buf *to);
/** @ret is zeroed. @return 0, -EBADMSG (not a text of cursor_write()), -ENOMEM. */
int cursor_parse(struct slice text, struct cursor *ret);

/** NAME.cursor in a folder. A file that is not there is an empty cursor. @return 0 or negative errno with a line. */
int cursor_load(int state_fd, const char *name, struct cursor *ret, struct failure *why);
/** Durably, as a whole or not at all. */
int cursor_save(const struct cursor *c, int state_fd, const char *name, struct failure *why);

#endif
