/*
 * The state folder: the last policy that was in force, so that a start without readable files has it; and a lock, so that
 * one proxy has the folder. A copy is replaced whole, after it is on disk, and is not trusted when its digest does not fit.
 * The signature that a policy had is not kept with it, but who signed is, so that a key that is trusted no more brings no
 * policy back.
 */
#ifndef ECLUSA_PROXY_LAST_GOOD_H
#define ECLUSA_PROXY_LAST_GOOD_H

#include "common/buf.h"
#include "common/failure.h"
#include "policy/trust.h"

/** Create (0700) and lock it. @return descriptor, which is the lock; -EBUSY: another proxy has it; another negative errno. */
int last_good_open(const char *folder, struct failure *why);
/** @return 0 or negative errno: what was there before stays. */
int last_good_save(int folder_fd, const struct policy_signer *signer, struct slice bundle);
/** Append the bundle. @return 0; -ENOENT: there never was one; -EBADMSG, another negative errno: there was, and it is lost. */
int last_good_read(int folder_fd, struct buf *to, struct policy_signer *ret_signer);

#endif
