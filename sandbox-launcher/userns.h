/* The user namespace of a sandbox, and one for reading inputs of another owner. Nothing of policy. */
#ifndef ECLUSA_SANDBOX_LAUNCHER_USERNS_H
#define ECLUSA_SANDBOX_LAUNCHER_USERNS_H

#include "common/failure.h"

#include <sys/types.h>

/** Uid and gid inside every sandbox. */
#define SANDBOX_UID 1000
#define SANDBOX_GID 1000

/** Map one uid and gid of the namespace of @pid (our child, just cloned) to @uid and @gid of ours. */
int userns_map(pid_t pid, uid_t inside_uid, uid_t uid, gid_t inside_gid, gid_t gid);
/**
 * A descriptor of a user namespace that maps only @from to @to, for an id-mapped mount: files of @from then
 * belong to @to. Needs a short-lived child. @return descriptor or negative errno.
 */
int userns_for_idmap(uid_t from_uid, uid_t to_uid, gid_t from_gid, gid_t to_gid);
/** Whether this process is root of the initial user namespace. */
bool userns_is_initial_root(void);
/** privilege_enter_user_namespace(), with the remedy in @why where the host refuses. */
int userns_enter(struct failure *why);
/** What helps where the host refuses user namespaces, going by its settings. */
const char *userns_remedy(void);

#endif
