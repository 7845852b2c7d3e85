/*
 * A checkpoint: a signed statement that a chain had this hash at this line at this time. Whoever has the public key can tell
 * then that nothing up to that line was changed since, by anybody who has not the private one.
 */
#ifndef ECLUSA_AUDIT_CHECKPOINT_H
#define ECLUSA_AUDIT_CHECKPOINT_H

#include "audit/chain.h"
#include "common/sign.h"

#define CHECKPOINT_LINES   1000 /* a new one after so many lines, */
#define CHECKPOINT_SECONDS 60   /* or so long after the first line that has none */

#define CHECKPOINT_POLICY_BYTES 72 /* "sha256:" and hex digits */

/** Whether the kernel takes its clock for synchronised (adjtimex(2)). */
enum checkpoint_clock { CHECKPOINT_CLOCK_UNKNOWN, CHECKPOINT_CLOCK_FREE, CHECKPOINT_CLOCK_SYNCED };

/** What is signed, and by which key. Plain data; texts are NUL-terminated. */
struct checkpoint {
	char chain[CHAIN_NAME_BYTES];
	uint64_t first, last; /* lines; the one before it ended at first - 1 */
	char head[DIGEST_TEXT_BYTES];
	uint64_t time_ms;
	char policy[CHECKPOINT_POLICY_BYTES];
	uint32_t clock; /* enum checkpoint_clock */
	uint32_t clock_error_us;
	char key[SIGN_ID_BYTES]; /* "" : nobody had a key; then there is no signature */
	unsigned char signature[SIGN_SIGNATURE_BYTES];
};

/** Fill in what only the signer knows: time and the clock's state; then sign. @key NULL: not signed. @return 0, -EIO, -ENOMEM. */
int checkpoint_sign(struct checkpoint *c, const struct sign_key *key);
/** @return 0; -EKEYREJECTED: not this key's signature of it; -EIO, -ENOMEM. */
int checkpoint_verify(const struct checkpoint *c, const struct sign_public *key);
/** From the line of an audit.checkpoint event. @return 0, -EBADMSG. */
int checkpoint_read(struct slice line, struct checkpoint *ret);
const char *checkpoint_clock_name(enum checkpoint_clock clock);

#endif
