/*
 * TLS towards the world: every certificate is verified, whatever its fault. Cases D05, D06.
 */
#include "tests/unit/tls_lab.h"

static struct lab authority;
static struct tls_upstream_context *upstream;

static int set_up(void **state)
{
	(void)state;
	authority = lab_make(NULL, &(struct wish){.common_name = "lab", .constraints = ""});
	int fd = pem_fd(authority.certificate);
	assert_int_equal(tls_upstream_context_new(fd, -1, &upstream, NULL), 0);
	fd_close(&fd);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tls_upstream_context_free(upstream);
	lab_free(&authority);
	return 0;
}

static void far_server(struct far *far, const struct lab *certificate)
{
	far_open(far, TLS_server_method());
	assert_int_equal(SSL_use_certificate(far->ssl, certificate->certificate), 1);
	assert_int_equal(SSL_use_PrivateKey(far->ssl, certificate->key), 1);
	SSL_set_accept_state(far->ssl);
}

static enum tls_result reach(
	const char *name, struct far *far, struct tls_session **ret, struct tls_fault *why)
{
	struct host host;
	assert_int_equal(leaf_name_parse(slice_of(name), &host), 0);
	assert_int_equal(tls_session_new_upstream(upstream, far->our_fd, &host, ret, NULL), 0);
	return shake(*ret, far, why);
}

struct fault {
	const char *name;   /* whom we want */
	const char *detail; /* what the detail holds; NULL: it is fine */
	struct wish wish;
	bool self_signed;
	const char *constraints; /* of an authority between */
};

static const struct fault faults[] = {
	{"allowed.test", NULL, {.san = "DNS:allowed.test"}, false, NULL},
	{"a.wild.test", NULL, {.san = "DNS:*.wild.test"}, false, NULL},
	{"203.0.113.10", NULL, {.san = "IP:203.0.113.10"}, false, NULL},
	{"2001:db8::10", NULL, {.san = "IP:2001:db8::10"}, false, NULL},
	{"allowed.test", NULL, {.san = "DNS:allowed.test"}, false, "permitted;DNS:allowed.test"},
	{"allowed.test", "certificate has expired (allowed.test, expired 20",
		{.san = "DNS:allowed.test", .from_s = -9 * DAY, .to_s = -DAY}, false, NULL},
	{"allowed.test", "certificate is not yet valid (allowed.test, valid from 20",
		{.san = "DNS:allowed.test", .from_s = DAY, .to_s = 2 * DAY}, false, NULL},
	{"allowed.test", "self-signed certificate (allowed.test, issued by CN=me)",
		{.common_name = "me", .san = "DNS:allowed.test"}, true, NULL},
	{"allowed.test", "hostname mismatch (allowed.test, it is for denied.test, x.test)",
		{.san = "DNS:denied.test,DNS:x.test"}, false, NULL},
	{"allowed.test", "hostname mismatch", {.common_name = "allowed.test"}, false, NULL},
	{"a.wild.test", "hostname mismatch", {.common_name = "*.wild.test"}, false, NULL},
	{"127.0.0.1", "IP address mismatch", {.san = "DNS:127.0.0.1"}, false, NULL},
	{"allowed.test", "hostname mismatch", {.san = "IP:203.0.113.10"}, false, NULL},
	{"abc.wild.test", "hostname mismatch", {.san = "DNS:a*.wild.test"}, false, NULL},
	{"allowed.test", "hostname mismatch", {.san = "DNS:*.test"}, false, NULL},
	{"a.b.wild.test", "hostname mismatch", {.san = "DNS:*.wild.test"}, false, NULL},
	{"allowed.test", "permitted subtree violation", {.san = "DNS:allowed.test"}, false,
		"permitted;DNS:denied.test"},
	{"allowed.test", "excluded subtree violation", {.san = "DNS:allowed.test"}, false,
		"excluded;DNS:test"},
};

static void try_fault(const struct fault *f)
{
	struct lab between = {0};
	struct far far;
	struct tls_session *s = NULL;
	struct tls_fault why = {0};
	if (f->constraints != NULL)
		between = lab_make(&authority,
			&(struct wish){.common_name = "between", .constraints = f->constraints});
	const struct lab *issuer = between.certificate != NULL ? &between : &authority;
	struct lab leaf = lab_make(f->self_signed ? NULL : issuer, &f->wish);
	far_server(&far, &leaf);
	if (between.certificate != NULL)
		assert_int_equal(SSL_add1_chain_cert(far.ssl, between.certificate), 1);
	enum tls_result r = reach(f->name, &far, &s, &why);
	if (f->detail == NULL && r != TLS_DONE)
		fail_msg("%s: %s", f->name, why.detail);
	if (f->detail != NULL &&
		(r != TLS_ERROR || why.reason != REASON_DENY_UPSTREAM_CERT ||
			strstr(why.detail, f->detail) == NULL))
		fail_msg("wanted '%s', got %d %s", f->detail, (int)r, why.detail);
	tls_session_free(s);
	lab_free(&leaf);
	lab_free(&between);
	far_close(&far);
}

static void upstream_certificates_are_verified(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(faults); i++)
		try_fault(&faults[i]);
}

