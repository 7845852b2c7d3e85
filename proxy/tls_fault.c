/*
 * Why a TLS connection ended, in words that a person can use: OpenSSL's error queue and a
 * certificate's fault turned into one printable line. Certificate text is a peer's.
 */
#include "proxy/tls_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>

#define DATE_BYTES  16
#define NAMES_SHOWN 3

/** Text for people: it may be cut. */
__attribute__((format(printf, 3, 4))) static void print(
	char *to, size_t capacity, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	if (vsnprintf(to, capacity, format, arguments) < 0)
		to[0] = '\0';
	va_end(arguments);
}

/** Visible ASCII and blanks; what else a peer wrote becomes '?'. @return to */
static char *plain(struct slice text, char *to, size_t capacity)
{
	size_t len = text.len < capacity - 1 ? text.len : capacity - 1;
	for (size_t i = 0; i < len; i++)
		to[i] = text.ptr[i] >= 0x20 && text.ptr[i] < 0x7f ? text.ptr[i] : '?';
	to[len] = '\0';
	return to;
}

char *tls_name_print(const X509_NAME *name, char *to, size_t capacity)
{
	to[0] = '\0';
	BIO *bio = BIO_new(BIO_s_mem());
	if (bio != NULL && X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253) >= 0) {
		char *text;
		long len = BIO_get_mem_data(bio, &text);
		if (len > 0)
			(void)plain((struct slice){text, (size_t)len}, to, capacity);
	}
	BIO_free(bio);
	return to;
}

static char *date_print(const ASN1_TIME *time, char to[static DATE_BYTES])
{
	struct tm tm;
	to[0] = '\0';
	if (ASN1_TIME_to_tm(time, &tm) == 1)
		(void)strftime(to, DATE_BYTES, "%Y-%m-%d", &tm); /* empty if it does not fit */
	return to;
}

/** The first names that a certificate is for, comma-separated. */
static char *names_print(X509 *x, char *to, size_t capacity)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(x, NID_subject_alt_name, NULL, NULL);
	char text[TLS_VERIFY_TEXT_BYTES] = "";
	size_t len = 0;
	for (int i = 0; i < sk_GENERAL_NAME_num(names) && i < NAMES_SHOWN; i++) {
		int type;
		const ASN1_STRING *value =
			GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
		if (type != GEN_DNS)
			continue;
		int n = snprintf(text + len, sizeof(text) - len, "%s%.*s", len > 0 ? ", " : "",
			ASN1_STRING_length(value), (const char *)ASN1_STRING_get0_data(value));
		len += n > 0 && (size_t)n < sizeof(text) - len ? (size_t)n : 0;
	}
	text[len] = '\0';
	GENERAL_NAMES_free(names);
	return plain(slice_of(len > 0 ? text : "no DNS name"), to, capacity);
}

/** What about the certificate makes the error plain. */
static void verify_detail(int error, X509 *x, char *to, size_t capacity)
{
	char text[TLS_VERIFY_TEXT_BYTES];
	switch (error) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		print(to, capacity, "expired %s", date_print(X509_get0_notAfter(x), text));
		break;
	case X509_V_ERR_CERT_NOT_YET_VALID:
		print(to, capacity, "valid from %s", date_print(X509_get0_notBefore(x), text));
		break;
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		print(to, capacity, "it is for %s", names_print(x, text, sizeof(text)));
		break;
	default:
		print(to, capacity, "issued by %s",
			tls_name_print(X509_get_issuer_name(x), text, sizeof(text)));
		break;
	}
}

int tls_verify_callback(int valid, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	struct tls_session *s = SSL_get_app_data(ssl);
	X509 *x = X509_STORE_CTX_get_current_cert(store);
	if (valid == 1 || s->verify_text[0] != '\0')
		return valid;
	int error = X509_STORE_CTX_get_error(store);
	char detail[TLS_VERIFY_TEXT_BYTES] = "no certificate";
	if (x != NULL)
		verify_detail(error, x, detail, sizeof(detail));
	print(s->verify_text, sizeof(s->verify_text), "%s (%.100s, %s)",
		X509_verify_cert_error_string(error), s->name.name, detail);
	return valid;
}

/** Reasons that OpenSSL gives when the first record is none. */
static bool never_was_tls(int reason)
{
	return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
		reason == SSL_R_HTTPS_PROXY_REQUEST || reason == SSL_R_UNKNOWN_PROTOCOL ||
		reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_BAD_RECORD_TYPE ||
		reason == SSL_R_RECORD_LENGTH_MISMATCH || reason == SSL_R_PACKET_LENGTH_TOO_LONG;
}

static enum reason fault_reason(const struct tls_session *s, int queued)
{
	if (s->side == TLS_SIDE_WORLD)
		return s->verify_text[0] != '\0' ? REASON_DENY_UPSTREAM_CERT
						 : REASON_ERROR_UPSTREAM;
	if (s->refused)
		return REASON_DENY_SNI_MISMATCH;
	if (!s->hello_seen && never_was_tls(queued))
		return REASON_DENY_NOT_TLS;
	return REASON_DENY_PROTOCOL;
}

/** Which of the causes it was. @return to */
static const char *fault_text(const struct tls_session *s, unsigned long queued, int system_error,
	char *to, size_t capacity)
{
	int reason = ERR_GET_REASON(queued);
	const char *peer = s->side == TLS_SIDE_WORLD ? "the host" : "the client";
	if (s->verify_text[0] != '\0')
		return s->verify_text;
	if (s->refused)
		return "the ClientHello names another host than the tunnel";
	if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING || (queued == 0 && system_error == 0))
		print(to, capacity, "%s closed the connection without an end of TLS", peer);
	else if (queued == 0)
		print(to, capacity, "%s: %s", peer, strerror(system_error));
	else if (reason > SSL_AD_REASON_OFFSET)
		print(to, capacity, "%s refuses with the TLS alert: %s", peer,
			SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
	else
		print(to, capacity, "TLS with %s failed: %s", peer,
			ERR_reason_error_string(queued));
	return to;
}

/** It ended the connection, or said an alert. */
static bool peer_ended(unsigned long queued)
{
	int reason = ERR_GET_REASON(queued);
	return queued == 0 || reason == SSL_R_UNEXPECTED_EOF_WHILE_READING ||
		reason > SSL_AD_REASON_OFFSET;
}

enum tls_result tls_fault_set(struct tls_session *s, int ssl_error, struct tls_fault *why)
{
	int system_error = ssl_error == SSL_ERROR_SYSCALL ? errno : 0;
	unsigned long queued = ERR_peek_last_error();
	char text[TLS_DETAIL_BYTES];
	const char *detail = fault_text(s, queued, system_error, text, sizeof(text));
	struct tls_fault fault = {
		.reason = fault_reason(s, ERR_GET_REASON(queued)), .by_peer = peer_ended(queued)};
	(void)plain(slice_of(detail), fault.detail, sizeof(fault.detail));
	ERR_clear_error();
	s->broken = true;
	*why = fault;
	return TLS_ERROR;
}
