/* The CA, its leaves and their cache: strict verifiers accept them, nothing else fits. Cases D07, D08, D10, H03. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/leaf_cache.h"
#include "proxy/leaf_openssl.h"

#include <stdio.h>
#include <time.h>

#include <openssl/pem.h>
#include <openssl/x509v3.h>

static struct ca *ca;
static struct leaf_key *key;

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(ca_new(time(NULL), CA_LIFETIME_SECONDS, &ca, NULL), 0);
	assert_int_equal(leaf_key_new(&key, NULL), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	ca_free(ca);
	leaf_key_free(key);
	return 0;
}

static struct leaf *minted(const char *name, int64_t now_s)
{
	struct host host;
	uint8_t der[LEAF_DER_BYTES_MAX];
	struct leaf *leaf;
	assert_int_equal(leaf_name_parse(slice_of(name), &host), 0);
	struct leaf_request request = {&host, leaf_key_public(key), now_s};
	int len = leaf_mint(ca, &request, der);
	assert_in_range(len, 1, sizeof(der));
	struct slice slice = {(const char *)der, (size_t)len};
	assert_int_equal(leaf_from_der(slice, key, &leaf), 0);
	return leaf;
}

/** The CA certificate, as a client reads it. */
static X509 *root(void)
{
	struct slice pem = ca_certificate_pem(ca);
	assert_int_equal(pem.ptr[pem.len], '\0');
	BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	X509 *x = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	assert_non_null(x);
	BIO_free(bio);
	return x;
}

/** Verify strictly for a server of this name. @return an X509_V_ code */
static int verify(X509 *leaf, const struct host *host)
{
	X509_STORE *store = X509_STORE_new();
	X509_STORE_CTX *context = X509_STORE_CTX_new();
	X509 *trusted = root();
	assert_int_equal(X509_STORE_add_cert(store, trusted), 1);
	assert_int_equal(X509_STORE_CTX_init(context, store, leaf, NULL), 1);
	X509_VERIFY_PARAM *param = X509_STORE_CTX_get0_param(context);
	assert_int_equal(X509_STORE_CTX_set_default(context, "ssl_server"), 1);
	X509_VERIFY_PARAM_set_flags(param, X509_V_FLAG_X509_STRICT);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	if (host->kind == HOST_ADDRESS)
		X509_VERIFY_PARAM_set1_ip(
			param, host->address.bytes, host->address.family == 6 ? 16 : 4);
	else
		X509_VERIFY_PARAM_set1_host(param, host->name, 0);
	(void)X509_verify_cert(context);
	int error = X509_STORE_CTX_get_error(context);
	X509_STORE_CTX_free(context);
	X509_STORE_free(store);
	X509_free(trusted);
	return error;
}

/** A name of exactly this length: labels of 62 and a rest. */
static char *name_of_length(size_t len, char to[static HOST_NAME_BYTES])
{
	memset(to, 'a', len);
	to[len] = '\0';
	for (size_t i = 62; i + 1 < len; i += 63)
		to[i] = '.';
	return to;
}

static void strict_verifiers_accept_a_leaf(void **state)
{
	(void)state;
	char long_name[HOST_NAME_BYTES];
	char longest_name[HOST_NAME_BYTES];
	const char *const names[] = {"allowed.test", "203.0.113.10", "2001:db8::10",
		"under_score.test", name_of_length(75, long_name),
		name_of_length(253, longest_name)};
	for (size_t i = 0; i < array_size(names); i++) {
		struct host host;
		assert_int_equal(leaf_name_parse(slice_of(names[i]), &host), 0);
		struct leaf *leaf = minted(names[i], time(NULL));
		int error = verify(leaf_certificate(leaf), &host);
		if (error != X509_V_OK)
			fail_msg("%s: %s", names[i], X509_verify_cert_error_string(error));
		leaf_free(leaf);
	}
}

static void a_leaf_is_for_its_name_only(void **state)
{
	(void)state;
	struct host other;
	struct leaf *leaf = minted("allowed.test", time(NULL));
	assert_int_equal(host_parse(SLICE("a.allowed.test"), &other), 0);
	assert_int_equal(verify(leaf_certificate(leaf), &other), X509_V_ERR_HOSTNAME_MISMATCH);
	leaf_free(leaf);
	leaf = minted("127.0.0.1", time(NULL));
	X509 *x = leaf_certificate(leaf);
	assert_int_equal(X509_check_host(x, "127.0.0.1", 0, 0, NULL), 0);
	assert_int_equal(X509_check_ip_asc(x, "127.0.0.1", 0), 1);
	leaf_free(leaf);
}

static int critical(X509 *x, int nid)
{
	int where = X509_get_ext_by_NID(x, nid, -1);
	return where < 0 ? -1 : X509_EXTENSION_get_critical(X509_get_ext(x, where));
}

