/*
 * Whose signature a policy needs before it is used: read the configuration and the keys that it names, and read policies
 * as launcher, proxy and tools all do. What was read is what is verified and compiled: files are opened once.
 */
#ifndef ECLUSA_POLICY_TRUST_H
#define ECLUSA_POLICY_TRUST_H

#include "common/sign.h"
#include "policy/config.h"
#include "policy/source.h"

#define TRUST_CONFIG "/etc/eclusa/config"

/** Keys of which one must have signed; none: no signature is asked for. Plain data. */
struct trust {
	struct sign_public keys[CONFIG_TRUST_MAX];
	size_t count;
	bool allow_rules; /* rules of the command line hold although policies must be signed */
};

/** Who signed what was read; for the policy events. */
struct policy_signer {
	char key_id[SIGN_ID_BYTES]; /* "" where no signature was asked for */
};

/**
 * What the configuration file asks for, and @files (of --trust): keys of which one must have signed. Files narrow the
 * configuration: each has to be one of its keys. @config NULL: none is read; TRUST_CONFIG for what runs programs. A
 * file that is not there asks for nothing; any other that can't be read or has a fault is a failure.
 */
int trust_open(const char *config, const char *const *files, size_t count, struct trust *ret,
	struct failure *why);

/**
 * Read a policy (policy_source_read()) and verify it, if @t has keys. @return 0; -EKEYREJECTED: not signed, by nobody
 * who is trusted, or other bytes than those that were signed; another negative errno. @ret_signer may be NULL.
 */
int trust_read_policy(const struct trust *t, const char *path, struct buf *to,
	struct policy_signer *ret_signer, struct failure *why);
/** Whether what was signed by @signer before would be taken now: one of the keys, or none is asked for. */
bool trust_has_signer(const struct trust *t, const struct policy_signer *signer);
/** Rules of the command line (policy_source_rules()). @return as above; refused where only signed policies count. */
int trust_read_rules(const struct trust *t, const char *const *rules, size_t count, struct buf *to,
	struct failure *why);

#endif
