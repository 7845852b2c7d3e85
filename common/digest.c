/* See digest.h. */
#include "common/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>

struct digest {
	EVP_MD_CTX *context;
};

struct digest *digest_new(void)
{
	struct digest *d = calloc(1, sizeof(*d));
	if (d == NULL)
		return NULL;
	d->context = EVP_MD_CTX_new();
	if (d->context == NULL || EVP_DigestInit_ex(d->context, EVP_sha256(), NULL) != 1) {
		digest_free(d);
		return NULL;
	}
	return d;
}

void digest_free(struct digest *d)
{
	if (d == NULL)
		return;
	EVP_MD_CTX_free(d->context);
	free(d);
}

int digest_update(struct digest *d, struct slice text)
{
	return EVP_DigestUpdate(d->context, text.ptr, text.len) == 1 ? 0 : -EIO;
}

int digest_finish(struct digest *d, char ret_text[static DIGEST_TEXT_BYTES])
{
	unsigned char raw[DIGEST_BYTES];
	if (EVP_DigestFinal_ex(d->context, raw, NULL) != 1)
		return -EIO;
	for (int i = 0; i < DIGEST_BYTES; i++)
		(void)snprintf(ret_text + 2 * i, 3, "%02x", raw[i]);
	return 0;
}

int digest_of(struct slice text, char ret_text[static DIGEST_TEXT_BYTES])
{
	struct digest *d = digest_new();
	if (d == NULL)
		return -ENOMEM;
	int r = digest_update(d, text);
	if (r == 0)
		r = digest_finish(d, ret_text);
	digest_free(d);
	return r;
}
