/*
 * The two contexts of a worker, made once: one towards the world, whose sessions verify every
 * certificate, and one towards sandboxes, whose sessions park at the ClientHello. Not the sessions
 * themselves.
 *
 * X509_V_FLAG_X509_STRICT stays off towards the world: it adds no check of who signed for whom, and
 * refuses company CAs and older public roots for missing key identifiers. Towards clients our own
 * leaves pass it.
 */
#include "proxy/tls_internal.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "proxy/leaf_openssl.h"

#include <errno.h>
#include <fcntl.h>

#include <openssl/err.h>
#include <openssl/pem.h>

#define PREAD_BYTES    65536
#define SECURITY_LEVEL 2 /* 112 bits: RSA-2048, P-224, SHA-2 */
#define GROUPS         "X25519:P-256:P-384:P-521"
/* All are as strong as the keys. A handshake with SHA-256 takes a tenth less than one with SHA-384. */
#define SUITES "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

static const unsigned char alpn_http1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

/** What both sides have in common. */
static bool context_settings(SSL_CTX *ctx)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ctx,
		SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
			SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_read_ahead(ctx, 1); /* a record's header and the rest by one read */
	SSL_CTX_set_security_level(ctx, SECURITY_LEVEL);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1 &&
		SSL_CTX_set1_groups_list(ctx, GROUPS) == 1 &&
		SSL_CTX_set_ciphersuites(ctx, SUITES) == 1;
}

/** OpenSSL without its configuration file: it could add engines, providers or weaker settings. */
static SSL_CTX *context_new(const SSL_METHOD *method)
{
	if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1)
		return NULL;
	SSL_CTX *ctx = SSL_CTX_new(method);
	if (ctx != NULL && !context_settings(ctx)) {
		SSL_CTX_free(ctx);
		ctx = NULL;
	}
	return ctx;
}

void tls_warm_up(void)
{
	struct leaf_key *key = NULL;
	/* first of all: nothing is taken apart, piece by piece, at the end of a process that holds nothing else */
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
	if (OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) == 1)
		tls_provider_load();
	SSL_CTX *ctx = context_new(TLS_server_method());
	if (leaf_key_new(&key, NULL) == 0)
		leaf_key_free(key);
	SSL_CTX_free(ctx);
}

/** The whole file from its start, whatever its position: forked workers share that. */
static int read_whole(int fd, struct buf *to)
{
	off_t at = 0;
	for (;;) {
		char *room;
		int r = buf_reserve(to, PREAD_BYTES, &room);
		if (r < 0)
			return r;
		ssize_t len = pread(fd, room, PREAD_BYTES, at);
		if (len < 0 && errno == EINTR)
			continue;
		if (len <= 0)
			return len < 0 ? -errno : 0;
		buf_grew(to, (size_t)len);
		at += len;
	}
}

/** Add every certificate of a PEM text. @return how many, or -EINVAL: one that is none. */
static int roots_add(X509_STORE *store, BIO *pem)
{
	int count = 0;
	X509 *x;
	while ((x = PEM_read_bio_X509(pem, NULL, NULL, NULL)) != NULL) {
		int added = X509_STORE_add_cert(store, x);
		X509_free(x);
		if (added != 1)
			return -EINVAL;
		count++;
	}
	bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
	return at_end ? count : -EINVAL;
}

static int roots_load(SSL_CTX *ctx, int fd, const char *what, struct failure *why)
{
	struct buf text;
	buf_init(&text, TLS_ROOTS_BYTES_MAX);
	int r = read_whole(fd, &text);
	if (r < 0) {
		buf_fini(&text);
		return failure_errno(why, r, "reading %s", what);
	}
	BIO *pem = BIO_new_mem_buf(text.data, (int)buf_len(&text)); /* below its limit */
	int count = pem == NULL ? -ENOMEM : roots_add(SSL_CTX_get_cert_store(ctx), pem);
	BIO_free(pem);
	buf_fini(&text);
	if (count == 0)
		r = failure_set(why, -EINVAL, "%s holds no certificate", what);
	else if (count < 0)
		r = leaf_failure(why, count, what);
	ERR_clear_error();
	return r;
}

