/*
 * A worker's leaf key, and the leaves over it as the keeper sent them. See leaf.h. Not the CA: that
 * is ca.c's and the keeper's.
 */
#include "proxy/leaf_openssl.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>

/** What stands before a point in the DER form of a key on P-256, and the point: uncompressed (RFC 5480, section 2). */
static const unsigned char der_head[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce,
	0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42,
	0x00};
#define POINT_BYTES ((size_t)65)

static_assert(sizeof(der_head) + POINT_BYTES <= LEAF_PUBLIC_KEY_BYTES_MAX, "such a key fits");

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

bool leaf_set_p256(X509 *x, EVP_PKEY *key)
{
	unsigned char *point = NULL;
	size_t len = EVP_PKEY_get1_encoded_public_key(key, &point);
	ASN1_OBJECT *algorithm = OBJ_nid2obj(NID_X9_62_id_ecPublicKey);
	if (len == POINT_BYTES &&
		X509_PUBKEY_set0_param(X509_get_X509_PUBKEY(x), algorithm, V_ASN1_OBJECT,
			OBJ_nid2obj(NID_X9_62_prime256v1), point, (int)len) == 1)
		return true; /* the point is the certificate's */
	OPENSSL_free(point);
	return false;
}

static int public_key_write(struct leaf_key *key)
{
	unsigned char *point = NULL;
	size_t len = EVP_PKEY_get1_encoded_public_key(key->pair, &point);
	if (len == POINT_BYTES) {
		memcpy(key->public_key, der_head, sizeof(der_head));
		memcpy(key->public_key + sizeof(der_head), point, len);
		key->public_key_len = sizeof(der_head) + len;
	}
	OPENSSL_free(point);
	return len == POINT_BYTES ? 0 : -EIO;
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
