/*
 * What this process uses of OpenSSL's algorithms: a provider that hands on those of the default one that TLS and its certificates need here,
 * a fourth of all. OpenSSL 3.0 walks over everything that it has for each public key that it parses, a certificate's or a chain's; and what is left out
 * can't be reached by a peer's bytes. Which of them TLS offers to whom is tls_context.c's. docs/decisions/0029-fewer-algorithms.md.
 */
#include "proxy/tls_internal.h"

#include "common/cleanup.h"

#include <string.h>

#include <openssl/core_dispatch.h>
#include <openssl/core_names.h>
#include <openssl/provider.h>

#define NAME            "eclusa"
#define KEPT_MAX        32
#define NAMES_MAX       20
#define CERTIFICATE_KEY "structure=SubjectPublicKeyInfo" /* RFC 5280, 4.1 */

/** Of one kind of operation (provider-base(7)), by the first of an algorithm's names. Kinds that stand nowhere are not offered: keys are never written, and read elsewhere (leaf_ca.c). */
static const struct wanted {
	int operation;
	const char *names[NAMES_MAX];
} wanted[] = {
	{OSSL_OP_DIGEST,
		{"SHA1", "SHA2-224", "SHA2-256", "SHA2-384", "SHA2-512", "MD5", "MD5-SHA1"}},
	{OSSL_OP_CIPHER,
		{"AES-128-GCM", "AES-256-GCM", "AES-128-CCM", "AES-256-CCM", "ChaCha20-Poly1305",
			"AES-128-CBC", "AES-256-CBC", "AES-128-CBC-HMAC-SHA1",
			"AES-256-CBC-HMAC-SHA1", "AES-128-CBC-HMAC-SHA256",
			"AES-256-CBC-HMAC-SHA256", "AES-256-CTR"}},
	{OSSL_OP_MAC, {"HMAC"}},
	{OSSL_OP_KDF, {"HKDF", "TLS13-KDF", "TLS1-PRF"}},
	{OSSL_OP_RAND, {"CTR-DRBG", "SEED-SRC"}},
	/* Of certificates, of key exchange, and those by which TLS makes its own. */
	{OSSL_OP_KEYMGMT,
		{"EC", "RSA", "RSA-PSS", "ED25519", "ED448", "X25519", "DH", "HMAC", "TLS1-PRF",
			"HKDF"}},
	{OSSL_OP_KEYEXCH, {"ECDH", "X25519", "DH", "TLS1-PRF", "HKDF"}},
	{OSSL_OP_SIGNATURE, {"ECDSA", "RSA", "ED25519", "ED448", "HMAC"}},
	{OSSL_OP_ASYM_CIPHER, {"RSA"}},
	/* Of a certificate's key alone. DER: what finds out which of them it is. */
	{OSSL_OP_DECODER, {"EC", "RSA", "RSA-PSS", "ED25519", "ED448", "DER"}},
};
/** Of the process, as OpenSSL gives nothing of ours to what it calls. Written once, before anything is asked. */
static struct {
	OSSL_PROVIDER *whole;
	OSSL_ALGORITHM lists[array_size(wanted)][KEPT_MAX]; /* an empty one is the end */
} kept;

/** @names: "EC:id-ecPublicKey:...". */
static bool is_called(const char *names, const char *name)
{
	size_t len = strlen(name);
	return strncmp(names, name, len) == 0 && (names[len] == ':' || names[len] == '\0');
}

static bool is_wanted(const struct wanted *w, const OSSL_ALGORITHM *a)
{
	if (w->operation == OSSL_OP_DECODER &&
		strstr(a->property_definition, CERTIFICATE_KEY) == NULL)
		return false;
	for (size_t i = 0; i < NAMES_MAX && w->names[i] != NULL; i++) {
		if (is_called(a->algorithm_names, w->names[i]))
			return true;
	}
	return false;
}

/** @to: its end is empty. */
static void keep(const struct wanted *w, OSSL_ALGORITHM to[static KEPT_MAX])
{
	int no_cache = 0;
	size_t n = 0;
	const OSSL_ALGORITHM *a =
		OSSL_PROVIDER_query_operation(kept.whole, w->operation, &no_cache);
	for (; a != NULL && a->algorithm_names != NULL && n < KEPT_MAX - 1; a++) {
		if (is_wanted(w, a))
			to[n++] = *a;
	}
}

/** OSSL_FUNC_provider_query_operation_fn. */
static const OSSL_ALGORITHM *query(void *whole, int operation, int *ret_no_cache)
{
	(void)whole;
	*ret_no_cache = 0;
	for (size_t i = 0; i < array_size(wanted); i++) {
		if (wanted[i].operation == operation)
			return kept.lists[i];
	}
	return NULL;
}

/** OSSL_FUNC_provider_get_capabilities_fn: which groups TLS may use. */
static int capabilities(void *whole, const char *name, OSSL_CALLBACK *each, void *arg)
{
	(void)whole;
	return OSSL_PROVIDER_get_capabilities(kept.whole, name, each, arg);
}

static int provider_init(const OSSL_CORE_HANDLE *core, const OSSL_DISPATCH *of_core,
	const OSSL_DISPATCH **ret, void **ret_context)
{
	static const OSSL_DISPATCH functions[] = {
		{OSSL_FUNC_PROVIDER_QUERY_OPERATION, (void (*)(void))query},
		{OSSL_FUNC_PROVIDER_GET_CAPABILITIES, (void (*)(void))capabilities},
		{0, NULL},
	};
	(void)core;
	(void)of_core;
	*ret = functions;
	*ret_context = OSSL_PROVIDER_get0_provider_ctx(kept.whole); /* what its functions want */
	return 1;
}

void tls_provider_load(void)
{
	if (kept.whole != NULL)
		return;
	OSSL_LIB_CTX *apart = OSSL_LIB_CTX_new(); /* stays, with the provider in it */
	if (apart == NULL)
		return;
	kept.whole = OSSL_PROVIDER_load(apart, "default");
	if (kept.whole == NULL) {
		OSSL_LIB_CTX_free(apart);
		return;
	}
	for (size_t i = 0; i < array_size(wanted); i++)
		keep(&wanted[i], kept.lists[i]);
	if (OSSL_PROVIDER_add_builtin(NULL, NAME, provider_init) == 1)
		(void)OSSL_PROVIDER_load(NULL, NAME); /* else all are used */
}
