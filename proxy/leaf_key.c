/*
 * A worker's leaf key, and the leaves over it as the keeper sent them. See leaf.h. Not the CA: that
 * is ca.c's and the keeper's.
 */
#include "proxy/leaf_openssl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

struct leaf_key {
	EVP_PKEY *pair;
	uint8_t public_key[LEAF_PUBLIC_KEY_BYTES_MAX];
	size_t public_key_len;
};

struct leaf {
	X509 *certificate;
	int64_t expires_s;
};

X509 *leaf_certificate(const struct leaf *leaf)
{
	return leaf->certificate;
}

EVP_PKEY *leaf_key_pair(const struct leaf_key *key)
{
	return key->pair;
}

EVP_PKEY *leaf_new_p256(void)
{
	return EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
}

bool leaf_is_p256(const EVP_PKEY *key)
{
	char group[32];
	size_t len = 0;
	return EVP_PKEY_is_a(key, "EC") == 1 &&
		EVP_PKEY_get_group_name(key, group, sizeof(group), &len) == 1 &&
		strcmp(group, "prime256v1") == 0;
}

int leaf_failure(struct failure *why, int code, const char *doing)
{
	const char *text = ERR_reason_error_string(ERR_peek_last_error());
	ERR_clear_error();
	return failure_set(why, code, "%s: %s", doing, text != NULL ? text : "out of memory");
}

static int public_key_write(struct leaf_key *key)
{
	unsigned char *at = key->public_key;
	int len = i2d_PUBKEY(key->pair, NULL);
	if (len <= 0 || len > LEAF_PUBLIC_KEY_BYTES_MAX || i2d_PUBKEY(key->pair, &at) != len)
		return -EIO;
	key->public_key_len = (size_t)len;
	return 0;
}

int leaf_key_new(struct leaf_key **ret, struct failure *why)
{
	struct leaf_key *key = calloc(1, sizeof(*key));
	if (key == NULL)
		return failure_set(why, -ENOMEM, "making the leaf key: out of memory");
	key->pair = leaf_new_p256();
	if (key->pair == NULL || public_key_write(key) < 0) {
		leaf_key_free(key);
		return leaf_failure(why, -EIO, "making the leaf key");
	}
	*ret = key;
	return 0;
}

void leaf_key_free(struct leaf_key *key)
{
	if (key == NULL)
		return;
	EVP_PKEY_free(key->pair);
	free(key);
}

struct slice leaf_key_public(const struct leaf_key *key)
{
	return (struct slice){(const char *)key->public_key, key->public_key_len};
}

/** Seconds since the epoch, or -1. */
static int64_t expiry_of(const X509 *certificate)
{
	struct tm tm;
	if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) != 1)
		return -1;
	return timegm(&tm);
}

int leaf_from_der(struct slice der, const struct leaf_key *key, struct leaf **ret)
{
	const unsigned char *at = (const unsigned char *)der.ptr;
	if (der.len == 0 || der.len > LEAF_DER_BYTES_MAX)
		return -EINVAL;
	struct leaf *leaf = calloc(1, sizeof(*leaf));
	if (leaf == NULL)
		return -ENOMEM;
	leaf->certificate = d2i_X509(NULL, &at, (long)der.len);
	bool valid = leaf->certificate != NULL && (const char *)at == der.ptr + der.len &&
		X509_check_private_key(leaf->certificate, key->pair) == 1;
	leaf->expires_s = valid ? expiry_of(leaf->certificate) : -1;
	ERR_clear_error();
	if (leaf->expires_s < 0) {
		leaf_free(leaf);
		return -EINVAL;
	}
	*ret = leaf;
	return 0;
}

void leaf_free(struct leaf *leaf)
{
	if (leaf == NULL)
		return;
	X509_free(leaf->certificate);
	free(leaf);
}

int64_t leaf_expires_s(const struct leaf *leaf)
{
	return leaf->expires_s;
}
