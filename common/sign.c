/*
 * See sign.h. Everything happens in a library context of its own, which reads no configuration file: what OPENSSL_CONF
 * names can't change who is believed.
 */
#include "common/sign.h"

#include "common/digest.h"

#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>

struct sign_key {
	OSSL_LIB_CTX *context;
	EVP_PKEY *key;
};

/** What stands before the 32 bytes of a public key in its DER form (RFC 8410, section 4). */
static const unsigned char der_head[] = {
	0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

/** Fill in the id of a key whose bytes are there. */
static int name_public(struct sign_public *k)
{
	char der[sizeof(der_head) + SIGN_PUBLIC_BYTES];
	char text[DIGEST_TEXT_BYTES];
	memcpy(der, der_head, sizeof(der_head));
	memcpy(der + sizeof(der_head), k->raw, sizeof(k->raw));
	int r = digest_of((struct slice){der, sizeof(der)}, text);
	if (r < 0)
		return r;
	memcpy(k->id, text, SIGN_ID_BYTES - 1);
	k->id[SIGN_ID_BYTES - 1] = '\0';
	return 0;
}

/** Nobody is asked for a password: @arg notes that one was wanted. */
static int no_password(char *to, int capacity, int writing, void *arg)
{
	(void)to, (void)capacity, (void)writing;
	*(bool *)arg = true;
	return -1;
}

static struct sign_key *key_empty(void)
{
	struct sign_key *k = calloc(1, sizeof(*k));
	if (k == NULL)
		return NULL;
	k->context = OSSL_LIB_CTX_new();
	if (k->context != NULL)
		return k;
	free(k);
	return NULL;
}

int sign_key_read(struct slice pem, struct sign_key **ret)
{
	bool password = false;
	struct sign_key *k = key_empty();
	if (pem.len > INT_MAX || k == NULL) {
		sign_key_free(k);
		return pem.len > INT_MAX ? -EINVAL : -ENOMEM;
	}
	BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	if (bio != NULL)
		k->key = PEM_read_bio_PrivateKey_ex(
			bio, NULL, no_password, &password, k->context, NULL);
	BIO_free(bio);
	if (k->key != NULL && EVP_PKEY_is_a(k->key, "ED25519") == 1) {
		*ret = k;
		return 0;
	}
	sign_key_free(k);
	return bio == NULL ? -ENOMEM : password ? -EACCES : -EINVAL;
}

int sign_key_new(struct sign_key **ret)
{
	struct sign_key *k = key_empty();
	if (k == NULL)
		return -ENOMEM;
	k->key = EVP_PKEY_Q_keygen(k->context, NULL, "ED25519");
	if (k->key == NULL) {
		sign_key_free(k);
		return -EIO;
	}
	*ret = k;
	return 0;
}

void sign_key_free(struct sign_key *k)
{
	if (k == NULL)
		return;
	EVP_PKEY_free(k->key); /* wipes */
	OSSL_LIB_CTX_free(k->context);
	free(k);
}

int sign_key_public(const struct sign_key *k, struct sign_public *ret)
{
	struct sign_public made;
	size_t len = sizeof(made.raw);
	if (EVP_PKEY_get_raw_public_key(k->key, made.raw, &len) != 1 || len != sizeof(made.raw) ||
		name_public(&made) < 0)
		return -EIO;
	*ret = made;
	return 0;
}

int sign_make(
	const struct sign_key *k, struct slice text, unsigned char ret[static SIGN_SIGNATURE_BYTES])
{
	unsigned char made[SIGN_SIGNATURE_BYTES];
	size_t len = sizeof(made);
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	if (md == NULL)
		return -ENOMEM;
	bool good = EVP_DigestSignInit_ex(md, NULL, NULL, k->context, NULL, k->key, NULL) == 1 &&
		EVP_DigestSign(md, made, &len, (const unsigned char *)text.ptr, text.len) == 1 &&
		len == sizeof(made);
	EVP_MD_CTX_free(md);
	if (!good)
		return -EIO;
	memcpy(ret, made, sizeof(made));
	return 0;
}

int sign_public_read(struct slice pem, struct sign_public *ret)
{
	struct sign_public made;
	size_t len = sizeof(made.raw);
	bool password = false;
	if (pem.len > INT_MAX)
		return -EINVAL;
	OSSL_LIB_CTX *context = OSSL_LIB_CTX_new();
	BIO *bio = context == NULL ? NULL : BIO_new_mem_buf(pem.ptr, (int)pem.len);
	EVP_PKEY *key = bio == NULL
		? NULL
		: PEM_read_bio_PUBKEY_ex(bio, NULL, no_password, &password, context, NULL);
	int r = bio == NULL ? -ENOMEM : -EINVAL;
	if (key != NULL && EVP_PKEY_is_a(key, "ED25519") == 1 &&
		EVP_PKEY_get_raw_public_key(key, made.raw, &len) == 1 && len == sizeof(made.raw))
		r = name_public(&made);
	EVP_PKEY_free(key);
	BIO_free(bio);
	OSSL_LIB_CTX_free(context);
	if (r == 0)
		*ret = made;
	return r;
}

int sign_verify(const struct sign_public *k, struct slice text, struct slice signature)
{
	if (signature.len != SIGN_SIGNATURE_BYTES)
		return -EKEYREJECTED;
	OSSL_LIB_CTX *context = OSSL_LIB_CTX_new();
	EVP_MD_CTX *md = EVP_MD_CTX_new();
	EVP_PKEY *key = context == NULL || md == NULL
		? NULL
		: EVP_PKEY_new_raw_public_key_ex(context, "ED25519", NULL, k->raw, sizeof(k->raw));
	int r = context == NULL || md == NULL ? -ENOMEM : -EIO;
	if (key != NULL && EVP_DigestVerifyInit_ex(md, NULL, NULL, context, NULL, key, NULL) == 1)
		r = EVP_DigestVerify(md, (const unsigned char *)signature.ptr, signature.len,
			    (const unsigned char *)text.ptr, text.len) == 1
			? 0
			: -EKEYREJECTED;
	EVP_MD_CTX_free(md);
	EVP_PKEY_free(key);
	OSSL_LIB_CTX_free(context);
	return r;
}
