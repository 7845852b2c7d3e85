/*
 * From a policy's path to a bundle that may be in force: read, verified where a signature is asked for, compiled, and with the
 * profile that is used. The one place through which the proxy gets rules from files.
 */
#ifndef ECLUSA_PROXY_RELOAD_SOURCE_H
#define ECLUSA_PROXY_RELOAD_SOURCE_H

#include "ipc/message.h"
#include "policy/trust.h"

struct reload_source {
	const char *path;
	const char *profile;
	struct trust trust;
};

/** What is wrong with a policy. */
struct reload_fault {
	int code;
	uint32_t errors;
	char text[MESSAGE_TEXT_BYTES]; /* findings, a line each, as many as fit */
};

/** @bundle is cleared, and holds what was read also when it is refused. @return 0 or negative errno. */
int reload_source_load(
	const struct reload_source *s, struct buf *bundle, struct reload_fault *ret_fault);
/** The same judgement of a bundle that is there already. */
int reload_source_check(
	const struct reload_source *s, struct slice bundle, struct reload_fault *ret_fault);
/** A bundle without a rule, for when there is no policy. @return 0 or negative errno. */
int reload_source_nothing(const struct reload_source *s, struct buf *bundle);

#endif
