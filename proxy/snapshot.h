/*
 * A policy as a process has it in force: compiled, and counted, since flows and records point at its rules for
 * as long as they live. The last one to let go of it frees it.
 */
#ifndef ECLUSA_PROXY_SNAPSHOT_H
#define ECLUSA_PROXY_SNAPSHOT_H

#include "ipc/message.h"
#include "policy/policy.h"

struct snapshot {
	struct policy *policy;
	enum message_policy_origin origin;
	unsigned references;
};

/** Takes @policy over, also when there is no memory. @return with one reference; NULL: -ENOMEM. */
struct snapshot *snapshot_new(struct policy *policy, enum message_policy_origin origin);
/** @return s */
struct snapshot *snapshot_get(struct snapshot *s);
/** Accepts NULL. */
void snapshot_put(struct snapshot *s);

#endif
