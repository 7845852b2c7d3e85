/*
 * Host uids that nobody has: one for each sandbox and one for each proxy, when Eclusa runs as
 * root. The range lies above what distributions, containers (systemd: up to 0x6fffffff) and
 * subordinate ids use; it is checked all the same.
 */
#ifndef ECLUSA_COMMON_UIDS_H
#define ECLUSA_COMMON_UIDS_H

#include "common/failure.h"

#include <sys/types.h>

#define ECLUSA_UID_BASE  ((uid_t)0x70ec0000) /* base + n; gids are the same numbers */
#define ECLUSA_UID_COUNT 16384
#define ECLUSA_UID_PROXY (ECLUSA_UID_BASE - 1) /* reserved for a proxy that all sandboxes share */

#define UIDS_FOLDER "/run/eclusa"
#define UIDS_FILE   "uids"

/**
 * Refuse if a user or a subordinate range of this host lies in the range (proxy's uid included):
 * /etc/passwd, /etc/subuid, and groups likewise. @return 0, -EADDRINUSE with a line that names the
 * entry, another negative errno.
 */
int uids_check(struct failure *why);
/**
 * Claim a uid for one sandbox or one proxy. It is ours as long as the returned lock descriptor (CLOEXEC) is
 * open, also through a kill -9. Needs root. @return the descriptor; -EUSERS when all are taken;
 * another negative errno.
 */
int uids_claim(uid_t *ret_uid, struct failure *why);

#endif
