/*
 * Fewer of OpenSSL's algorithms: each kind of key that a host's certificate may have is read, verified and written down as before; other kinds are not known,
 * and no other algorithm is. Certificates are made in a library context of the test's own, which has all.
 */
#include "tests/unit/tls_lab.h"

#include <errno.h>

#include <openssl/kdf.h>
#include <openssl/provider.h>

static OSSL_LIB_CTX *all;
static OSSL_PROVIDER *whole; /* in it */

static int set_up(void **state)
{
	(void)state;
	tls_warm_up();
	all = OSSL_LIB_CTX_new();
	whole = OSSL_PROVIDER_load(all, "default");
	assert_non_null(whole);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(OSSL_PROVIDER_unload(whole), 1);
	OSSL_LIB_CTX_free(all);
	return 0;
}

static EVP_PKEY *key_new(const char *kind, const char *group)
{
	EVP_PKEY *key = NULL;
	EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(all, kind, NULL);
	assert_int_equal(EVP_PKEY_keygen_init(c), 1);
	if (group != NULL)
		assert_int_equal(EVP_PKEY_CTX_set_group_name(c, group), 1);
	assert_int_equal(EVP_PKEY_generate(c, &key), 1);
	EVP_PKEY_CTX_free(c);
	return key;
}

/** Self-signed, as a peer shows it, and read in this process's own context. */
static X509 *certificate_read(EVP_PKEY *key, bool digest)
{
	unsigned char *der = NULL;
	X509 *made = X509_new_ex(all, NULL);
	X509_set_version(made, X509_VERSION_3);
	X509_gmtime_adj(X509_getm_notBefore(made), -DAY);
	X509_gmtime_adj(X509_getm_notAfter(made), DAY);
	X509_set_pubkey(made, key);
	assert_true(X509_sign(made, key, digest ? EVP_sha256() : NULL) > 0);
	int len = i2d_X509(made, &der);
	const unsigned char *at = der;
	X509 *read = d2i_X509(NULL, &at, len);
	assert_non_null(read);
	OPENSSL_free(der);
	X509_free(made);
	return read;
}

static void keys_of_hosts_are_known(void **state)
{
	(void)state;
	static const struct {
		const char *kind, *group;
		bool digest;
	} kinds[] = {{"EC", "P-256", true}, {"EC", "P-384", true}, {"EC", "P-521", true},
		{"RSA", NULL, true}, {"RSA-PSS", NULL, true}, {"ED25519", NULL, false},
		{"ED448", NULL, false}};
	for (size_t i = 0; i < array_size(kinds); i++) {
		EVP_PKEY *key = key_new(kinds[i].kind, kinds[i].group);
		X509 *x = certificate_read(key, kinds[i].digest);
		if (X509_get0_pubkey(x) == NULL || X509_verify(x, X509_get0_pubkey(x)) != 1)
			fail_msg("%s", kinds[i].kind);
		X509_free(x);
		EVP_PKEY_free(key);
	}
}

static void other_keys_are_not(void **state)
{
	(void)state;
	EVP_PKEY *key = key_new("EC", "SM2");
	X509 *x = certificate_read(key, true);
	assert_null(X509_get0_pubkey(x));
	X509_free(x);
	EVP_PKEY_free(key);
	ERR_clear_error();
}

static struct slice text_of(BIO *bio)
{
	char *text;
	long len = BIO_get_mem_data(bio, &text);
	return (struct slice){text, (size_t)len};
}

/** The operator's CA, and a key file, which may be another's. @return what ca_load() says. */
static int ca_try(EVP_PKEY *key, EVP_PKEY *in_file, struct ca **ret)
{
	BIO *certificate = BIO_new(BIO_s_mem()), *file = BIO_new(BIO_s_mem());
	X509 *x = X509_new_ex(all, NULL);
	X509_set_version(x, X509_VERSION_3);
	X509_gmtime_adj(X509_getm_notBefore(x), -DAY);
	X509_gmtime_adj(X509_getm_notAfter(x), 9 * DAY);
	X509_set_pubkey(x, key);
	add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE");
	add_extension(x, x, NID_key_usage, "critical,keyCertSign");
	add_extension(x, x, NID_subject_key_identifier, "hash");
	assert_true(X509_sign(x, key, EVP_sha256()) > 0);
	assert_int_equal(PEM_write_bio_X509(certificate, x), 1);
	assert_int_equal(PEM_write_bio_PrivateKey(file, in_file, NULL, NULL, 0, NULL, NULL), 1);
	struct ca_files files = {text_of(certificate), text_of(file)};
	int r = ca_load(&files, time(NULL), ret, NULL);
	BIO_free(certificate);
	BIO_free(file);
	X509_free(x);
	return r;
}

