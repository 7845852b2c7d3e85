/*
 * The index of an audit folder, index.jsonl: a line for each file that was begun, ended or pruned, with the hash
 * of its first or last line; itself a chain. So a file of the log that is gone as a whole, or was replaced by an
 * older copy of itself, shows. Any process that may write to the folder appends, one at a time.
 */
#ifndef ECLUSA_AUDIT_INDEX_H
#define ECLUSA_AUDIT_INDEX_H

#include "audit/chain.h"
#include "common/failure.h"

#define AUDIT_INDEX_NAME           "index.jsonl"
#define AUDIT_INDEX_CHAIN          "index"
#define AUDIT_INDEX_LINE_BYTES_MAX 1024

enum audit_index_kind {
	AUDIT_INDEX_OPENED, /* a segment's first line is written */
	AUDIT_INDEX_CLOSED, /* its last line is */
	AUDIT_INDEX_PRUNED, /* it was deleted, by who may */
};

struct audit_index_entry {
	enum audit_index_kind kind;
	const char *segment;    /* its file's name */
	const struct chain *at; /* the segment's chain after that line */
	bool recovered;         /* closed by a later start */
};

/**
 * Where the index is now, for the first line of a new chain to name; number 0 and zeros while there is none. @return 0 or
 * negative errno. Does not wait for writers: what they have not finished does not count.
 */
int audit_index_head(int folder_fd, struct chain *ret);
/** Append one entry. Waits at most 2 s for other writers. @return 0 or negative errno. */
int audit_index_append(int folder_fd, const struct audit_index_entry *e, struct failure *why);
#endif
