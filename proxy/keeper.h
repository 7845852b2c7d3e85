/*
 * The keeper: the one process that holds the CA key. It speaks to workers only, over seqpacket, and signs only
 * names that some profile of the policy admits on some port. The key of a CA that it makes exists in its memory alone; one
 * that the operator brings is read by this process and no other.
 */
#ifndef ECLUSA_PROXY_KEEPER_H
#define ECLUSA_PROXY_KEEPER_H

#include "policy/policy.h"

#include <stdint.h>

#define KEEPER_DER_BYTES 2048

/** Worker -> keeper: mint a leaf for this name over this public key (SubjectPublicKeyInfo DER, P-256). */
struct keeper_request {
	uint32_t id; /* echoed */
	uint16_t public_key_len;
	uint16_t reserved;
	char name[HOST_NAME_BYTES];
	uint8_t public_key[128];
};

/** Keeper -> worker. der_len 0: refused (the name is outside policy) or failed. */
struct keeper_reply {
	uint32_t id;
	uint16_t der_len;
	uint16_t reserved;
	uint8_t der
		[KEEPER_DER_BYTES]; /* the leaf; the issuer is the CA that every worker context has as PEM */
};

struct keeper_context {
	const int *
		worker_fds; /* one seqpacket end a worker; super replaces none: a restarted worker inherits the same channel */
	unsigned worker_count;
	int super_fd; /* MESSAGE_PROXY_READY or MESSAGE_FAILED once; MESSAGE_POLICY_PREPARE ... */
	struct policy *policy; /* taken over */
	int ca_fd;             /* certificate and key in PEM, -1: a CA is made, for so long */
	int ca_key_fd;
	uint32_t ca_lifetime_s;
	int audit_key_fd;    /* the install key in PEM; -1: checkpoints are not signed */
	int attest_fd;       /* the recorder's channel: attest.h */
	const char *profile; /* whose digest checkpoints tell */
};

/** Have a CA, tell its PEM, serve until every worker's channel has ended. Called in the forked child. @return exit status. */
int keeper_run(const struct keeper_context *context);

#endif