static void a_ca_that_is_brought_signs(void **state)
{
	(void)state;
	static const char *const kinds[] = {"EC", "RSA"};
	for (size_t i = 0; i < array_size(kinds); i++) {
		EVP_PKEY *key = key_new(kinds[i], i == 0 ? "P-256" : NULL);
		EVP_PKEY *other = key_new(kinds[i], i == 0 ? "P-256" : NULL);
		struct ca *ca;
		struct leaf_key *pair;
		struct host host;
		uint8_t der[LEAF_DER_BYTES_MAX];
		assert_int_equal(ca_try(key, other, &ca), -EINVAL);
		assert_int_equal(ca_try(key, key, &ca), 0);
		assert_int_equal(leaf_key_new(&pair, NULL), 0);
		assert_int_equal(host_parse(SLICE("allowed.test"), &host), 0);
		struct leaf_request request = {&host, leaf_key_public(pair), time(NULL)};
		int len = leaf_mint(ca, &request, der);
		const unsigned char *at = der;
		X509 *leaf = d2i_X509(NULL, &at, len);
		assert_non_null(leaf);
		assert_int_equal(X509_verify(leaf, key), 1);
		assert_int_equal(X509_verify(leaf, other), 0);
		X509_free(leaf);
		leaf_key_free(pair);
		ca_free(ca);
		EVP_PKEY_free(other);
		EVP_PKEY_free(key);
		ERR_clear_error();
	}
}

static void nothing_else_is_there(void **state)
{
	(void)state;
	static const char *const ciphers[] = {"DES-EDE3-CBC", "CAMELLIA-128-CBC", "SM4-GCM"};
	static const char *const digests[] = {"SM3", "RIPEMD-160", "SHAKE-256"};
	for (size_t i = 0; i < array_size(ciphers); i++)
		assert_null(EVP_CIPHER_fetch(NULL, ciphers[i], NULL));
	for (size_t i = 0; i < array_size(digests); i++)
		assert_null(EVP_MD_fetch(NULL, digests[i], NULL));
	assert_null(EVP_KDF_fetch(NULL, "SCRYPT", NULL));
	assert_null(EVP_KEYMGMT_fetch(NULL, "DSA", NULL));
	assert_int_equal(OSSL_PROVIDER_available(NULL, "default"), 0);
	ERR_clear_error();
}

/** Whether both lists hold the same suites, in the same order. */
static bool same_suites(SSL_CTX *a, SSL_CTX *b)
{
	STACK_OF(SSL_CIPHER) *x = SSL_CTX_get_ciphers(a), *y = SSL_CTX_get_ciphers(b);
	bool same = sk_SSL_CIPHER_num(x) == sk_SSL_CIPHER_num(y);
	for (int i = 0; same && i < sk_SSL_CIPHER_num(x); i++)
		same = SSL_CIPHER_get_id(sk_SSL_CIPHER_value(x, i)) ==
			SSL_CIPHER_get_id(sk_SSL_CIPHER_value(y, i));
	return same;
}

static void tls_lacks_no_suite(void **state)
{
	(void)state;
	SSL_CTX *here = SSL_CTX_new(TLS_client_method());
	SSL_CTX *there = SSL_CTX_new_ex(all, NULL, TLS_client_method());
	assert_non_null(here);
	assert_true(same_suites(here, there));
	SSL_CTX_free(here);
	SSL_CTX_free(there);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_of_hosts_are_known),
		cmocka_unit_test(other_keys_are_not),
		cmocka_unit_test(a_ca_that_is_brought_signs),
		cmocka_unit_test(nothing_else_is_there),
		cmocka_unit_test(tls_lacks_no_suite),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
