/*
 * How the recorder has its checkpoints signed: it asks the keeper, which holds the install key, over a channel of their own.
 * What is asked for is a chain's head and no other text, so the key can't be made to say anything else.
 */
#ifndef ECLUSA_PROXY_ATTEST_H
#define ECLUSA_PROXY_ATTEST_H

#include "audit/checkpoint.h"
#include "common/failure.h"
#include "policy/policy.h"

/** Both ways: the recorder fills in chain, first, last and head, the keeper the rest. */
struct attest_message {
	int32_t result; /* of the answer: 0 or negative errno */
	uint32_t reserved;
	struct checkpoint checkpoint;
};

/** The keeper's side: the key, if there is one, and whose policy is told. */
struct attest {
	int fd; /* -1: ended */
	struct sign_key *key;
	const char *profile;
};

/** Read the key from @key_fd (-1: there is none). @return 0 or negative errno. */
int attest_start(struct attest *a, int fd, int key_fd, struct failure *why);
void attest_fini(struct attest *a);
/** Something came on fd: answer it. */
void attest_hear(struct attest *a, const struct policy *policy);

/**
 * The recorder's side: have @c completed. Waits at most @wait_ms. @return 0, -ETIMEDOUT, or another negative errno: then there is no
 * checkpoint now.
 */
int attest_ask(int fd, struct checkpoint *c, int wait_ms);

#endif
