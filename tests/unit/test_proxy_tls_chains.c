/*
 * A chain whose signatures are known to be valid is judged anew in all else: who it is for, which root it leads to, and what time it is.
 * The clock is the test's: OpenSSL asks time(), which the program has itself.
 */
#include "tests/unit/tls_lab.h"

static struct lab authority;
static struct tls_upstream_context *upstream;
static time_t later_s; /* than it is */

time_t time(time_t *ret)
{
	struct timespec now;
	assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
	if (ret != NULL)
		*ret = now.tv_sec + later_s;
	return now.tv_sec + later_s;
}

static struct tls_upstream_context *context_of(const struct lab *root)
{
	struct tls_upstream_context *c;
	auto_fd fd = pem_fd(root->certificate);
	assert_int_equal(tls_upstream_context_new(fd, -1, &c, NULL), 0);
	return c;
}

static int set_up(void **state)
{
	(void)state;
	authority = lab_make(
		NULL, &(struct wish){.common_name = "lab", .to_s = 9 * DAY, .constraints = ""});
	upstream = context_of(&authority);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tls_upstream_context_free(upstream);
	lab_free(&authority);
	return 0;
}

/** @between: NULL for none. @return "" if the host is who it says, else why not. */
static const char *reach(struct tls_upstream_context *c, const char *name, const struct lab *leaf,
	const struct lab *between)
{
	static struct tls_fault why;
	struct far far;
	struct tls_session *s;
	struct host host;
	assert_int_equal(leaf_name_parse(slice_of(name), &host), 0);
	far_open(&far, TLS_server_method());
	assert_int_equal(SSL_use_certificate(far.ssl, leaf->certificate), 1);
	assert_int_equal(SSL_use_PrivateKey(far.ssl, leaf->key), 1);
	if (between != NULL)
		assert_int_equal(SSL_add1_chain_cert(far.ssl, between->certificate), 1);
	SSL_set_accept_state(far.ssl);
	assert_int_equal(tls_session_new_upstream(c, far.our_fd, &host, &s, NULL), 0);
	enum tls_result r = shake(s, &far, &why);
	if (r == TLS_DONE)
		why.detail[0] = '\0';
	else
		assert_int_equal(why.reason, REASON_DENY_UPSTREAM_CERT);
	tls_session_free(s);
	far_close(&far);
	return why.detail;
}

static void assert_refused(const char *detail, const char *wanted)
{
	if (strstr(detail, wanted) == NULL)
		fail_msg("wanted '%s', got '%s'", wanted, detail);
}

static void a_known_chain_expires(void **state)
{
	(void)state;
	struct lab leaf = lab_make(&authority, &(struct wish){.san = "DNS:allowed.test"});
	for (int i = 0; i < 3; i++)
		assert_string_equal(reach(upstream, "allowed.test", &leaf, NULL), "");
	later_s = 2 * DAY;
	assert_refused(reach(upstream, "allowed.test", &leaf, NULL), "certificate has expired");
	later_s = -2 * DAY;
	assert_refused(reach(upstream, "allowed.test", &leaf, NULL), "not yet valid");
	later_s = 0;
	assert_string_equal(reach(upstream, "allowed.test", &leaf, NULL), "");
	lab_free(&leaf);
}

static void so_does_one_whose_authority_between_expires(void **state)
{
	(void)state;
	struct lab between =
		lab_make(&authority, &(struct wish){.common_name = "between", .constraints = ""});
	struct lab leaf = lab_make(&between,
		&(struct wish){.san = "DNS:allowed.test", .from_s = -DAY, .to_s = 9 * DAY});
	for (int i = 0; i < 2; i++)
		assert_string_equal(reach(upstream, "allowed.test", &leaf, &between), "");
	later_s = 2 * DAY;
	assert_refused(reach(upstream, "allowed.test", &leaf, &between), "certificate has expired");
	later_s = 0;
	lab_free(&leaf);
	lab_free(&between);
}

static void a_known_chain_is_for_its_names_alone(void **state)
{
	(void)state;
	struct lab leaf = lab_make(&authority, &(struct wish){.san = "DNS:allowed.test"});
	assert_string_equal(reach(upstream, "allowed.test", &leaf, NULL), "");
	assert_refused(reach(upstream, "denied.test", &leaf, NULL), "hostname mismatch");
	assert_string_equal(reach(upstream, "allowed.test", &leaf, NULL), "");
	lab_free(&leaf);
}

static void a_known_chain_needs_its_root(void **state)
{
	(void)state;
	struct lab other =
		lab_make(NULL, &(struct wish){.common_name = "other", .constraints = ""});
	struct tls_upstream_context *elsewhere = context_of(&other);
	struct lab leaf = lab_make(&authority, &(struct wish){.san = "DNS:allowed.test"});
	assert_string_equal(reach(upstream, "allowed.test", &leaf, NULL), "");
	assert_refused(reach(elsewhere, "allowed.test", &leaf, NULL), "local issuer certificate");
	tls_upstream_context_free(elsewhere);
	lab_free(&leaf);
	lab_free(&other);
}

static void a_known_chain_is_known_by_its_authorities(void **state)
{
	(void)state;
	const struct wish wish = {.common_name = "between", .constraints = ""};
	struct lab between = lab_make(&authority, &wish);
	struct lab twin = lab_make(&authority, &wish);
	struct lab leaf = lab_make(&between, &(struct wish){.san = "DNS:allowed.test"});
	assert_string_equal(reach(upstream, "allowed.test", &leaf, &between), "");
	assert_refused(reach(upstream, "allowed.test", &leaf, &twin), "signature failure");
	lab_free(&leaf);
	lab_free(&twin);
	lab_free(&between);
}

static void another_signature_under_the_same_bytes_is_checked(void **state)
{
	(void)state;
	struct lab leaf = lab_make(&authority, &(struct wish){.san = "DNS:allowed.test"});
	assert_string_equal(reach(upstream, "allowed.test", &leaf, NULL), "");
	struct lab forged = {leaf.key, X509_dup(leaf.certificate)};
	const ASN1_BIT_STRING *signature;
	X509_get0_signature(&signature, NULL, forged.certificate);
	signature->data[signature->length - 1] ^= 1;
	for (int i = 0; i < 2; i++)
		assert_refused(reach(upstream, "allowed.test", &forged, NULL), "signature failure");
	assert_string_equal(reach(upstream, "allowed.test", &leaf, NULL), "");
	X509_free(forged.certificate);
	lab_free(&leaf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_known_chain_expires),
		cmocka_unit_test(so_does_one_whose_authority_between_expires),
		cmocka_unit_test(a_known_chain_is_for_its_names_alone),
		cmocka_unit_test(a_known_chain_needs_its_root),
		cmocka_unit_test(a_known_chain_is_known_by_its_authorities),
		cmocka_unit_test(another_signature_under_the_same_bytes_is_checked),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
