/*
 * Ed25519 (RFC 8032), by OpenSSL: keys in PEM as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` write
 * them, signatures of 64 raw bytes as `openssl pkeyutl -verify -rawin` takes them.
 */
#ifndef ECLUSA_COMMON_SIGN_H
#define ECLUSA_COMMON_SIGN_H

#include "common/slice.h"

#define SIGN_PUBLIC_BYTES    32
#define SIGN_SIGNATURE_BYTES 64
#define SIGN_ID_BYTES        17
#define SIGN_PEM_BYTES_MAX   ((size_t)64 << 10) /* of a key file */

/** A public key, and how people call it. Plain data. */
struct sign_public {
	unsigned char raw[SIGN_PUBLIC_BYTES];
	char id[SIGN_ID_BYTES]; /* the first 16 hex digits of sha256 of the key's DER form (SubjectPublicKeyInfo) */
};

struct sign_key; /* a private key; wiped when freed */

/* All that load the library fail with -ELIBACC, too: it is not there. */

/** @return 0; -EINVAL: no PEM, or no Ed25519 key; -EACCES: the key needs a password; -ENOMEM. */
int sign_key_read(struct slice pem, struct sign_key **ret);
/** A new one from the kernel's randomness. @return 0, -EIO, -ENOMEM. */
int sign_key_new(struct sign_key **ret);
void sign_key_free(struct sign_key *k);
/** @return 0 or -EIO. */
int sign_key_public(const struct sign_key *k, struct sign_public *ret);
/** @return 0, -EIO, -ENOMEM. */
int sign_make(const struct sign_key *k, struct slice text,
	unsigned char ret[static SIGN_SIGNATURE_BYTES]);

/** The PEM form of a public key ("BEGIN PUBLIC KEY"). @return 0, -EINVAL, -ENOMEM. */
int sign_public_read(struct slice pem, struct sign_public *ret);
/** @return 0; -EKEYREJECTED: not this key's signature of this text, or no signature at all; -EIO, -ENOMEM. */
int sign_verify(const struct sign_public *k, struct slice text, struct slice signature);

#endif
