/*
 * The manifest of a policy: the files that it is made of, and the bytes of each. What is signed. Pure. As text: a head
 * line, then for each file "<sha256 in hex>  <path>\n", paths relative to the policy's folder and in byte order, so that
 * `sha256sum -c` reads it. A set of files has one text, and every other text is refused.
 */
#ifndef ECLUSA_POLICY_MANIFEST_H
#define ECLUSA_POLICY_MANIFEST_H

#include "common/digest.h"
#include "policy/bundle.h"

#define MANIFEST_BYTES_MAX ((size_t)512 << 10) /* 1,024 files fit */

/** One file. @path points into what the manifest was made of. */
struct manifest_entry {
	char digest[DIGEST_TEXT_BYTES];
	struct slice path;
};

/** In order of paths; large: keep it on the heap. */
struct manifest {
	struct manifest_entry items[BUNDLE_FILES_MAX];
	size_t count;
};

/** Of the texts of a bundle, whose names begin with @prefix_len bytes that are left out. @return 0, -EINVAL, -EIO. */
int manifest_of_bundle(struct slice bundle, size_t prefix_len, struct manifest *ret);
/** @return 0, or -EINVAL with the line that is wrong, and *ret in any state. */
int manifest_parse(struct slice text, struct manifest *ret, unsigned *ret_line);
/** Append the text. @return 0, -ENOBUFS, -ENOMEM. */
int manifest_write(const struct manifest *m, struct buf *to);

enum manifest_difference {
	MANIFEST_SAME,
	MANIFEST_CHANGED,  /* the file's bytes are others */
	MANIFEST_UNLISTED, /* the file is there, and not listed */
	MANIFEST_MISSING,  /* the file is listed, and not part of the policy */
};

/** The first difference in order of paths, and its path. */
enum manifest_difference manifest_compare(
	const struct manifest *listed, const struct manifest *present, struct slice *ret_path);

#endif
