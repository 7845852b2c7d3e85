/* Reading policy text from disk or the command line into a bundle. With trust.h the only I/O of this folder. */
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

#define SEAL_NAME_BYTES (2 * 255 + 16)

/** What stands beside a policy to say who answers for it: nobody's word until it was verified. */
struct policy_seal {
	char name
		[SEAL_NAME_BYTES]; /* of the manifest, as the user would name it; the signature's ends with .sig */
	size_t prefix_len;  /* bytes of the bundle's names that the manifest leaves out */
	int manifest_error; /* 0, or the errno (negative) of reading it; likewise below */
	int signature_error;
	struct buf manifest;
	struct buf signature;
};

/**
 * As policy_source_read(), and what stands beside: "manifest" and "manifest.sig" in a folder, beside a file
 * FILE "FILE.manifest" and "FILE.manifest.sig". @ret is initialised in any case; free it with policy_seal_fini().
 */
int policy_source_read_sealed(
	const char *path, struct buf *to, struct policy_seal *ret, struct failure *why);
void policy_seal_fini(struct policy_seal *s);

/** Rules given as `--allow RULE`, each the text after "allow "; profile "run"; file "--allow", line = position. */
int policy_source_rules(
	const char *const *rules, size_t count, struct buf *to, struct failure *why);

#endif
