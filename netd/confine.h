/* What netd itself may do. */
#ifndef ECLUSA_NETD_CONFINE_H
#define ECLUSA_NETD_CONFINE_H

#include "common/failure.h"

/**
 * Keep CAP_NET_ADMIN and CAP_SYS_ADMIN (setns, unshare) and no other capability, no_new_privs,
 * unreadable by other processes of the uid, and no descriptor from @first_fd up. @return 0 or
 * negative errno.
 */
int confine_apply(int first_fd, struct failure *why);

#endif
