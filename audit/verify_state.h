/* What the steps of audit_verify() share. Inside of verify*.c only. */
#ifndef ECLUSA_AUDIT_VERIFY_STATE_H
#define ECLUSA_AUDIT_VERIFY_STATE_H

#include "audit/verify.h"

#define VERIFY_NAME_BYTES 256

/** A line of the index: that the segment's line @last has the hash @head. */
struct verify_entry {
	char *segment;
	bool pruned;           /* and that it was deleted */
	uint64_t last, number; /* number: the entry's own, in the index */
	char head[DIGEST_TEXT_BYTES];
	char hash[DIGEST_TEXT_BYTES]; /* the entry's own */
};

struct verify_index {
	bool there;
	struct verify_entry *entries; /* by segment, then by number */
	size_t count, capacity;
	struct verify_entry
		*by_number; /* a copy in the index's own order, without names of its own */
};

/** A file of the log, and what was seen in it. */
struct verify_segment {
	char *name;
	bool open;                    /* marked as being written when the listing was made, */
	bool held;                    /* and some process held it, so that it was */
	bool decides;                 /* has lines on requests, connections or questions */
	char chain[CHAIN_NAME_BYTES]; /* "" : no line of it can be believed */
	uint64_t first, last;         /* numbers of its first and last line */
	char prev[DIGEST_TEXT_BYTES]; /* what its first line follows */
	char head[DIGEST_TEXT_BYTES]; /* hash of its last line */
	uint64_t lines;
	uint64_t signed_last; /* the highest line that a good signature covers */
	bool saw_index;       /* its first line names a state of the index: */
	uint64_t index_last;
	char index_head[DIGEST_TEXT_BYTES];
};

struct verify {
	const struct verify_options *options;
	struct verify_result *result;
	struct verify_index index;
	struct verify_segment *segments;
	size_t segment_count, segment_capacity;
	uint64_t all_bytes, done_bytes;
};

/** Add a finding; beyond the limit it only counts. */
void verify_find(struct verify *v, enum verify_kind kind, const char *file, uint64_t line,
	const char *format, ...) __attribute__((format(printf, 5, 6)));
/** Read and check the index. @return 0 or negative errno. */
int verify_index_read(struct verify *v, struct failure *why);
/** The segment's entries: the first one, and how many. */
const struct verify_entry *verify_index_of(
	const struct verify_index *index, const char *segment, size_t *ret_count);
void verify_index_fini(struct verify_index *index);
/** What names of files are relative to: what a caller names is his, not the folder's. */
int verify_base(const struct verify *v);
/** Read and check one file. @return 0 or negative errno. */
int verify_segment_read(struct verify *v, struct verify_segment *s, struct failure *why);
/** So many more bytes are done. */
void verify_advance(struct verify *v, uint64_t bytes);

#endif
