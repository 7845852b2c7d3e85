/*
 * See digest.h. OpenSSL's functions for SHA-256 itself, not the generic ones: those load providers, which costs a start
 * of eclusa 2 ms, and need all of libcrypto.
 */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "common/digest.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdlib.h>

struct digest {
	SHA256_CTX context;
};

struct digest *digest_new(void)
{
	struct digest *d = calloc(1, sizeof(*d));
	if (d != NULL && SHA256_Init(&d->context) != 1) {
		free(d);
		return NULL;
	}
	return d;
}

void digest_free(struct digest *d)
{
	free(d);
}

int digest_update(struct digest *d, struct slice text)
{
	return SHA256_Update(&d->context, text.ptr, text.len) == 1 ? 0 : -EIO;
}

static void hex_of(
	const unsigned char raw[static DIGEST_BYTES], char ret_text[static DIGEST_TEXT_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < DIGEST_BYTES; i++) {
		ret_text[2 * i] = digits[raw[i] >> 4];
		ret_text[2 * i + 1] = digits[raw[i] & 15];
	}
	ret_text[DIGEST_TEXT_BYTES - 1] = '\0';
}

int digest_finish(struct digest *d, char ret_text[static DIGEST_TEXT_BYTES])
{
	unsigned char raw[DIGEST_BYTES];
	if (SHA256_Final(raw, &d->context) != 1)
		return -EIO;
	hex_of(raw, ret_text);
	return 0;
}

int digest_of(struct slice text, char ret_text[static DIGEST_TEXT_BYTES])
{
	struct digest d;
	if (SHA256_Init(&d.context) != 1)
		return -EIO;
	int r = digest_update(&d, text);
	return r == 0 ? digest_finish(&d, ret_text) : r;
}

int digest_sha1(struct slice text, uint8_t ret[static DIGEST_SHA1_BYTES])
{
	SHA_CTX context; /* SHA1() asks the generic functions, with all of libcrypto behind them */
	bool good = SHA1_Init(&context) == 1 && SHA1_Update(&context, text.ptr, text.len) == 1 &&
		SHA1_Final(ret, &context) == 1;
	return good ? 0 : -EIO;
}