int tls_upstream_context_new(
	int ca_bundle_fd, int extra_ca_fd, struct tls_upstream_context **ret, struct failure *why)
{
	struct tls_upstream_context *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return failure_set(why, -ENOMEM, "making the TLS context: out of memory");
	c->ca_bundle_fd = fcntl(ca_bundle_fd, F_DUPFD_CLOEXEC, 0);
	c->extra_ca_fd = extra_ca_fd < 0 ? -1 : fcntl(extra_ca_fd, F_DUPFD_CLOEXEC, 0);
	c->socket = tls_socket_method();
	c->ctx = context_new(TLS_client_method());
	bool fds = c->ca_bundle_fd >= 0 && (extra_ca_fd < 0 || c->extra_ca_fd >= 0);
	/* The odd one out: SSL_CTX_set_alpn_protos() says 0 when it worked. */
	if (!fds || c->socket == NULL || c->ctx == NULL ||
		SSL_CTX_set_alpn_protos(c->ctx, alpn_http1, sizeof(alpn_http1)) != 0) {
		tls_upstream_context_free(c);
		return leaf_failure(why, -EIO, "making the TLS context");
	}
	SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, tls_verify_callback);
	c->chains = tls_chains_new(SSL_CTX_get_cert_store(c->ctx));
	if (c->chains == NULL) {
		tls_upstream_context_free(c);
		return leaf_failure(why, -ENOMEM, "making the TLS context");
	}
	/* Sessions are kept by sandbox, host and port: tls_tickets.h. */
	SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(c->ctx, tls_tickets_keep);
	*ret = c;
	return 0;
}

int tls_upstream_context_load(struct tls_upstream_context *c, struct failure *why)
{
	if (c->loaded)
		return 0;
	int r = roots_load(c->ctx, c->ca_bundle_fd, "the system's CA bundle", why);
	if (r == 0 && c->extra_ca_fd >= 0)
		r = roots_load(c->ctx, c->extra_ca_fd, "the file of --upstream-ca", why);
	if (r < 0)
		return r;
	fd_close(&c->ca_bundle_fd);
	fd_close(&c->extra_ca_fd);
	c->loaded = true;
	return 0;
}

void tls_upstream_context_free(struct tls_upstream_context *c)
{
	if (c == NULL)
		return;
	fd_close(&c->ca_bundle_fd);
	fd_close(&c->extra_ca_fd);
	SSL_CTX_free(c->ctx);
	tls_chains_free(c->chains);
	BIO_meth_free(c->socket);
	free(c);
}

/** http/1.1 or no handshake: a client that speaks only HTTP/2 shall learn it here. */
static int alpn_select(SSL *ssl, const unsigned char **ret, unsigned char *ret_len,
	const unsigned char *offered, unsigned offered_len, void *arg)
{
	(void)ssl;
	(void)arg;
	unsigned char *chosen;
	if (SSL_select_next_proto(&chosen, ret_len, alpn_http1, sizeof(alpn_http1), offered,
		    offered_len) != OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*ret = chosen;
	return SSL_TLSEXT_ERR_OK;
}

int tls_server_context_new(
	const struct leaf_key *key, struct tls_server_context **ret, struct failure *why)
{
	struct tls_server_context *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return failure_set(why, -ENOMEM, "making the TLS context: out of memory");
	c->socket = tls_socket_method();
	c->ctx = context_new(TLS_server_method());
	if (c->socket == NULL || c->ctx == NULL || SSL_CTX_set_num_tickets(c->ctx, 0) != 1 ||
		SSL_CTX_use_PrivateKey(c->ctx, leaf_key_pair(key)) != 1) {
		tls_server_context_free(c);
		return leaf_failure(why, -EIO, "making the TLS context");
	}
	SSL_CTX_set_options(c->ctx,
		SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
	SSL_CTX_set_client_hello_cb(c->ctx, tls_hello_callback, NULL);
	SSL_CTX_set_alpn_select_cb(c->ctx, alpn_select, NULL);
	*ret = c;
	return 0;
}

void tls_server_context_free(struct tls_server_context *c)
{
	if (c == NULL)
		return;
	SSL_CTX_free(c->ctx);
	BIO_meth_free(c->socket);
	free(c);
}
