/* Reading policy text from disk or the command line into a bundle. The only I/O of this folder. */
#ifndef ECLUSA_POLICY_SOURCE_H
#define ECLUSA_POLICY_SOURCE_H

#include "common/buf.h"
#include "common/failure.h"

#define POLICY_FILE_BYTES_MAX   ((size_t)1 << 20)
#define POLICY_BUNDLE_BYTES_MAX ((size_t)32 << 20)

/**
 * @path a file, or a folder whose *.allow are taken in byte order (with the files that they include).
 * Refused: a missing, unreadable, empty-named or too large file, a folder without *.allow, a link that
 * leaves the folder. Appends a self-delimiting bundle to @to. Line numbers stay those of the files.
 */
int policy_source_read(const char *path, struct buf *to, struct failure *why);

/** Rules given as `--allow RULE`, each the text after "allow "; profile "run"; file "--allow", line = position. */
int policy_source_rules(
	const char *const *rules, size_t count, struct buf *to, struct failure *why);

#endif
