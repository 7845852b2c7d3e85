/* One TLS connection: set-up, handshake, bytes, end. See tls.h. Decrypted bytes are a peer's. */
#include "proxy/tls_internal.h"
#include "proxy/leaf_openssl.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#define TAG_BYTES 16 /* of AES-GCM and ChaCha20-Poly1305 */

/** What OpenSSL's next error is told from. Clearing an empty queue takes ten times as long as seeing that it is. */
static void errors_forget(void)
{
	if (ERR_peek_error() != 0)
		ERR_clear_error();
}

/** @return NULL when out of memory. */
static struct tls_session *session_new(SSL_CTX *ctx, const BIO_METHOD *socket, int fd)
{
	struct tls_session *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->fd = fd;
	s->drained = true;
	s->ssl = SSL_new(ctx);
	if (s->ssl == NULL || SSL_set_app_data(s->ssl, s) != 1 ||
		tls_socket_attach(s, socket) < 0) {
		tls_session_free(s);
		ERR_clear_error();
		return NULL;
	}
	return s;
}

/** Whom the certificate must name: whole names or the address, never the subject, no partial
 * wildcards. */
static bool expect_host(SSL *ssl, const struct host *host)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
	X509_VERIFY_PARAM_set_hostflags(param, TLS_HOST_FLAGS);
	if (host->kind == HOST_ADDRESS)
		return X509_VERIFY_PARAM_set1_ip(
			       param, host->address.bytes, host->address.family == 6 ? 16 : 4) == 1;
	assert(host->name[0] != '\0' && host->name[0] != '.'); /* would match any name below */
	return X509_VERIFY_PARAM_set1_host(param, host->name, 0) == 1 &&
		SSL_set_tlsext_host_name(ssl, host->name) == 1;
}

int tls_session_new_upstream(struct tls_upstream_context *c, int fd, const struct host *host,
	struct tls_session **ret, struct failure *why)
{
	int r = tls_upstream_context_load(c, why);
	if (r < 0)
		return r;
	struct tls_session *s = session_new(c->ctx, c->socket, fd);
	if (s == NULL)
		return failure_set(why, -ENOMEM, "making a TLS session: out of memory");
	s->side = TLS_SIDE_WORLD;
	s->chains = c->chains;
	s->name = *host;
	if (!expect_host(s->ssl, host)) {
		tls_session_free(s);
		return leaf_failure(why, -ENOMEM, "making a TLS session");
	}
	SSL_set_connect_state(s->ssl);
	*ret = s;
	return 0;
}

int tls_session_new_server(struct tls_server_context *c, int fd, struct tls_session **ret)
{
	struct tls_session *s = session_new(c->ctx, c->socket, fd);
	if (s == NULL)
		return -ENOMEM;
	s->side = TLS_SIDE_SANDBOX;
	s->hello = TLS_HELLO_NO_NAME;
	SSL_set_accept_state(s->ssl);
	*ret = s;
	return 0;
}