static void our_own_ca_is_no_root_upstream(void **state)
{
	(void)state;
	struct ca *ca;
	struct host host;
	struct far far;
	struct tls_session *s;
	struct tls_fault why;
	uint8_t der[LEAF_DER_BYTES_MAX];
	struct lab leaf = {leaf_new_p256(), NULL};
	assert_int_equal(ca_new(time(NULL), CA_LIFETIME_SECONDS, &ca, NULL), 0);
	unsigned char *spki = NULL;
	int spki_len = i2d_PUBKEY(leaf.key, &spki);
	assert_int_equal(host_parse(SLICE("allowed.test"), &host), 0);
	struct leaf_request request = {&host, {(char *)spki, (size_t)spki_len}, time(NULL)};
	int len = leaf_mint(ca, &request, der);
	const unsigned char *at = der;
	leaf.certificate = d2i_X509(NULL, &at, len);
	assert_non_null(leaf.certificate);
	far_server(&far, &leaf);
	assert_int_equal(reach("allowed.test", &far, &s, &why), TLS_ERROR);
	assert_int_equal(why.reason, REASON_DENY_UPSTREAM_CERT);
	assert_non_null(strstr(why.detail, "unable to get local issuer certificate"));
	OPENSSL_free(spki);
	ca_free(ca);
	tls_session_free(s);
	lab_free(&leaf);
	far_close(&far);
}

static void upstream_learns_the_name_and_we_learn_who_it_is(void **state)
{
	(void)state;
	struct lab leaf = lab_make(&authority,
		&(struct wish){.common_name = "o,\x01", .san = "DNS:allowed.test,IP:203.0.113.10"});
	struct far far;
	struct tls_session *s;
	struct tls_fault why;
	struct tls_info info;
	far_server(&far, &leaf);
	assert_int_equal(reach("allowed.test", &far, &s, &why), TLS_DONE);
	assert_string_equal(SSL_get_servername(far.ssl, TLSEXT_NAMETYPE_host_name), "allowed.test");
	tls_session_info(s, &info);
	assert_string_equal(info.version, "TLSv1.3");
	assert_string_equal(info.issuer, "CN=lab");
	assert_string_equal(info.subject, "CN=o\\,\\01");
	for (const char *c = info.subject; *c != '\0'; c++)
		assert_in_range(*c, 0x20, 0x7e);
	tls_session_free(s);
	far_close(&far);
	far_server(&far, &leaf);
	assert_int_equal(reach("203.0.113.10", &far, &s, &why), TLS_DONE);
	assert_null(SSL_get_servername(far.ssl, TLSEXT_NAMETYPE_host_name));
	tls_session_free(s);
	far_close(&far);
	lab_free(&leaf);
}

static void old_versions_and_other_protocols_fail(void **state)
{
	(void)state;
	struct lab leaf = lab_make(&authority, &(struct wish){.san = "DNS:allowed.test"});
	struct far far;
	struct tls_session *s;
	struct tls_fault why;
	far_server(&far, &leaf);
	SSL_set_security_level(far.ssl, 0);
	SSL_set_min_proto_version(far.ssl, TLS1_VERSION);
	SSL_set_max_proto_version(far.ssl, TLS1_1_VERSION);
	assert_int_equal(reach("allowed.test", &far, &s, &why), TLS_ERROR);
	assert_int_equal(why.reason, REASON_ERROR_UPSTREAM);
	tls_session_free(s);
	far_close(&far);
	far_open(&far, TLS_server_method());
	SSL_set_accept_state(far.ssl);
	assert_int_equal(send(far.fd, "HTTP/1.1 400 Bad\r\n\r\n", 20, 0), 20);
	assert_int_equal(reach("allowed.test", &far, &s, &why), TLS_ERROR);
	assert_int_equal(why.reason, REASON_ERROR_UPSTREAM);
	tls_session_free(s);
	far_close(&far);
	lab_free(&leaf);
}

static void roots_must_be_roots(void **state)
{
	(void)state;
	static const char *const wrong[] = {
		"", "x\n", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"};
	for (size_t i = 0; i < array_size(wrong); i++) {
		struct tls_upstream_context *c;
		struct failure why = {0};
		auto_fd fd = file_memory("pem", slice_of(wrong[i]));
		assert_int_equal(tls_upstream_context_new(fd, -1, &c, &why), 0);
		assert_int_equal(tls_upstream_context_load(c, &why), -EINVAL);
		assert_true(why.text[0] != '\0');
		tls_upstream_context_free(c);
	}
	struct lab other =
		lab_make(NULL, &(struct wish){.common_name = "other", .constraints = ""});
	struct tls_upstream_context *c;
	auto_fd first = pem_fd(authority.certificate);
	auto_fd second = pem_fd(other.certificate);
	assert_int_equal(tls_upstream_context_new(first, second, &c, NULL), 0);
	assert_int_equal(tls_upstream_context_load(c, NULL), 0);
	assert_int_equal(tls_upstream_context_load(c, NULL), 0);
	tls_upstream_context_free(c);
	lab_free(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(upstream_certificates_are_verified),
		cmocka_unit_test(our_own_ca_is_no_root_upstream),
		cmocka_unit_test(upstream_learns_the_name_and_we_learn_who_it_is),
		cmocka_unit_test(old_versions_and_other_protocols_fail),
		cmocka_unit_test(roots_must_be_roots),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
