/*
 * TLS towards the sandbox: parked hellos, names, ends. Cases D01, D03, D04, D08, D09, D11.
 */
#include "tests/unit/tls_lab.h"

#include <signal.h>

static struct ca *ca;
static struct leaf_key *key;
static struct tls_server_context *server;

static int set_up(void **state)
{
	(void)state;
	assert_int_equal(ca_new(time(NULL), CA_LIFETIME_SECONDS, &ca, NULL), 0);
	assert_int_equal(leaf_key_new(&key, NULL), 0);
	assert_int_equal(tls_server_context_new(key, &server, NULL), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	tls_server_context_free(server);
	leaf_key_free(key);
	ca_free(ca);
	return 0;
}

/** A client that verifies strictly against our CA; @name NULL: without SNI, and it asks for
 * allowed.test. */
static void far_client(struct far *far, const char *name)
{
	struct slice pem = ca_certificate_pem(ca);
	far_open(far, TLS_client_method());
	BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	X509 *root = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	assert_int_equal(X509_STORE_add_cert(SSL_CTX_get_cert_store(far->ctx), root), 1);
	X509_free(root);
	BIO_free(bio);
	SSL_set_verify(far->ssl, SSL_VERIFY_PEER, NULL);
	X509_VERIFY_PARAM_set_flags(SSL_get0_param(far->ssl), X509_V_FLAG_X509_STRICT);
	SSL_set1_host(far->ssl, name != NULL ? name : "allowed.test");
	if (name != NULL)
		SSL_set_tlsext_host_name(far->ssl, name);
	SSL_set_connect_state(far->ssl);
}

static struct tls_session *session_server(const struct far *far)
{
	struct tls_session *s;
	assert_int_equal(tls_session_new_server(server, far->our_fd, &s), 0);
	return s;
}

static void use_leaf(struct tls_session *s, const char *name)
{
	struct host host;
	uint8_t der[LEAF_DER_BYTES_MAX];
	struct leaf *leaf;
	assert_int_equal(leaf_name_parse(slice_of(name), &host), 0);
	struct leaf_request request = {&host, leaf_key_public(key), time(NULL)};
	int len = leaf_mint(ca, &request, der);
	assert_in_range(len, 1, sizeof(der));
	assert_int_equal(leaf_from_der((struct slice){(char *)der, (size_t)len}, key, &leaf), 0);
	assert_int_equal(tls_session_use_leaf(s, leaf), 0);
	leaf_free(leaf); /* the session keeps its own reference */
}

/** Until it parks; then what the hello said. */
static enum tls_hello_kind hello_of(struct tls_session *s, struct far *far, struct host *ret)
{
	struct tls_fault why;
	enum tls_result r = shake(s, far, &why);
	if (r != TLS_PARKED)
		fail_msg("not parked: %s", r == TLS_ERROR ? why.detail : "something else");
	assert_int_equal(tls_handshake(s, &why), TLS_PARKED); /* and stays so */
	return tls_session_hello(s, ret);
}

/** A whole handshake with a client that asks for @name. */
static struct tls_session *accepted(struct far *far, const char *name)
{
	struct host host;
	struct tls_fault why = {0};
	struct tls_session *s = session_server(far);
	assert_int_equal(hello_of(s, far, &host), TLS_HELLO_NAME);
	assert_string_equal(host.name, name);
	use_leaf(s, name);
	if (shake(s, far, &why) != TLS_DONE)
		fail_msg("%s", why.detail);
	return s;
}

static void a_hello_is_parked_and_resumed(void **state)
{
	(void)state;
	static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
	for (size_t i = 0; i < array_size(versions); i++) {
		struct far far;
		struct tls_info info;
		far_client(&far, "Allowed.test");
		SSL_set_alpn_protos(far.ssl, (const unsigned char *)"\x02h2\x08http/1.1", 12);
		SSL_set_max_proto_version(far.ssl, versions[i]);
		struct tls_session *s = accepted(&far, "allowed.test");
		const unsigned char *protocol;
		unsigned len;
		SSL_get0_alpn_selected(far.ssl, &protocol, &len);
		assert_true(slice_equal(
			(struct slice){(const char *)protocol, len}, SLICE("http/1.1")));
		tls_session_info(s, &info);
		assert_string_equal(info.version, i == 0 ? "TLSv1.2" : "TLSv1.3");
		assert_non_null(info.cipher);
		/* D11: nothing that another name could resume. */
		assert_int_equal(SSL_SESSION_is_resumable(SSL_get0_session(far.ssl)), 0);
		tls_session_free(s);
		far_close(&far);
	}
}

static void without_a_name_the_caller_decides(void **state)
{
	(void)state;
	struct far far;
	struct host host;
	struct tls_fault why;
	far_client(&far, NULL);
	struct tls_session *s = session_server(&far);
	assert_int_equal(hello_of(s, &far, &host), TLS_HELLO_NO_NAME);
	use_leaf(s, "allowed.test");
	assert_int_equal(shake(s, &far, &why), TLS_DONE);
	tls_session_free(s);
	far_close(&far);
}

static void names_that_are_no_host_are_malformed(void **state)
{
	(void)state;
	static const char *const wrong[] = {"a b", "allowed..test", "127.1", "*.test", ".test",
		"allowed.test:443", "denied.test%23.wild.test"};
	for (size_t i = 0; i < array_size(wrong); i++) {
		struct far far;
		struct host host;
		far_client(&far, wrong[i]);
		struct tls_session *s = session_server(&far);
		if (hello_of(s, &far, &host) != TLS_HELLO_MALFORMED)
			fail_msg("'%s' is a name", wrong[i]);
		tls_session_free(s);
		far_close(&far);
	}
}

static void a_refused_name_gets_its_alert(void **state)
{
	(void)state;
	struct far far;
	struct host host;
	struct tls_fault why;
	far_client(&far, "denied.test");
	struct tls_session *s = session_server(&far);
	assert_int_equal(hello_of(s, &far, &host), TLS_HELLO_NAME);
	tls_session_refuse(s);
	assert_int_equal(tls_handshake(s, &why), TLS_ERROR);
	assert_int_equal(why.reason, REASON_DENY_SNI_MISMATCH);
	assert_int_equal(SSL_do_handshake(far.ssl), -1);
	assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_UNRECOGNIZED_NAME);
	assert_int_equal(tls_shutdown(s), TLS_ERROR);
	tls_session_free(s);
	far_close(&far);
}

