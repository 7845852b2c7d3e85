/* The OpenSSL objects inside of leaves, for the TLS files only. */
#ifndef ECLUSA_PROXY_LEAF_OPENSSL_H
#define ECLUSA_PROXY_LEAF_OPENSSL_H

#include "proxy/leaf.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

/** Borrowed. */
X509 *leaf_certificate(const struct leaf *leaf);
EVP_PKEY *leaf_key_pair(const struct leaf_key *key);

/** A new P-256 key, or NULL. */
EVP_PKEY *leaf_new_p256(void);
/** Whether it is on P-256, the only curve that keeper and workers use. */
bool leaf_is_p256(const EVP_PKEY *key);
/** Record a failure with OpenSSL's own words, and empty its queue. @return code */
int leaf_failure(struct failure *why, int code, const char *doing);

#endif
