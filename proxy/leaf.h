/*
 * The interception CA and the leaves it signs: certificates that strict verifiers accept (SAN only,
 * at most 24 h). The CA's key exists only in struct ca, in the keeper. No I/O, no clock of its own.
 */
#ifndef ECLUSA_PROXY_LEAF_H
#define ECLUSA_PROXY_LEAF_H

#include "common/failure.h"
#include "common/slice.h"
#include "policy/host.h"
#include "proxy/limits.h"

#define LEAF_PUBLIC_KEY_BYTES_MAX 128 /* what a keeper_request holds; P-256 takes 91 */

struct ca;       /* keeper: P-256 key and its certificate */
struct leaf_key; /* worker: the one P-256 key of all its leaves */
struct leaf;     /* worker: a certificate over that key, reference-counted */

/** A new CA, valid from shortly before @now_s (wall seconds) for @lifetime_s. @return 0, -ENOMEM, -EIO. */
int ca_new(int64_t now_s, int64_t lifetime_s, struct ca **ret, struct failure *why);

/** Somebody's CA, as PEM: the first certificate of the one text, the private key of the other. */
struct ca_files {
	struct slice certificate;
	struct slice key;
};
/**
 * A CA out of files: a CA certificate that may sign certificates, has a subject key identifier and is valid at @now_s, with its
 * own RSA (2048 bits or more) or elliptic key. @return 0, -EINVAL with the remedy in @why, -ENOMEM.
 */
int ca_load(const struct ca_files *files, int64_t now_s, struct ca **ret, struct failure *why);
/** Wipes the key. Accepts NULL. */
void ca_free(struct ca *ca);
/** The certificate as PEM, NUL-terminated beyond its len; lives as long as the CA. */
struct slice ca_certificate_pem(const struct ca *ca);

/** A canonical name (host.name) as it comes over a channel, addresses without brackets. @return 0,
 * -EINVAL: not canonical. */
int leaf_name_parse(struct slice name, struct host *ret);

struct leaf_request {
	const struct host *host;
	struct slice public_key; /* SubjectPublicKeyInfo DER; P-256 only */
	int64_t now_s;
};

/**
 * Sign a leaf: empty subject, critical SAN with the name or address, serverAuth, random serial,
 * SKI, AKI = the CA's SKI. About 250 us, does not block. Policy is the caller's matter. @return
 * length, -EINVAL: key or name; -ENOBUFS; -EIO.
 */
int leaf_mint(struct ca *ca, const struct leaf_request *request,
	uint8_t ret_der[static LEAF_DER_BYTES_MAX]);

int leaf_key_new(struct leaf_key **ret, struct failure *why);
void leaf_key_free(struct leaf_key *key);
/** SubjectPublicKeyInfo DER, for requests to the keeper; lives as long as the key. */
struct slice leaf_key_public(const struct leaf_key *key);

/** Parse what the keeper sent; it must be over @key. @return 0, -EINVAL, -ENOMEM. */
int leaf_from_der(struct slice der, const struct leaf_key *key, struct leaf **ret);
void leaf_free(struct leaf *leaf);
int64_t leaf_expires_s(const struct leaf *leaf);

#endif
