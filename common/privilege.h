/* Giving up privileges and entering a user namespace of one's own. Every step is checked by the caller. */
#ifndef ECLUSA_COMMON_PRIVILEGE_H
#define ECLUSA_COMMON_PRIVILEGE_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * Enter a new user namespace in which the caller's uid and gid are 0. Afterwards the process
 * can make namespaces of every kind and can't touch anything it could not touch before.
 * Single-threaded callers only. @return 0 or negative errno (-EPERM, -ENOSPC: refused by the host).
 */
int privilege_enter_user_namespace(void);
/** Set real, effective, saved uid and gid and clear supplementary groups. Needs CAP_SETUID. */
int privilege_change_user(uid_t uid, gid_t gid);
/** Empty the five capability sets and set no_new_privs. */
int privilege_drop_all(void);
/** Forbid other processes of this uid to read this one (also after exec, callers must repeat it). */
int privilege_hide(void);
/** Whether uid 0 here is uid 0 of the host, and this process has it. What can't be found out counts as yes. */
bool privilege_is_host_root(void);
/** Close every descriptor from @first up. */
int privilege_close_from(int first);
/** Ask for @signal when the parent dies; fails with -ESRCH if it is gone already. */
int privilege_die_with_parent(pid_t parent, int signal);

#endif
