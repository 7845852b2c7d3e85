/*
 * The configuration of a host: what an administrator says for everybody who uses Eclusa there. Text in the words of
 * allowlists (comments, blanks, no control bytes), one setting a line. Pure; trust.h reads the file.
 */
#ifndef ECLUSA_POLICY_CONFIG_H
#define ECLUSA_POLICY_CONFIG_H

#include "common/failure.h"
#include "common/slice.h"

#define CONFIG_BYTES_MAX  ((size_t)64 << 10)
#define CONFIG_TRUST_MAX  16
#define CONFIG_PATH_BYTES 256

/** A file with a public key, and the line that names it. */
struct config_trust {
	char path[CONFIG_PATH_BYTES]; /* absolute */
	unsigned line;
};

struct config {
	struct config_trust trust[CONFIG_TRUST_MAX]; /* trust FILE */
	size_t trust_count;
	bool allow_rules; /* allow-rules yes: --allow holds although policies must be signed */
};

/** @file for the findings. @return 0, or -EINVAL with "file:line:column: ..." in @why; -ENOMEM. */
int config_parse(const char *file, struct slice text, struct config *ret, struct failure *why);

#endif
