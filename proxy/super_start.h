/* Super's first steps: its two messages with their descriptors, checked, and giving up what it started with. */
#ifndef ECLUSA_PROXY_SUPER_START_H
#define ECLUSA_PROXY_SUPER_START_H

#include "proxy/crew.h"

/**
 * Take MESSAGE_PROXY_START from the launcher, change to its uid, drop every capability, compile the policy, attach the
 * segment. @return 1; 0 when the launcher is gone; negative errno with a line in @why.
 */
int super_take_start(int launcher_fd, struct crew *crew, struct failure *why);
/** Take the descriptors of a received MESSAGE_LISTENERS; all are owned by the crew or closed. @return 0 or negative errno. */
int super_take_listeners(const struct message_listeners *message, const int *fds, size_t fd_count,
	struct crew *crew, struct failure *why);

#endif
