/*
 * See sign.h. Everything happens in a library context of its own, which reads no configuration file: what OPENSSL_CONF
 * names can't change who is believed. libcrypto is loaded when a key is met: linked, it would cost every start of
 * eclusa a quarter of a millisecond of relocations, and few runs meet a key. A process that has it takes the one it has.
 */
#include "common/sign.h"

#include "common/digest.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdlib.h>

#define LIBRARY "libcrypto.so.3"

/* clang-format off */
#define FUNCTIONS(f) \
	f(OSSL_LIB_CTX_new) f(OSSL_LIB_CTX_free) f(BIO_new_mem_buf) f(BIO_free) \
	f(PEM_read_bio_PrivateKey_ex) f(PEM_read_bio_PUBKEY_ex) \
	f(EVP_PKEY_Q_keygen) f(EVP_PKEY_is_a) f(EVP_PKEY_free) \
	f(EVP_PKEY_get_raw_public_key) f(EVP_PKEY_new_raw_public_key_ex) \
	f(EVP_MD_CTX_new) f(EVP_MD_CTX_free) \
	f(EVP_DigestSignInit_ex) f(EVP_DigestSign) f(EVP_DigestVerifyInit_ex) f(EVP_DigestVerify)
/* clang-format on */

/** The library's functions under their own names, and a context. */
struct openssl {
#define MEMBER(name) __typeof__(&(name)) name;
	FUNCTIONS(MEMBER)
#undef MEMBER
	OSSL_LIB_CTX *context;
};

struct sign_key {
	struct openssl openssl;
	EVP_PKEY *key;
};

/** What stands before the 32 bytes of a public key in its DER form (RFC 8410, section 4). */
static const unsigned char der_head[] = {
	0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

/** The library stays loaded: it has handlers for the end of the process. @return 0, -ELIBACC, -ENOMEM. */
static int openssl_open(struct openssl *o)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL)
		return -ELIBACC;
#define FIND(name)                                                                                 \
	void *found_##name = dlsym(library, #name);                                                \
	if (found_##name == NULL)                                                                  \
		return -ELIBACC;                                                                   \
	memcpy(&o->name, &found_##name, sizeof(o->name));
	FUNCTIONS(FIND)
#undef FIND
	o->context = o->OSSL_LIB_CTX_new();
	return o->context == NULL ? -ENOMEM : 0;
}

static void openssl_close(struct openssl *o)
{
	o->OSSL_LIB_CTX_free(o->context);
	o->context = NULL;
}

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

static int key_empty(struct sign_key **ret)
{
	struct sign_key *k = calloc(1, sizeof(*k));
	int r = k == NULL ? -ENOMEM : openssl_open(&k->openssl);
	if (r < 0)
		free(k);
	else
		*ret = k;
	return r;
}

int sign_key_read(struct slice pem, struct sign_key **ret)
{
	bool password = false;
	struct sign_key *k;
	int r = pem.len > INT_MAX ? -EINVAL : key_empty(&k);
	if (r < 0)
		return r;
	const struct openssl *o = &k->openssl;
	BIO *bio = o->BIO_new_mem_buf(pem.ptr, (int)pem.len);
	if (bio != NULL)
		k->key = o->PEM_read_bio_PrivateKey_ex(
			bio, NULL, no_password, &password, o->context, NULL);
	o->BIO_free(bio);
	if (k->key != NULL && o->EVP_PKEY_is_a(k->key, "ED25519") == 1) {
		*ret = k;
		return 0;
	}
	sign_key_free(k);
	return bio == NULL ? -ENOMEM : password ? -EACCES : -EINVAL;
}

int sign_key_new(struct sign_key **ret)
{
	struct sign_key *k;
	int r = key_empty(&k);
	if (r < 0)
		return r;
	k->key = k->openssl.EVP_PKEY_Q_keygen(k->openssl.context, NULL, "ED25519");
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
	k->openssl.EVP_PKEY_free(k->key); /* wipes */
	openssl_close(&k->openssl);
	free(k);
}

int sign_key_public(const struct sign_key *k, struct sign_public *ret)
{
	struct sign_public made;
	size_t len = sizeof(made.raw);
	if (k->openssl.EVP_PKEY_get_raw_public_key(k->key, made.raw, &len) != 1 ||
		len != sizeof(made.raw) || name_public(&made) < 0)
		return -EIO;
	*ret = made;
	return 0;
}

int sign_make(
	const struct sign_key *k, struct slice text, unsigned char ret[static SIGN_SIGNATURE_BYTES])
{
	unsigned char made[SIGN_SIGNATURE_BYTES];
	size_t len = sizeof(made);
	const struct openssl *o = &k->openssl;
	EVP_MD_CTX *md = o->EVP_MD_CTX_new();
	if (md == NULL)
		return -ENOMEM;
	bool good = o->EVP_DigestSignInit_ex(md, NULL, NULL, o->context, NULL, k->key, NULL) == 1 &&
		o->EVP_DigestSign(md, made, &len, (const unsigned char *)text.ptr, text.len) == 1 &&
		len == sizeof(made);
	o->EVP_MD_CTX_free(md);
	if (!good)
		return -EIO;
	memcpy(ret, made, sizeof(made));
	return 0;
}

int sign_public_read(struct slice pem, struct sign_public *ret)
{
	struct openssl o;
	struct sign_public made;
	size_t len = sizeof(made.raw);
	bool password = false;
	int r = pem.len > INT_MAX ? -EINVAL : openssl_open(&o);
	if (r < 0)
		return r;
	BIO *bio = o.BIO_new_mem_buf(pem.ptr, (int)pem.len);
	EVP_PKEY *key = bio == NULL
		? NULL
		: o.PEM_read_bio_PUBKEY_ex(bio, NULL, no_password, &password, o.context, NULL);
	r = bio == NULL ? -ENOMEM : -EINVAL;
	if (key != NULL && o.EVP_PKEY_is_a(key, "ED25519") == 1 &&
		o.EVP_PKEY_get_raw_public_key(key, made.raw, &len) == 1 && len == sizeof(made.raw))
		r = name_public(&made);
	o.EVP_PKEY_free(key);
	o.BIO_free(bio);
	openssl_close(&o);
	if (r == 0)
		*ret = made;
	return r;
}

int sign_verify(const struct sign_public *k, struct slice text, struct slice signature)
{
	struct openssl o;
	if (signature.len != SIGN_SIGNATURE_BYTES)
		return -EKEYREJECTED;
	int r = openssl_open(&o);
	if (r < 0)
		return r;
	EVP_MD_CTX *md = o.EVP_MD_CTX_new();
	EVP_PKEY *key = o.EVP_PKEY_new_raw_public_key_ex(
		o.context, "ED25519", NULL, k->raw, sizeof(k->raw));
	r = md == NULL ? -ENOMEM : -EIO;
	if (md != NULL && key != NULL &&
		o.EVP_DigestVerifyInit_ex(md, NULL, NULL, o.context, NULL, key, NULL) == 1)
		r = o.EVP_DigestVerify(md, (const unsigned char *)signature.ptr, signature.len,
			    (const unsigned char *)text.ptr, text.len) == 1
			? 0
			: -EKEYREJECTED;
	o.EVP_MD_CTX_free(md);
	o.EVP_PKEY_free(key);
	openssl_close(&o);
	return r;
}
