/*
 * OpenSSL's way to a socket: recv() and send() without SIGPIPE, so that a peer that went away is an
 * error of its session and never a signal to the process.
 */
#include "proxy/tls_internal.h"

#include <errno.h>
#include <sys/socket.h>

static struct tls_session *session_of(BIO *bio)
{
	return BIO_get_data(bio);
}

static bool again(ssize_t r)
{
	return r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

static int socket_read(BIO *bio, char *to, size_t len, size_t *ret_len)
{
	BIO_clear_retry_flags(bio);
	struct tls_session *s = session_of(bio);
	ssize_t r = recv(s->fd, to, len, 0);
	s->drained = r < (ssize_t)len && r != 0;
	if (again(r))
		BIO_set_retry_read(bio);
	if (r == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	*ret_len = r > 0 ? (size_t)r : 0;
	return r > 0;
}

static int socket_write(BIO *bio, const char *from, size_t len, size_t *ret_len)
{
	BIO_clear_retry_flags(bio);
	const struct tls_session *s = session_of(bio);
	ssize_t r = send(s->fd, from, len, MSG_NOSIGNAL | (s->more ? MSG_MORE : 0));
	if (again(r))
		BIO_set_retry_write(bio);
	*ret_len = r > 0 ? (size_t)r : 0;
	return r > 0;
}

static long socket_ctrl(BIO *bio, int command, long number, void *ptr)
{
	(void)number;
	(void)ptr;
	if (command == BIO_CTRL_EOF)
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD *tls_socket_method(void)
{
	int type = BIO_get_new_index();
	BIO_METHOD *method = type < 0 ? NULL : BIO_meth_new(type | BIO_TYPE_SOURCE_SINK, "socket");
	if (method == NULL)
		return NULL;
	if (BIO_meth_set_read_ex(method, socket_read) != 1 ||
		BIO_meth_set_write_ex(method, socket_write) != 1 ||
		BIO_meth_set_ctrl(method, socket_ctrl) != 1) {
		BIO_meth_free(method);
		return NULL;
	}
	return method;
}

int tls_socket_attach(struct tls_session *s, const BIO_METHOD *method)
{
	BIO *bio = BIO_new(method);
	if (bio == NULL)
		return -ENOMEM;
	BIO_set_data(bio, s);
	BIO_set_init(bio, 1);
	SSL_set_bio(s->ssl, bio, bio); /* takes it over */
	return 0;
}

enum tls_peek tls_peek(int fd)
{
	uint8_t first[3]; /* record type 22 (handshake), version 3.0 to 3.4 (RFC 8446 5.1) */
	ssize_t len = recv(fd, first, sizeof(first), MSG_PEEK | MSG_DONTWAIT);
	if (again(len))
		return TLS_PEEK_NOTHING;
	if (len <= 0)
		return TLS_PEEK_CLOSED;
	bool tls = first[0] == 22 && (len < 2 || first[1] == 3) && (len < 3 || first[2] <= 4);
	return tls ? TLS_PEEK_TLS : TLS_PEEK_OTHER;
}
