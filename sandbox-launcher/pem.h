/* The certificates of a PEM text (RFC 7468), one after the other, as DER. What stands between them is passed over. */
#ifndef ECLUSA_SANDBOX_LAUNCHER_PEM_H
#define ECLUSA_SANDBOX_LAUNCHER_PEM_H

#include "common/buf.h"

/** @der is borrowed for the call. @return 0, or a negative errno that ends the visit. */
typedef int pem_visit(struct slice der, void *arg);

/** @return 0; -EBADMSG: one can't be decoded; -ENOMEM; or what @visit returned. */
int pem_each(struct slice text, pem_visit *visit, void *arg);
/** Append them as they are written, without what stands between them, which may be somebody's key. @return 0, -ENOMEM, -ENOBUFS. */
int pem_copy(struct slice text, struct buf *to);

#endif
