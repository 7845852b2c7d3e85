/*
 * Chains whose signatures were found valid in this process: an elliptic curve takes 60 to 600 us for one of them, and a host shows the same chain each time.
 * A signature under the same bytes by the same key stays valid, so that alone is remembered. That a root is trusted, names, uses, constraints, strength
 * and the time are OpenSSL's to judge, each time, before and after; what it hands over is a chain that it has built to a root. Certificates are a peer's.
 */
#include "proxy/tls_internal.h"
#include "proxy/limits.h"

#include <stdlib.h>
#include <string.h>

#define DIGEST_BYTES ((size_t)32)

struct tls_chains {
	X509_STORE_CTX_verify_fn whole; /* OpenSSL's own: signatures, and the time */
	uint8_t known[TLS_CHAINS_MAX]
		     [DIGEST_BYTES]; /* each at the place that it says; zeros: none */
};

/** Over all bytes of all certificates, from the host's to the root. */
static bool digest_chain(STACK_OF(X509) * chain, uint8_t ret[static DIGEST_BYTES])
{
	unsigned len = 0;
	EVP_MD_CTX *all = EVP_MD_CTX_new();
	bool good = all != NULL && EVP_DigestInit_ex(all, EVP_sha256(), NULL) == 1;
	for (int i = 0; good && i < sk_X509_num(chain); i++) {
		uint8_t one[EVP_MAX_MD_SIZE];
		good = X509_digest(sk_X509_value(chain, i), EVP_sha256(), one, &len) == 1 &&
			EVP_DigestUpdate(all, one, len) == 1;
	}
	good = good && EVP_DigestFinal_ex(all, ret, &len) == 1 && len == DIGEST_BYTES;
	EVP_MD_CTX_free(all);
	return good;
}

/** All of them. As ossl_x509_check_cert_time() of OpenSSL sees it, which finds the words for what is not. */
static bool is_time(STACK_OF(X509) * chain)
{
	for (int i = 0; i < sk_X509_num(chain); i++) {
		const X509 *x = sk_X509_value(chain, i);
		if (X509_cmp_current_time(X509_get0_notBefore(x)) >= 0 ||
			X509_cmp_current_time(X509_get0_notAfter(x)) <= 0)
			return false;
	}
	return true;
}

/** X509_STORE_set_verify(3): the last step but constraints of names. @return 1: valid. */
static int verify(X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	const struct tls_session *s = SSL_get_app_data(ssl);
	struct tls_chains *c = s->chains;
	STACK_OF(X509) *chain = X509_STORE_CTX_get0_chain(store);
	uint8_t digest[DIGEST_BYTES];
	if (!digest_chain(chain, digest))
		return c->whole(store);
	uint8_t *known = c->known[(digest[0] | digest[1] << 8) % TLS_CHAINS_MAX];
	if (memcmp(known, digest, sizeof(digest)) == 0 && is_time(chain))
		return 1;
	int valid = c->whole(store);
	if (valid == 1 && X509_STORE_CTX_get_error(store) == X509_V_OK)
		memcpy(known, digest, sizeof(digest));
	return valid;
}

/** What OpenSSL does where a store has nothing of its own. @return NULL when out of memory. */
static X509_STORE_CTX_verify_fn whole_of(X509_STORE *store)
{
	X509_STORE_CTX_verify_fn whole = NULL;
	X509_STORE_CTX *c = X509_STORE_CTX_new();
	if (c != NULL && X509_STORE_CTX_init(c, store, NULL, NULL) == 1)
		whole = X509_STORE_CTX_get_verify(c);
	X509_STORE_CTX_free(c);
	return whole;
}

struct tls_chains *tls_chains_new(X509_STORE *store)
{
	struct tls_chains *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return NULL;
	c->whole = whole_of(store);
	if (c->whole == NULL) {
		free(c);
		return NULL;
	}
	X509_STORE_set_verify(store, verify);
	return c;
}

void tls_chains_free(struct tls_chains *c)
{
	free(c);
}
