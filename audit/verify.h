/*
 * Whether an audit folder is as it was written: every line's hash, each chain's order and numbers, the index's word on
 * which files there have to be and how each began and ended, the signatures of checkpoints. Takes nothing in the folder for
 * granted and changes nothing. What it can't prove: that the end of a log which no signature covers was not written anew.
 */
#ifndef ECLUSA_AUDIT_VERIFY_H
#define ECLUSA_AUDIT_VERIFY_H

#include "audit/checkpoint.h"
#include "common/failure.h"

#define VERIFY_FINDINGS_MAX 100 /* told; the rest is counted */
#define VERIFY_TEXT_BYTES   256

enum verify_kind {
	VERIFY_CHANGED, /* a line's hash is not that of its bytes */
	VERIFY_NO_LINE, /* no sealed line at all */
	VERIFY_ORDER, /* a line does not follow the one before it: something is missing or has changed places */
	VERIFY_TORN,      /* a last line without its end */
	VERIFY_SHORT,     /* the file ends before the line that the index has as its last */
	VERIFY_REPLACED,  /* a line is sound in itself but not the one that the index has */
	VERIFY_MISSING,   /* a file that the index has is not there */
	VERIFY_UNLISTED,  /* a file that the index does not have */
	VERIFY_INDEX,     /* the index itself lacks what a log saw in it, or the end of one */
	VERIFY_SIGNATURE, /* a checkpoint that is not signed by the key, or speaks of another line */
	VERIFY_UNSIGNED,  /* with a key: decisions in a chain of which no signature covers a line */
	VERIFY_KIND_COUNT
};

struct verify_finding {
	enum verify_kind kind;
	char *file;    /* its name as the index or the caller has it */
	uint64_t line; /* in the file, from 1; 0: the file as a whole */
	char text[VERIFY_TEXT_BYTES];
};

struct verify_options {
	int folder_fd;
	char *const *files; /* only these; NULL: every log of the folder, and none may be missing */
	size_t file_count;
	const struct sign_public *key; /* NULL: signatures are not checked */
	uint64_t from; /* lines with lower numbers are not looked at, and not missed */
	void (*progress)(void *arg, uint64_t done_bytes, uint64_t all_bytes); /* or NULL */
	void *arg;
};

/** Zero-initialise; release with verify_fini(). */
struct verify_result {
	struct verify_finding *findings; /* in order of files and lines */
	size_t count;
	uint64_t left_out;
	uint64_t files, chains, lines, bytes;
	uint64_t
		unfinished; /* files that are still being written, or whose run was killed and not completed yet */
	uint64_t pruned;          /* files that the index says were deleted */
	uint64_t checkpoints;     /* that have a signature */
	uint64_t unsigned_lines;  /* that no good signature covers; all, without a key */
	uint64_t unsigned_chains; /* that end in such lines */
};

/** @return 0, also with findings; negative errno and a line in @why when something can't be read. */
int audit_verify(
	const struct verify_options *options, struct verify_result *ret, struct failure *why);
void verify_fini(struct verify_result *r);
const char *verify_kind_name(enum verify_kind kind);

#endif