void tls_session_free(struct tls_session *s)
{
	if (s == NULL)
		return;
	if (s->ssl != NULL && !s->broken) /* else OpenSSL takes it for cut, and never resumes it */
		SSL_set_shutdown(s->ssl, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
	SSL_free(s->ssl); /* says nothing to the peer */
	free(s);
}

int tls_session_use_leaf(struct tls_session *s, const struct leaf *leaf)
{
	assert(s->side == TLS_SIDE_SANDBOX && s->hello_seen && !s->refused);
	int r = SSL_use_certificate(s->ssl, leaf_certificate(leaf));
	ERR_clear_error();
	if (r != 1)
		return -EINVAL;
	s->has_leaf = true;
	return 0;
}

void tls_session_refuse(struct tls_session *s)
{
	s->refused = true;
}

/** What a failed call means: wait, or it is over. */
static enum tls_result unfinished(struct tls_session *s, int r, struct tls_fault *why)
{
	int error = SSL_get_error(s->ssl, r);
	if (error == SSL_ERROR_WANT_READ)
		return TLS_WANT_READ;
	if (error == SSL_ERROR_WANT_WRITE)
		return TLS_WANT_WRITE;
	if (error == SSL_ERROR_WANT_CLIENT_HELLO_CB)
		return TLS_PARKED;
	if (error == SSL_ERROR_ZERO_RETURN)
		return TLS_CLOSED;
	return tls_fault_set(s, error, why);
}

/** The world's side has a certificate that was verified, now or when the resumed session began. */
static bool is_verified(const struct tls_session *s)
{
	return s->side == TLS_SIDE_SANDBOX ||
		(SSL_get_verify_result(s->ssl) == X509_V_OK &&
			SSL_get0_peer_certificate(s->ssl) != NULL);
}

enum tls_result tls_handshake(struct tls_session *s, struct tls_fault *why)
{
	errors_forget();
	errno = 0;
	int r = SSL_do_handshake(s->ssl);
	if (r == 1 && is_verified(s))
		return TLS_DONE;
	if (r == 1)
		return tls_fault_set(s, SSL_ERROR_SSL, why);
	enum tls_result result = unfinished(s, r, why);
	/* close_notify in the middle of a handshake is no orderly end. */
	return result == TLS_CLOSED ? tls_fault_set(s, SSL_ERROR_SSL, why) : result;
}

/**
 * Room to read into. While they come fast, for four of the largest records, and nothing behind them: of a record that has begun OpenSSL reads
 * what is missing, and no more. 3: what it leaves empty in front, to align a payload. 0: for one.
 */
static size_t read_room(const struct tls_session *s)
{
	size_t added = SSL_version(s->ssl) == TLS1_3_VERSION ? 1 : 8; /* RFC 8446 5.2, RFC 5288 3 */
	return s->drained
		? 0
		: 4 * (SSL3_RT_HEADER_LENGTH + SSL3_RT_MAX_PLAIN_LENGTH + added + TAG_BYTES) + 3;
}

enum tls_result tls_read(
	struct tls_session *s, char *to, size_t capacity, size_t *ret_len, struct tls_fault *why)
{
	errors_forget();
	errno = 0;
	SSL_set_default_read_buffer_len(s->ssl, read_room(s));
	if (SSL_read_ex(s->ssl, to, capacity, ret_len) == 1)
		return TLS_DONE;
	*ret_len = 0;
	return unfinished(s, 0, why);
}

enum tls_result tls_write(
	struct tls_session *s, struct slice from, size_t *ret_len, struct tls_fault *why)
{
	errors_forget();
	errno = 0;
	*ret_len = 0;
	if (from.len == 0)
		return TLS_DONE;
	s->more = from.len > SSL3_RT_MAX_PLAIN_LENGTH;
	bool written = SSL_write_ex(s->ssl, from.ptr, from.len, ret_len) == 1;
	s->more = false; /* what TLS itself has to say */
	if (written)
		return TLS_DONE;
	*ret_len = 0;
	enum tls_result result = unfinished(s, 0, why);
	return result == TLS_CLOSED ? tls_fault_set(s, SSL_ERROR_SSL, why) : result;
}

bool tls_has_more(const struct tls_session *s)
{
	return SSL_has_pending(s->ssl) == 1;
}

bool tls_may_have_more(const struct tls_session *s)
{
	return !s->drained || tls_has_more(s);
}

enum tls_result tls_shutdown(struct tls_session *s)
{
	if (s->broken || SSL_is_init_finished(s->ssl) != 1)
		return TLS_ERROR;
	ERR_clear_error();
	int r = SSL_shutdown(s->ssl);
	if (r >= 0)
		return TLS_DONE;
	int error = SSL_get_error(s->ssl, r);
	ERR_clear_error();
	if (error == SSL_ERROR_WANT_WRITE)
		return TLS_WANT_WRITE;
	s->broken = error != SSL_ERROR_WANT_READ; /* that one waits for the peer's: ours was said */
	return s->broken ? TLS_ERROR : TLS_DONE;
}

static void print_serial(const X509 *certificate, char to[static TLS_SERIAL_BYTES])
{
	static const char hex[] = "0123456789abcdef";
	const ASN1_INTEGER *serial = X509_get0_serialNumber(certificate);
	const unsigned char *bytes = ASN1_STRING_get0_data(serial);
	int len = ASN1_STRING_length(serial);
	size_t at = 0;
	for (int i = 0; i < len && at + 2 < TLS_SERIAL_BYTES; i++) {
		to[at++] = hex[bytes[i] >> 4];
		to[at++] = hex[bytes[i] & 15];
	}
	to[at] = '\0';
}

void tls_session_info(const struct tls_session *s, struct tls_info *ret)
{
	X509 *peer = SSL_get0_peer_certificate(s->ssl);
	*ret = (struct tls_info){
		.version = SSL_get_version(s->ssl),
		.cipher = SSL_CIPHER_get_name(SSL_get_current_cipher(s->ssl)),
	};
	if (peer == NULL)
		return;
	(void)tls_name_print(X509_get_subject_name(peer), ret->subject, sizeof(ret->subject));
	(void)tls_name_print(X509_get_issuer_name(peer), ret->issuer, sizeof(ret->issuer));
	print_serial(peer, ret->serial);
}

struct tls_info *tls_info_new(const struct tls_session *s)
{
	struct tls_info *info = malloc(sizeof(*info));
	if (info != NULL) {
		tls_session_info(s, info);
		info->references = 1;
	}
	return info;
}

struct tls_info *tls_info_get(struct tls_info *info)
{
	if (info != NULL)
		info->references++;
	return info;
}

void tls_info_put(struct tls_info *info)
{
	if (info != NULL && --info->references == 0)
		free(info);
}
