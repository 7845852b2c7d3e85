/* TLS 1.3 towards a receiver, by OpenSSL. See wire.h and wire_io.h. The receiver is not trusted until its certificate was checked. */
#include "export/wire_io.h"

#include "common/cleanup.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct tls_client {
	SSL_CTX *context;
	char name[256];
};

struct tls_link {
	SSL *ssl;
};

/** OpenSSL's newest complaint, as words of ours are added by the caller. */
static const char *complaint(void)
{
	unsigned long error = ERR_peek_last_error();
	const char *reason = error == 0 ? NULL : ERR_reason_error_string(error);
	ERR_clear_error();
	return reason != NULL ? reason : "failed";
}

/** Every certificate of a PEM text into the store. @return how many. */
static int add_authorities(X509_STORE *store, struct slice pem)
{
	int count = 0;
	BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	X509 *certificate;
	while (bio != NULL && (certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
		count += X509_STORE_add_cert(store, certificate) == 1;
		X509_free(certificate);
	}
	BIO_free(bio);
	ERR_clear_error(); /* the end of a PEM text is an error to OpenSSL */
	return count;
}

/** The first certificate is ours, the others lead to its CA. */
static int use_certificates(SSL_CTX *context, struct slice pem)
{
	bool own = false, fine = true;
	BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	X509 *certificate;
	while (bio != NULL && fine &&
		(certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
		fine = own ? SSL_CTX_add1_chain_cert(context, certificate) == 1
			   : SSL_CTX_use_certificate(context, certificate) == 1;
		own = true;
		X509_free(certificate);
	}
	BIO_free(bio);
	ERR_clear_error();
	return own && fine ? 0 : -EINVAL;
}

/** A key with a password can't be used: nobody is there to be asked. */
static int no_password(char *to, int size, int writing, void *arg)
{
	(void)to, (void)size, (void)writing, (void)arg; /* whatever they are */
	return -1;
}

static int use_key(SSL_CTX *context, struct slice pem)
{
	BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
	EVP_PKEY *key = bio == NULL ? NULL : PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
	bool fine = key != NULL && SSL_CTX_use_PrivateKey(context, key) == 1 &&
		SSL_CTX_check_private_key(context) == 1;
	EVP_PKEY_free(key);
	BIO_free(bio);
	return fine ? 0 : -EINVAL;
}

static int configure(SSL_CTX *context, const struct tls_client_options *o, struct failure *why)
{
	if (SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1)
		return failure_set(why, -EIO, "TLS 1.3: %s", complaint());
	if (o->authorities.len > INT_MAX || o->certificate.len > INT_MAX || o->key.len > INT_MAX)
		return failure_set(why, -EFBIG, "a PEM text is too large");
	if (add_authorities(SSL_CTX_get_cert_store(context), o->authorities) == 0)
		return failure_set(why, -EINVAL, "ca: no certificate in PEM");
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_mode(context,
		SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			SSL_MODE_AUTO_RETRY);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	if (o->certificate.len > 0 && use_certificates(context, o->certificate) < 0)
		return failure_set(why, -EINVAL, "cert: no certificate in PEM");
	if (o->certificate.len > 0 && use_key(context, o->key) < 0)
		return failure_set(why, -EINVAL,
			"key: no private key in PEM, without a password, that belongs to cert");
	return 0;
}

int tls_client_new(const struct tls_client_options *o, struct tls_client **ret, struct failure *why)
{
	struct tls_client *t = calloc(1, sizeof(*t));
	if (t == NULL)
		return failure_errno(why, -ENOMEM, "TLS");
	t->context = SSL_CTX_new(TLS_client_method());
	int r = t->context == NULL ? failure_errno(why, -ENOMEM, "TLS")
		: slice_copy(slice_of(o->name), t->name, sizeof(t->name)) < 0
		? failure_set(why, -ENAMETOOLONG, "name: too long")
		: configure(t->context, o, why);
	if (r < 0) {
		tls_client_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void tls_client_free(struct tls_client *t)
{
	if (t == NULL)
		return;
	SSL_CTX_free(t->context);
	free(t);
}

int tls_link_new(const struct tls_client *t, int fd, struct tls_link **ret)
{
	struct tls_link *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	l->ssl = SSL_new(t->context);
	/* An address is checked against the certificate's addresses, and is not sent as a name. */
	X509_VERIFY_PARAM *param = l->ssl == NULL ? NULL : SSL_get0_param(l->ssl);
	bool fine = param != NULL && SSL_set_fd(l->ssl, fd) == 1;
	if (fine && X509_VERIFY_PARAM_set1_ip_asc(param, t->name) != 1) {
		ERR_clear_error();
		X509_VERIFY_PARAM_set_hostflags(param,
			X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
		fine = SSL_set1_host(l->ssl, t->name) == 1 &&
			SSL_set_tlsext_host_name(l->ssl, t->name) == 1;
	}
	if (!fine) {
		tls_link_free(l);
		return -ENOMEM;
	}
	SSL_set_connect_state(l->ssl);
	*ret = l;
	return 0;
}

void tls_link_free(struct tls_link *l)
{
	if (l == NULL)
		return;
	SSL_free(l->ssl);
	ERR_clear_error();
	free(l);
}

/** What a call that returned @r came to; @what it was. */
static int step(struct tls_link *l, int r, const char *what, struct failure *why)
{
	int saved = errno;
	switch (SSL_get_error(l->ssl, r)) {
	case SSL_ERROR_NONE:
		return r;
	case SSL_ERROR_WANT_READ:
		return TLS_STEP_WANTS_READ;
	case SSL_ERROR_WANT_WRITE:
		return TLS_STEP_WANTS_WRITE;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		ERR_clear_error();
		return saved != 0
			? failure_errno(why, -saved, "%s", what)
			: failure_set(why, -ECONNRESET, "%s: the receiver went away", what);
	default:
		break;
	}
	long verified = SSL_get_verify_result(l->ssl);
	if (verified != X509_V_OK) {
		ERR_clear_error();
		return failure_set(why, -EPROTO, "%s: the receiver's certificate: %s", what,
			X509_verify_cert_error_string(verified));
	}
	/* An end of TCP without one of TLS: the caller knows whether that is expected. */
	if (ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
		ERR_clear_error();
		return failure_set(why, -EPIPE, "%s: the receiver closed the connection", what);
	}
	return failure_set(why, -EPROTO, "%s: %s", what, complaint());
}

int tls_link_handshake(struct tls_link *l, struct failure *why)
{
	ERR_clear_error();
	errno = 0;
	return step(l, SSL_do_handshake(l->ssl), "TLS handshake", why);
}

int tls_link_write(struct tls_link *l, struct slice text, struct failure *why)
{
	ERR_clear_error();
	errno = 0;
	return step(l, SSL_write(l->ssl, text.ptr, text.len > INT_MAX ? INT_MAX : (int)text.len),
		"sending", why);
}

int tls_link_read(struct tls_link *l, char *to, size_t capacity, struct failure *why)
{
	ERR_clear_error();
	errno = 0;
	return step(l, SSL_read(l->ssl, to, (int)capacity), "connection", why);
}

int tls_link_close(struct tls_link *l, struct failure *why)
{
	ERR_clear_error();
	errno = 0;
	int r = SSL_shutdown(l->ssl);
	return r >= 0 ? 0 : step(l, r, "ending TLS", why);
}

uint64_t tls_link_written(const struct tls_link *l)
{
	return BIO_number_written(SSL_get_wbio(l->ssl));
}
