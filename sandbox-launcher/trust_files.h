/*
 * What clients read to know whom to trust, in each form that some client needs: the public roots, those of the caller and a certificate
 * authority of ours as a PEM bundle and as a store of Java, and that authority alone as a database of NSS. Contents only: where they lie is the
 * caller's.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_TRUST_FILES_H
#define ECLUSA_SANDBOX_LAUNCHER_TRUST_FILES_H

#include "common/buf.h"
#include "common/failure.h"

#define TRUST_BUNDLE_MAX ((size_t)8 << 20)

/** Owned. */
struct trust_files {
	struct buf bundle, java, nss;
	struct buf java_bags; /* of the system's roots, until finished */
};

void trust_files_init(struct trust_files *t);
void trust_files_fini(struct trust_files *t);
/**
 * Read the system's roots, and those of @more, the file of --upstream-ca, or NULL: whom the proxy trusts, a client trusts that speaks to the
 * host itself. Most of the work, for which no authority needs to be known yet.
 */
int trust_files_begin(struct trust_files *t, const char *more, struct failure *why);
/** Add the authority: @ca_pem's certificates to bundle and store, its first one to the database. */
int trust_files_finish(struct trust_files *t, struct slice ca_pem, struct failure *why);
#endif
