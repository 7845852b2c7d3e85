/*
 * Results: what a dead sandbox left in /out, copied into the caller's folder. Everything in /out is the sandbox's:
 * names, kinds, links, sizes. It is walked through the descriptor of the mount that the launcher made, nothing is
 * followed, and only regular files with one name are taken.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_COLLECT_H
#define ECLUSA_SANDBOX_LAUNCHER_COLLECT_H

#include "common/buf.h"
#include "common/digest.h"
#include "common/failure.h"

#define COLLECT_DEPTH_MAX 32
#define COLLECT_PATH_MAX  4096
#define COLLECT_NAMES_MAX                                                                          \
	((size_t)2 << 20) /* paths of all results: the result of the run tells them */

/** The caller's folder, checked before anything ran. */
struct collect_target {
	int folder; /* -1 while it has to be made */
	int parent; /* -1 when the folder exists */
	char *name; /* in parent */
};

/** One result. */
struct artifact {
	char *path; /* relative, bytes as the sandbox named it */
	uint64_t size;
	char sha256[DIGEST_TEXT_BYTES];
	const char *media_type;
};

struct collected {
	struct artifact *items;
	size_t count;
	uint64_t bytes;
	size_t name_bytes;  /* of all paths */
	struct buf skipped; /* lines: "path: why", escaped */
	unsigned untold;    /* skipped, without a line: there were too many */
	unsigned failed;    /* of those: results that could not be delivered, not mere skips */
};

struct collect_options {
	int out;              /* the mount of /out */
	const char *id;       /* for temporary names */
	uint64_t limit_bytes; /* sum of apparent sizes */
	uint64_t file_bytes;  /* apparent size of one */
	size_t files;
	bool overwrite;
};

/** Check DIR: a folder that we may write, or a name that we may create in an existing one. Creates nothing. */
int collect_check(const char *dir, struct collect_target *ret, struct failure *why);
void collect_target_fini(struct collect_target *t);
/**
 * Copy the results; each appears under its name as a whole. @return 0, also when some were skipped; negative errno
 * when the target folder can't be made or /out can't be read.
 */
int collect_run(const struct collect_options *options, struct collect_target *target,
	struct collected *ret, struct failure *why);
void collected_fini(struct collected *c);
/** By the name's extension; "application/octet-stream" otherwise. */
const char *collect_media_type(const char *path);

#endif
