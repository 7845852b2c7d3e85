/*
 * A trust store for Java: PKCS#12 (RFC 7292) with certificates only. It is neither encrypted nor has it a MAC, since all of it is
 * public and its place can't be written to; so any password opens it, and no password does: docs/decisions/0019-trust-in-files.md.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_JAVA_STORE_H
#define ECLUSA_SANDBOX_LAUNCHER_JAVA_STORE_H

#include "common/buf.h"

/** Append one certificate to what a store will hold. Errors are sticky in @bags. */
void java_store_add(struct buf *bags, struct slice der);
/** Append the store of what was added. Errors are sticky in @to. */
void java_store_write(struct slice bags, struct buf *to);

#endif
