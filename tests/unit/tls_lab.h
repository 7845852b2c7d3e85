/*
 * A certificate lab and the far end of a handshake, for the TLS tests: OpenSSL itself over a socket
 * pair. Not our code.
 */
#ifndef ECLUSA_TESTS_UNIT_TLS_LAB_H
#define ECLUSA_TESTS_UNIT_TLS_LAB_H

#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "proxy/leaf_openssl.h"
#include "proxy/tls.h"

#include <stdio.h>
#include <sys/socket.h>
#include <time.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#define ROUNDS_MAX 200
#define DAY        86400L

struct lab {
	EVP_PKEY *key;
	X509 *certificate;
};

struct wish {
	const char *common_name; /* NULL: empty subject */
	const char *san;         /* as openssl.cnf writes it; NULL: none */
	long from_s, to_s;       /* from now; 0, 0: valid */
	const char *constraints; /* a CA with these name constraints, "" without */
};

static inline void add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
	X509V3_CTX context;
	X509V3_set_ctx(&context, issuer, x, NULL, NULL, 0);
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	assert_non_null(extension);
	assert_int_equal(X509_add_ext(x, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

/** @issuer NULL: self-signed. */
static inline struct lab lab_make(const struct lab *issuer, const struct wish *wish)
{
	struct lab made = {leaf_new_p256(), X509_new()};
	X509 *x = made.certificate;
	const struct lab *signer = issuer != NULL ? issuer : &made;
	X509_set_version(x, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 7);
	X509_gmtime_adj(X509_getm_notBefore(x), wish->from_s == 0 ? -DAY : wish->from_s);
	X509_gmtime_adj(X509_getm_notAfter(x), wish->to_s == 0 ? DAY : wish->to_s);
	if (wish->common_name != NULL)
		X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
			(const unsigned char *)wish->common_name, -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(signer->certificate));
	X509_set_pubkey(x, made.key);
	if (wish->san != NULL)
		add_extension(x, signer->certificate, NID_subject_alt_name, wish->san);
	if (wish->constraints != NULL)
		add_extension(x, signer->certificate, NID_basic_constraints, "critical,CA:TRUE");
	if (wish->constraints != NULL && wish->constraints[0] != '\0')
		add_extension(x, signer->certificate, NID_name_constraints, wish->constraints);
	assert_true(X509_sign(x, signer->key, EVP_sha256()) > 0);
	return made;
}

static inline void lab_free(struct lab *lab)
{
	EVP_PKEY_free(lab->key);
	X509_free(lab->certificate);
}

static inline int pem_fd(X509 *certificate)
{
	char *text;
	BIO *bio = BIO_new(BIO_s_mem());
	assert_int_equal(PEM_write_bio_X509(bio, certificate), 1);
	long len = BIO_get_mem_data(bio, &text);
	int fd = file_memory("pem", (struct slice){text, (size_t)len});
	assert_true(fd >= 0);
	BIO_free(bio);
	return fd;
}

struct far {
	SSL_CTX *ctx;
	SSL *ssl;
	int fd;
	int our_fd;
};

static inline void far_open(struct far *far, const SSL_METHOD *method)
{
	int fds[2];
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	*far = (struct far){.ctx = SSL_CTX_new(method), .fd = fds[0], .our_fd = fds[1]};
	far->ssl = SSL_new(far->ctx);
	assert_int_equal(SSL_set_fd(far->ssl, far->fd), 1);
}

static inline void far_close(struct far *far)
{
	SSL_free(far->ssl);
	SSL_CTX_free(far->ctx);
	fd_close(&far->fd);
	fd_close(&far->our_fd);
	ERR_clear_error();
}

/** Both ends take turns until ours stops for another reason than waiting, and the far one is done
 * if ours is. */
static inline enum tls_result shake(struct tls_session *s, struct far *far, struct tls_fault *why)
{
	for (int i = 0; i < ROUNDS_MAX; i++) {
		(void)SSL_do_handshake(far->ssl);
		ERR_clear_error();
		enum tls_result r = tls_handshake(s, why);
		bool waits = r == TLS_WANT_READ || r == TLS_WANT_WRITE;
		if (!waits && (r != TLS_DONE || SSL_is_init_finished(far->ssl)))
			return r;
	}
	fail_msg("the handshake does not end");
	return TLS_ERROR;
}

#endif
