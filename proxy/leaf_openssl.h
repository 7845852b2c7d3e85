/* The OpenSSL objects inside of leaves, for the TLS files only. */
#ifndef ECLUSA_PROXY_LEAF_OPENSSL_H
#define ECLUSA_PROXY_LEAF_OPENSSL_H

#include "proxy/leaf.h"

#include <openssl/evp.h>
#include <openssl/x509.h>

#define CA_KNOWN_KEYS 8 /* as many as there are workers at most */

/** A public key that came before: parsing one costs a third of a leaf, and each worker has one. */
struct known_key {
	EVP_PKEY *key;
	size_t der_len;
	uint8_t der[LEAF_PUBLIC_KEY_BYTES_MAX];
};

struct ca {
	EVP_PKEY *key;
	OSSL_LIB_CTX *library; /* of a key that was read; NULL: of one that was made */
	X509 *certificate;
	int64_t expires_s; /* no leaf lives longer */
	BUF_MEM *pem;
	struct known_key known[CA_KNOWN_KEYS];
	size_t known_next; /* the one to replace */
};

/** Fill ca->pem: the certificate's PEM, with a NUL behind its end. */
bool ca_write_pem(struct ca *ca);

/** Borrowed. */
X509 *leaf_certificate(const struct leaf *leaf);
EVP_PKEY *leaf_key_pair(const struct leaf_key *key);

/** A new P-256 key, or NULL. */
EVP_PKEY *leaf_new_p256(void);
/**
 * Give a certificate the public half of such a key. X509_set_pubkey() and i2d_PUBKEY() look through all encoders of all providers,
 * which takes longer than making the key. @return false: no such key, or no memory.
 */
bool leaf_set_p256(X509 *x, EVP_PKEY *key);
/** Whether it is on P-256, the only curve that keeper and workers use. */
bool leaf_is_p256(const EVP_PKEY *key);
/** Record a failure with OpenSSL's own words, and empty its queue. @return code */
int leaf_failure(struct failure *why, int code, const char *doing);

#endif