static void a_leaf_says_what_it_should(void **state)
{
	(void)state;
	struct leaf *leaf = minted("allowed.test", time(NULL));
	X509 *x = leaf_certificate(leaf);
	X509 *issuer = root();
	assert_int_equal(X509_NAME_entry_count(X509_get_subject_name(x)), 0);
	assert_int_equal(critical(x, NID_subject_alt_name), 1);
	assert_int_equal(critical(x, NID_key_usage), 1);
	assert_int_equal(X509_get_key_usage(x), KU_DIGITAL_SIGNATURE);
	assert_int_equal(X509_get_extended_key_usage(x), XKU_SSL_SERVER);
	assert_int_equal(ASN1_OCTET_STRING_cmp(
				 X509_get0_authority_key_id(x), X509_get0_subject_key_id(issuer)),
		0);
	assert_non_null(X509_get0_subject_key_id(x));
	assert_int_equal(ASN1_STRING_length(X509_get0_serialNumber(x)), 16);
	int days;
	int seconds;
	assert_int_equal(
		ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(x), X509_get0_notAfter(x)), 1);
	assert_int_equal(days * 86400 + seconds, LEAF_LIFETIME_SECONDS);
	assert_int_equal(critical(issuer, NID_basic_constraints), 1);
	assert_int_equal(critical(issuer, NID_key_usage), 1);
	assert_int_equal(X509_get_key_usage(issuer), KU_KEY_CERT_SIGN);
	assert_int_equal(X509_get_pathlen(issuer), 0);
	assert_int_equal(X509_check_ca(issuer), 1);
	X509_free(issuer);
	leaf_free(leaf);
}

static void serials_and_keys_are_new_each_time(void **state)
{
	(void)state;
	struct leaf *a = minted("allowed.test", time(NULL));
	struct leaf *b = minted("allowed.test", time(NULL));
	struct leaf_key *other;
	assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(leaf_certificate(a)),
				     X509_get0_serialNumber(leaf_certificate(b))),
		0);
	assert_int_equal(leaf_key_new(&other, NULL), 0);
	assert_false(slice_equal(leaf_key_public(key), leaf_key_public(other)));
	leaf_key_free(other);
	leaf_free(a);
	leaf_free(b);
}

static void other_keys_and_bytes_are_refused(void **state)
{
	(void)state;
	struct host host;
	uint8_t der[LEAF_DER_BYTES_MAX];
	assert_int_equal(host_parse(SLICE("allowed.test"), &host), 0);
	EVP_PKEY *rsa = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
	EVP_PKEY *p384 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384");
	EVP_PKEY *const wrong[] = {rsa, p384};
	for (size_t i = 0; i < array_size(wrong); i++) {
		unsigned char *spki = NULL;
		int len = i2d_PUBKEY(wrong[i], &spki);
		struct leaf_request request = {&host, {(char *)spki, (size_t)len}, time(NULL)};
		assert_int_equal(leaf_mint(ca, &request, der), -EINVAL);
		OPENSSL_free(spki);
		EVP_PKEY_free(wrong[i]);
	}
	struct slice spki = leaf_key_public(key);
	char padded[256] = {0};
	memcpy(padded, spki.ptr, spki.len);
	struct leaf_request request = {&host, {padded, spki.len + 1}, time(NULL)};
	assert_int_equal(leaf_mint(ca, &request, der), -EINVAL);
	request.public_key = (struct slice){NULL, 0};
	assert_int_equal(leaf_mint(ca, &request, der), -EINVAL);

	struct leaf *leaf;
	struct leaf_key *other;
	assert_int_equal(leaf_key_new(&other, NULL), 0);
	request.public_key = leaf_key_public(other);
	int len = leaf_mint(ca, &request, der);
	assert_in_range(len, 1, sizeof(der));
	assert_int_equal(
		leaf_from_der((struct slice){(char *)der, (size_t)len}, key, &leaf), -EINVAL);
	assert_int_equal(leaf_from_der((struct slice){(char *)der, 5}, key, &leaf), -EINVAL);
	assert_int_equal(leaf_from_der((struct slice){NULL, 0}, key, &leaf), -EINVAL);
	leaf_key_free(other);
}

static void names_over_a_channel_are_canonical(void **state)
{
	(void)state;
	static const char *const wrong[] = {"", "ALLOWED.test", "allowed.test.", "[::1]",
		"2001:DB8::1", "a b", "127.1", "allowed..test", "*.test"};
	struct host host;
	for (size_t i = 0; i < array_size(wrong); i++) {
		if (leaf_name_parse(slice_of(wrong[i]), &host) != -EINVAL)
			fail_msg("'%s' was accepted", wrong[i]);
	}
	assert_int_equal(leaf_name_parse(SLICE("2001:db8::1"), &host), 0);
	assert_int_equal(host.kind, HOST_ADDRESS);
}

