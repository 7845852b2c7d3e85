/*
 * The certificate database of NSS (cert9.db) with one root that is trusted for servers: what Chromium looks for in
 * ~/.pki/nssdb. It is a file of SQLite with two rows, written by hand: docs/decisions/0019-trust-in-files.md.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_NSS_STORE_H
#define ECLUSA_SANDBOX_LAUNCHER_NSS_STORE_H

#include "common/buf.h"

/** What the file holds at most: one page for rows, one for their table's definition. */
#define NSS_STORE_BYTES ((size_t)2 * 16384)

/** Append the database to @to. @return 0; -EBADMSG: no certificate; -E2BIG: it is too large for one page; -ENOMEM, -ENOBUFS, -EIO. */
int nss_store_write(struct slice der, struct buf *to);

#endif
