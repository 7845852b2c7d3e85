/*
 * Request targets: splitting and normalising what a client asked for, once, before it is judged;
 * the result is what is sent on. Input: a peer's bytes.
 */
#ifndef ECLUSA_POLICY_TARGET_H
#define ECLUSA_POLICY_TARGET_H

#include "common/slice.h"

#define TARGET_PATH_BYTES 8192 /* a longer target is refused with 414 before this */

/** A normalised origin-form target. @path starts with '/'. Slices point into @storage. */
struct target {
	struct slice path;
	struct slice query; /* without '?'; meaningful only if has_query */
	bool has_query;
	bool encoded_slash; /* the path holds %2F, which stays as it is */
	char storage[2 * TARGET_PATH_BYTES];
};

/**
 * Normalise (policy-language.md 2.3): unreserved percent-escapes decoded, others kept with upper-case hex,
 * dot segments removed, nothing collapsed. @return 0; -EINVAL: not a target (no leading '/', fragment,
 * control, space or non-ASCII byte, bad escape in the path); -EILSEQ: encoded dot segment (also beside an
 * encoded slash, or with a ";parameter"), backslash (plain or encoded), encoded NUL or control byte,
 * doubly encoded dot or separator, overlong UTF-8; -ENAMETOOLONG: more than TARGET_PATH_BYTES.
 * All three are deny.smuggling or 400 to a caller. The query is kept byte for byte. On failure only
 * @ret->storage may have changed.
 */
int target_normalise(struct slice text, struct target *ret);

#endif