static void a_second_hello_is_no_second_choice(void **state)
{
	(void)state;
	struct far far;
	far_client(&far, "allowed.test");
	/* A share that the server does not take makes it ask again. */
	assert_int_equal(SSL_set1_groups_list(far.ssl, "X448:P-256"), 1);
	struct tls_session *s = accepted(&far, "allowed.test");
	tls_session_free(s);
	far_close(&far);

	struct host host;
	struct tls_fault why;
	far_client(&far, "allowed.test");
	assert_int_equal(SSL_set1_groups_list(far.ssl, "X448:P-256"), 1);
	s = session_server(&far);
	assert_int_equal(hello_of(s, &far, &host), TLS_HELLO_NAME);
	use_leaf(s, "allowed.test");
	SSL_set_tlsext_host_name(far.ssl, "denied.test"); /* for the hello that is still to come */
	assert_int_equal(shake(s, &far, &why), TLS_ERROR);
	assert_int_equal(why.reason, REASON_DENY_SNI_MISMATCH);
	tls_session_free(s);
	far_close(&far);
}

/** The ClientHello of a client, cut into records of at most @size bytes. */
static struct buf hello_in_records(const char *name, size_t size)
{
	struct far far;
	char record[16384];
	struct buf out = {0};
	far_client(&far, name);
	(void)SSL_do_handshake(far.ssl);
	ssize_t len = recv(far.our_fd, record, sizeof(record), 0);
	assert_true(len > 5);
	for (size_t at = 5; at < (size_t)len; at += size) {
		size_t part = (size_t)len - at < size ? (size_t)len - at : size;
		char head[5] = {22, 3, 1, (char)(part >> 8), (char)part};
		buf_append(&out, (struct slice){head, sizeof(head)});
		buf_append(&out, (struct slice){record + at, part});
	}
	far_close(&far);
	return out;
}

static void a_hello_may_come_in_pieces(void **state)
{
	(void)state;
	static const size_t sizes[] = {1, 2, 100, 16000};
	for (size_t i = 0; i < array_size(sizes); i++) {
		struct buf hello = hello_in_records("allowed.test", sizes[i]);
		struct far far;
		struct host host;
		struct tls_fault why;
		far_open(&far, TLS_client_method());
		struct tls_session *s = session_server(&far);
		enum tls_result r = TLS_WANT_READ;
		for (size_t at = 0; at < buf_len(&hello); at++) {
			assert_int_equal(r, TLS_WANT_READ);
			assert_int_equal(send(far.fd, buf_slice(&hello).ptr + at, 1, 0), 1);
			r = tls_handshake(s, &why);
		}
		assert_int_equal(r, TLS_PARKED);
		assert_int_equal(tls_session_hello(s, &host), TLS_HELLO_NAME);
		assert_string_equal(host.name, "allowed.test");
		tls_session_free(s);
		far_close(&far);
		buf_fini(&hello);
	}
}