static struct host numbered(int i)
{
	char text[32];
	struct host host;
	(void)snprintf(text, sizeof(text), "h%d.wild.test", i); /* fits */
	assert_int_equal(host_parse(slice_of(text), &host), 0);
	return host;
}

/** Valid until the next one. */
static const struct leaf_place *of(const char *sandbox, const struct host *host)
{
	static struct leaf_place place;
	place = (struct leaf_place){sandbox, host};
	return &place;
}

static void the_cache_is_bounded_and_forgets_the_oldest(void **state)
{
	(void)state;
	int64_t now = time(NULL);
	struct leaf_cache *c = leaf_cache_new(4);
	for (int i = 0; i < 100; i++) {
		struct host host = numbered(i);
		struct host kept = numbered(0);
		leaf_cache_put(c, of("sb-1", &host), minted(host.name, now));
		assert_in_range(leaf_cache_count(c), 1, 4);
		assert_non_null(leaf_cache_find(c, of("sb-1", &host), now));
		assert_non_null(
			leaf_cache_find(c, of("sb-1", &kept), now)); /* in use, so it stays */
	}
	for (int i = 1; i < 100; i++) {
		struct host host = numbered(i);
		if ((leaf_cache_find(c, of("sb-1", &host), now) != NULL) != (i >= 97))
			fail_msg("h%d", i);
	}
	leaf_cache_free(c);
}

/** Whoever asks for ever new names pushes out its own leaves, once it has its share; and never finds another's. */
static void a_sandbox_has_leaves_of_its_own_and_no_more_than_its_share(void **state)
{
	(void)state;
	enum { CAPACITY = 4 * LEAF_CACHE_SHARE, OTHERS = CAPACITY - 4 };
	int64_t now = time(NULL);
	struct leaf_cache *c = leaf_cache_new(CAPACITY);
	for (int i = 0; i < OTHERS; i++) {
		struct host host = numbered(i);
		leaf_cache_put(c, of("sb-1", &host), minted(host.name, now));
		assert_null(leaf_cache_find(c, of("sb-2", &host), now));
	}
	for (int i = 0; i < 100; i++) {
		struct host host = numbered(i);
		leaf_cache_put(c, of("sb-2", &host), minted(host.name, now));
		assert_non_null(leaf_cache_find(c, of("sb-2", &host), now));
	}
	for (int i = 0; i < 100; i++) {
		struct host host = numbered(i);
		if ((leaf_cache_find(c, of("sb-1", &host), now) != NULL) != (i < OTHERS))
			fail_msg("h%d of the other", i);
		if ((leaf_cache_find(c, of("sb-2", &host), now) != NULL) != (i >= 96))
			fail_msg("h%d of its own", i);
	}
	struct host host = numbered(200); /* one that has less than its share takes anybody's */
	leaf_cache_put(c, of("sb-3", &host), minted(host.name, now));
	assert_non_null(leaf_cache_find(c, of("sb-3", &host), now));
	assert_int_equal(leaf_cache_count(c), CAPACITY);
	leaf_cache_free(c);
}

static void a_leaf_that_ends_soon_is_minted_anew(void **state)
{
	(void)state;
	int64_t now = time(NULL);
	struct leaf_cache *c = leaf_cache_new(4);
	struct host host = numbered(1);
	struct leaf *leaf = minted(host.name, now);
	int64_t last = leaf_expires_s(leaf) - LEAF_RENEW_SECONDS;
	leaf_cache_put(c, of("sb-1", &host), leaf);
	assert_ptr_equal(leaf_cache_find(c, of("sb-1", &host), last), leaf);
	assert_null(leaf_cache_find(c, of("sb-1", &host), last + 1));
	struct leaf *newer = minted(host.name, now + 10);
	leaf_cache_put(c, of("sb-1", &host), newer);
	assert_int_equal(leaf_cache_count(c), 1);
	assert_ptr_equal(leaf_cache_find(c, of("sb-1", &host), last + 1), newer);
	leaf_cache_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strict_verifiers_accept_a_leaf),
		cmocka_unit_test(a_leaf_is_for_its_name_only),
		cmocka_unit_test(a_leaf_says_what_it_should),
		cmocka_unit_test(serials_and_keys_are_new_each_time),
		cmocka_unit_test(other_keys_and_bytes_are_refused),
		cmocka_unit_test(names_over_a_channel_are_canonical),
		cmocka_unit_test(the_cache_is_bounded_and_forgets_the_oldest),
		cmocka_unit_test(a_sandbox_has_leaves_of_its_own_and_no_more_than_its_share),
		cmocka_unit_test(a_leaf_that_ends_soon_is_minted_anew),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
