/*
 * What the proxy's processes may do, by role. A confined process has no file system, no capability and no way to another
 * process; what it needs it has as descriptors. The same for an unprivileged user and for root of a user namespace: each role is forked
 * into namespaces of its own, whose uid is mapped to nobody.
 */
#ifndef ECLUSA_PROXY_CONFINE_H
#define ECLUSA_PROXY_CONFINE_H

#include "common/failure.h"

#include <stddef.h>
#include <sys/types.h>

enum confine_role {
	CONFINE_WORKER,   /* user, pid, mount namespaces; internet sockets and splice */
	CONFINE_KEEPER,   /* also an empty network namespace; its channels only */
	CONFINE_RECORDER, /* user, pid, mount namespaces; the segment and rings */
	CONFINE_ROLE_COUNT
};

/** Name of the process, as ps shows it. */
const char *confine_role_name(enum confine_role role);
/**
 * Fork into the role's namespaces. Single-threaded callers only; the child ends by _exit(). @return 0 in the child; the pid, with
 * *ret_pidfd owned by the caller; negative errno (-EPERM, -ENOSPC: the host refuses user namespaces).
 */
pid_t confine_fork(enum confine_role role, int *ret_pidfd);
/**
 * In the child: die with the parent, empty read-only root, no capability, no_new_privs, unreadable by others, seccomp filter. What needs
 * files must be done before. @return 0 or negative errno with a line in @why; then the child must end.
 */
int confine_enter(enum confine_role role, struct failure *why);
/** Close every descriptor but 0-2 and these (negative ones are skipped). */
int confine_keep_only(const int *fds, size_t count);

#endif