static void a_large_hello_is_read(void **state)
{
	(void)state;
	unsigned char protocols[8009];
	for (size_t at = 0; at < 8000; at += 100) {
		memset(protocols + at, 'a', 100);
		protocols[at] = 99;
	}
	memcpy(protocols + 8000, "\x08http/1.1", 9);
	struct far far;
	far_client(&far, "allowed.test");
	assert_int_equal(SSL_set_alpn_protos(far.ssl, protocols, sizeof(protocols)), 0);
	struct tls_session *s = accepted(&far, "allowed.test");
	tls_session_free(s);
	far_close(&far);
}

static void a_client_that_speaks_only_http2_is_told(void **state)
{
	(void)state;
	struct far far;
	struct host host;
	struct tls_fault why;
	far_client(&far, "allowed.test");
	SSL_set_alpn_protos(far.ssl, (const unsigned char *)"\x02h2", 3);
	struct tls_session *s = session_server(&far);
	assert_int_equal(hello_of(s, &far, &host), TLS_HELLO_NAME);
	use_leaf(s, "allowed.test");
	assert_int_equal(shake(s, &far, &why), TLS_ERROR);
	assert_int_equal(why.reason, REASON_DENY_PROTOCOL);
	assert_int_equal(SSL_do_handshake(far.ssl), -1);
	assert_int_equal(
		ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL);
	tls_session_free(s);
	far_close(&far);
}

static void a_client_without_our_ca_says_so(void **state)
{
	(void)state;
	struct far far;
	struct host host;
	struct tls_fault why;
	far_open(&far, TLS_client_method());
	SSL_set_verify(far.ssl, SSL_VERIFY_PEER, NULL);
	SSL_set_tlsext_host_name(far.ssl, "allowed.test");
	SSL_set_connect_state(far.ssl);
	struct tls_session *s = session_server(&far);
	assert_int_equal(hello_of(s, &far, &host), TLS_HELLO_NAME);
	use_leaf(s, "allowed.test");
	enum tls_result r = TLS_WANT_READ;
	for (int i = 0; i < ROUNDS_MAX && r != TLS_ERROR; i++) {
		(void)SSL_do_handshake(far.ssl);
		ERR_clear_error();
		r = tls_handshake(s, &why);
	}
	assert_int_equal(r, TLS_ERROR);
	assert_int_equal(why.reason, REASON_DENY_PROTOCOL);
	assert_string_equal(why.detail, "the client refuses with the TLS alert: unknown CA");
	tls_session_free(s);
	far_close(&far);
}

struct first_bytes {
	const char *text;
	enum tls_peek peek;
};

static void what_is_not_tls_is_told_apart(void **state)
{
	(void)state;
	static const struct first_bytes all[] = {
		{"SSH-2.0-x\r\n", TLS_PEEK_OTHER},
		{"GET / HTTP/1.1\r\nHost: denied.test\r\n\r\n", TLS_PEEK_OTHER},
		{"\x80\x2e\x01\x03\x01", TLS_PEEK_OTHER},
		{"\x17\x03\x03", TLS_PEEK_OTHER},
		{"\x16\x02", TLS_PEEK_OTHER},
		{"\x16\x03\x05", TLS_PEEK_OTHER},
		{"\x16", TLS_PEEK_TLS},
		{"\x16\x03\x01\x02\x01", TLS_PEEK_TLS},
	};
	for (size_t i = 0; i < array_size(all); i++) {
		struct far far;
		struct tls_fault why;
		far_open(&far, TLS_client_method());
		assert_int_equal(tls_peek(far.our_fd), TLS_PEEK_NOTHING);
		size_t len = strlen(all[i].text);
		assert_int_equal(send(far.fd, all[i].text, len, 0), len);
		if (tls_peek(far.our_fd) != all[i].peek)
			fail_msg("number %zu", i);
		struct tls_session *s = session_server(&far);
		if (all[i].peek == TLS_PEEK_OTHER && i < 2) {
			assert_int_equal(tls_handshake(s, &why), TLS_ERROR);
			assert_int_equal(why.reason, REASON_DENY_NOT_TLS);
		}
		tls_session_free(s);
		far_close(&far);
	}
	struct far far;
	far_open(&far, TLS_client_method());
	fd_close(&far.fd);
	assert_int_equal(tls_peek(far.our_fd), TLS_PEEK_CLOSED);
	far_close(&far);
}

