/* The kernel settings of a namespace of ours, all of them, whatever the host has. */
#ifndef ECLUSA_NETD_SYSCTL_H
#define ECLUSA_NETD_SYSCTL_H

#include "common/failure.h"

enum sysctl_place { SYSCTL_GATEWAY, SYSCTL_SANDBOX };

/**
 * Write every setting in the current network namespace, before it has links, rules or sockets. A
 * setting that can't be made is a failure whose line names it; only a kernel without IPv6 may lack
 * IPv6's. @return 0 or negative errno.
 */
int sysctl_apply(enum sysctl_place place, struct failure *why);

#endif
