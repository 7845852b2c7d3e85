/*
 * The name in a ClientHello, and the parking of a handshake until that name was judged. Input: a
 * sandbox's bytes, as far as OpenSSL has cut them into extensions.
 */
#include "proxy/tls_internal.h"

/** Two bytes, big-endian, off the front. False when there are fewer. */
static bool take_u16(struct slice *in, size_t *ret)
{
	if (in->len < 2)
		return false;
	*ret = (size_t)(uint8_t)in->ptr[0] << 8 | (uint8_t)in->ptr[1];
	*in = slice_part(*in, 2, in->len);
	return true;
}

/** server_name of RFC 6066 section 3: one entry, of type host_name, that is a host. */
static enum tls_hello_kind server_name_parse(struct slice in, struct host *ret)
{
	size_t len;
	if (!take_u16(&in, &len) || len != in.len || in.len == 0 || in.ptr[0] != 0)
		return TLS_HELLO_MALFORMED;
	in = slice_part(in, 1, in.len);
	if (!take_u16(&in, &len) || len != in.len || host_parse(in, ret) < 0)
		return TLS_HELLO_MALFORMED;
	return TLS_HELLO_NAME;
}

static enum tls_hello_kind hello_read(SSL *ssl, struct host *ret)
{
	const unsigned char *bytes;
	size_t len;
	if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_server_name, &bytes, &len) != 1)
		return TLS_HELLO_NO_NAME;
	return server_name_parse((struct slice){(const char *)bytes, len}, ret);
}

/** Whether http/1.1 is among the protocols (RFC 7301), or none is named. */
static bool offers_http1(SSL *ssl)
{
	const unsigned char *bytes;
	size_t len;
	if (SSL_client_hello_get0_ext(
		    ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &bytes, &len) != 1)
		return true;
	struct slice in = {(const char *)bytes, len};
	if (!take_u16(&in, &len) || len != in.len)
		return false;
	while (in.len > 0) {
		size_t one = (uint8_t)in.ptr[0];
		if (slice_equal(slice_part(in, 1, 1 + one), SLICE("http/1.1")))
			return true;
		in = slice_part(in, 1 + one, in.len);
	}
	return false;
}

/** Whether this hello says what the one that was judged said: it may be the second one, after a
 * HelloRetryRequest. */
static bool hello_same(SSL *ssl, const struct tls_session *s)
{
	struct host name;
	enum tls_hello_kind kind = hello_read(ssl, &name);
	return kind == s->hello && (kind != TLS_HELLO_NAME || host_equal(&name, &s->name));
}

int tls_hello_callback(SSL *ssl, int *ret_alert, void *arg)
{
	struct tls_session *s = SSL_get_app_data(ssl);
	(void)arg;
	if (!s->hello_seen) {
		s->hello = hello_read(ssl, &s->name);
		s->http1 = offers_http1(ssl);
		s->hello_seen = true;
	}
	if (!s->refused && !s->has_leaf)
		return SSL_CLIENT_HELLO_RETRY;
	if (!s->refused && hello_same(ssl, s))
		return SSL_CLIENT_HELLO_SUCCESS;
	s->refused = true;
	*ret_alert = s->other_protocol ? SSL_AD_NO_APPLICATION_PROTOCOL : SSL_AD_UNRECOGNIZED_NAME;
	return SSL_CLIENT_HELLO_ERROR;
}

enum tls_hello_kind tls_session_hello(const struct tls_session *s, struct host *ret_name)
{
	if (s->hello == TLS_HELLO_NAME)
		*ret_name = s->name;
	return s->hello;
}

bool tls_session_offers_http1(const struct tls_session *s)
{
	return s->http1;
}

void tls_session_refuse_protocol(struct tls_session *s)
{
	s->other_protocol = true;
	tls_session_refuse(s);
}