static void bytes_pass_and_an_end_is_an_end(void **state)
{
	(void)state;
	struct far far;
	struct tls_fault why;
	char text[64];
	size_t len;
	far_client(&far, "allowed.test");
	struct tls_session *s = accepted(&far, "allowed.test");
	assert_int_equal(tls_read(s, text, sizeof(text), &len, &why), TLS_WANT_READ);
	assert_int_equal(SSL_write(far.ssl, "hello", 5), 5);
	assert_int_equal(tls_read(s, text, 2, &len, &why), TLS_DONE);
	assert_int_equal(len, 2);
	assert_true(tls_may_have_more(s));
	assert_int_equal(tls_read(s, text, sizeof(text), &len, &why), TLS_DONE);
	assert_int_equal(len, 3);
	assert_int_equal(tls_write(s, SLICE("world"), &len, &why), TLS_DONE);
	assert_int_equal(len, 5);
	assert_int_equal(SSL_read(far.ssl, text, sizeof(text)), 5);
	assert_int_equal(tls_shutdown(s), TLS_DONE);
	assert_int_equal(SSL_read(far.ssl, text, sizeof(text)), 0);
	assert_int_equal(SSL_get_error(far.ssl, 0), SSL_ERROR_ZERO_RETURN);
	(void)SSL_shutdown(far.ssl);
	assert_int_equal(tls_read(s, text, sizeof(text), &len, &why), TLS_CLOSED);
	tls_session_free(s);
	far_close(&far);
}

static void a_full_socket_waits_and_the_bytes_arrive(void **state)
{
	(void)state;
	static char sent[1 << 20];
	static char got[1 << 20];
	struct far far;
	struct tls_fault why;
	size_t written = 0;
	size_t read = 0;
	bool waited = false;
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)(i * 7);
	far_client(&far, "allowed.test");
	struct tls_session *s = accepted(&far, "allowed.test");
	while (read < sizeof(got)) {
		size_t len = 0;
		struct slice rest = {sent + written, sizeof(sent) - written};
		enum tls_result r = rest.len == 0 ? TLS_WANT_WRITE : tls_write(s, rest, &len, &why);
		written += len;
		if (r == TLS_DONE)
			continue;
		assert_int_equal(r, TLS_WANT_WRITE);
		waited = true;
		while (SSL_read_ex(far.ssl, got + read, sizeof(got) - read, &len) == 1)
			read += len;
		ERR_clear_error();
	}
	assert_true(waited);
	assert_memory_equal(sent, got, sizeof(sent));
	tls_session_free(s);
	far_close(&far);
}

static void a_cut_never_looks_complete(void **state)
{
	(void)state;
	struct far far;
	struct tls_fault why;
	char text[64];
	size_t len;
	far_client(&far, "allowed.test");
	struct tls_session *s = accepted(&far, "allowed.test");
	fd_close(&far.fd);
	assert_int_equal(tls_read(s, text, sizeof(text), &len, &why), TLS_ERROR);
	assert_string_equal(why.detail, "the client closed the connection without an end of TLS");
	assert_int_equal(tls_shutdown(s), TLS_ERROR);
	tls_session_free(s);
	far_close(&far);

	far_client(&far, "allowed.test");
	s = accepted(&far, "allowed.test");
	tls_session_free(s);
	fd_close(&far.our_fd);
	struct sigaction before;
	assert_int_equal(
		sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &before), 0);
	assert_true(SSL_read(far.ssl, text, sizeof(text)) <= 0); /* the far end says an alert */
	assert_int_equal(sigaction(SIGPIPE, &before, NULL), 0);
	assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_UNEXPECTED_EOF_WHILE_READING);
	far_close(&far);

	far_client(&far, "allowed.test");
	s = accepted(&far, "allowed.test");
	fd_close(&far.fd);
	assert_int_equal(tls_write(s, SLICE("x"), &len, &why), TLS_ERROR); /* and no SIGPIPE */
	tls_session_free(s);
	far_close(&far);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_is_parked_and_resumed),
		cmocka_unit_test(without_a_name_the_caller_decides),
		cmocka_unit_test(names_that_are_no_host_are_malformed),
		cmocka_unit_test(a_refused_name_gets_its_alert),
		cmocka_unit_test(a_second_hello_is_no_second_choice),
		cmocka_unit_test(a_hello_may_come_in_pieces),
		cmocka_unit_test(a_large_hello_is_read),
		cmocka_unit_test(a_client_that_speaks_only_http2_is_told),
		cmocka_unit_test(a_client_without_our_ca_says_so),
		cmocka_unit_test(what_is_not_tls_is_told_apart),
		cmocka_unit_test(bytes_pass_and_an_end_is_an_end),
		cmocka_unit_test(a_full_socket_waits_and_the_bytes_arrive),
		cmocka_unit_test(a_cut_never_looks_complete),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
