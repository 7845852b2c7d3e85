/*
 * A policy that was compiled and is not in force yet: the first of the two steps in which keeper and workers change over, so
 * that either all of them do or none. What super says is trusted; the text was compiled by it before.
 */
#ifndef ECLUSA_PROXY_PREPARED_H
#define ECLUSA_PROXY_PREPARED_H

#include "ipc/message.h"
#include "policy/policy.h"

/** Zero-initialise. */
struct prepared {
	struct policy *policy; /* NULL: nothing is prepared */
	uint32_t version;
	uint32_t origin; /* enum message_policy_origin */
};

/** MESSAGE_POLICY_PREPARE with its bundle, which stays the caller's. What was prepared before is dropped. @return 0 or negative errno. */
int prepared_compile(struct prepared *p, const struct message_policy_step *m, int bundle_fd);
/** MESSAGE_POLICY_COMMIT: hand it over. NULL: that version was not prepared. */
struct policy *prepared_take(struct prepared *p, uint32_t version);
void prepared_drop(struct prepared *p);

/** Compile a bundle out of a memory file, whose position does not count. @return 0 or negative errno. */
int prepared_policy(int bundle_fd, struct policy **ret, struct policy_report *report);

#endif
