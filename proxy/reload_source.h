/*
 * From a policy's path to a bundle that may be in force: read, verified where a signature is asked for, compiled, and with the
 * profile that is used. The one place through which the proxy gets rules from files. Whom to trust is read with them each time.
 */
#ifndef ECLUSA_PROXY_RELOAD_SOURCE_H
#define ECLUSA_PROXY_RELOAD_SOURCE_H

#include "ipc/message.h"
#include "policy/trust.h"

struct reload_source {
	const char *path;
	const char *profile;      /* NULL: the only one there is */
	const char *config;       /* TRUST_CONFIG */
	const char *const *trust; /* files of --trust */
	size_t trust_count;
};

/** What is wrong with a policy. */
struct reload_fault {
	int code;
	uint32_t errors;
	char text[MESSAGE_TEXT_BYTES]; /* findings, a line each, as many as fit */
};

/** Who wrote the rules. */
struct reload_bundle {
	struct buf text;
	struct policy_signer signer;
	char profile[MESSAGE_NAME_BYTES]; /* the one that is used, once it was found good */
};

/** The keys that are trusted now. @return 0 or negative errno. */
int reload_source_trust(const struct reload_source *s, struct trust *ret, struct failure *why);
/** @bundle's text is cleared, and holds what was read also when it is refused. @return 0 or negative errno. */
int reload_source_load(const struct reload_source *s, struct reload_bundle *bundle,
	struct reload_fault *ret_fault);
/** The same judgement of a bundle that is there already, and was verified when it was read: its key has to be trusted still. */
int reload_source_check(const struct reload_source *s, struct reload_bundle *bundle,
	struct reload_fault *ret_fault);
/** A bundle without a rule, for when there is no policy; the profile has a name. @return 0 or negative errno. */
int reload_source_nothing(const struct reload_source *s, struct reload_bundle *bundle);

#endif
