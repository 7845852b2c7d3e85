/* Between feed.c, which reads files of events, and feed_index.c, which finds them. */
#ifndef ECLUSA_EXPORT_FEED_STATE_H
#define ECLUSA_EXPORT_FEED_STATE_H

#include "export/feed.h"

/** Names that the index has, as hashes: which files are known costs 16 bytes each at most. */
struct names {
	uint64_t *slots; /* 0 = free */
	size_t capacity; /* a power of two */
	size_t count;
};

struct feed {
	int channel;
	struct cursor *cursor;
	size_t turn;   /* the segment that is read next */
	uint64_t uses; /* counts up */
	size_t open_files;
	uint64_t lines, bytes; /* that were acknowledged in this life: the size of a line */
	int index_fd;          /* -1: there is none yet */
	bool fresh;            /* the sink's first look at this log */
	bool more;             /* the index has entries that wait until a file is done with */
	uint64_t looked_ns;    /* when the folder was listed last */
	struct names names;
};

/** Take new entries of the index, and now and then files that it lacks. @return 0 or negative errno with a line. */
int feed_find(struct feed *f, struct failure *why);
void names_fini(struct names *n);

#endif
