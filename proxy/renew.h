/* A worker goes over to another policy, in the two steps of prepared.h. */
#ifndef ECLUSA_PROXY_RENEW_H
#define ECLUSA_PROXY_RENEW_H

#include "ipc/message.h"

struct worker;

/** MESSAGE_POLICY_PREPARE (with its bundle, which stays the caller's), _COMMIT or _DROP; the first is answered on super's channel. */
void renew_step(struct worker *w, struct message_policy_step *m, int bundle_fd);

/**
 * From now on flows end when the rule that allows them expires. Once for a worker, whose loop stands, and again for each policy
 * that comes into force.
 */
void renew_watch_expiry(struct worker *w);

#endif
