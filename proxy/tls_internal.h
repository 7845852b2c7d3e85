/* What the TLS files share. Inside of the TLS layer only. */
#ifndef ECLUSA_PROXY_TLS_INTERNAL_H
#define ECLUSA_PROXY_TLS_INTERNAL_H

#include "proxy/tls.h"
#include "proxy/tls_tickets.h"

#include <openssl/ssl.h>

#define TLS_VERIFY_TEXT_BYTES 224
/* Whole names, never the subject. */
#define TLS_HOST_FLAGS (X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT)

/** Which side the peer is on. */
enum tls_side { TLS_SIDE_SANDBOX, TLS_SIDE_WORLD };

struct tls_upstream_context {
	SSL_CTX *ctx;
	struct tls_chains *chains;
	BIO_METHOD *socket;
	int ca_bundle_fd;
	int extra_ca_fd;
	bool loaded;
};

struct tls_server_context {
	SSL_CTX *ctx;
	BIO_METHOD *socket;
};

/** Legal order towards the sandbox: hello seen, then leaf or refused, once. */
struct tls_session {
	SSL *ssl;
	int fd; /* borrowed */
	enum tls_side side;
	bool drained; /* the last read took all that had come */
	bool more;    /* another record is about to be written */
	bool hello_seen;
	bool has_leaf;
	bool refused;
	bool http1;          /* the first hello offers it, or says nothing of protocols */
	bool other_protocol; /* refused for that */
	bool broken;         /* a fatal error happened: nothing more is said */
	enum tls_hello_kind hello;
	struct host name; /* what the ClientHello names, or whom the certificate must name */
	uint16_t port;    /* with tickets: where the host is */
	struct tls_tickets *tickets; /* borrowed; NULL: nothing is resumed */
	struct tls_chains *chains;   /* borrowed; towards the world */
	char verify_text
		[TLS_VERIFY_TEXT_BYTES]; /* why the certificate is not valid; empty if it is */
};

/** A BIO over a socket that raises no SIGPIPE. @return NULL when out of memory. */
BIO_METHOD *tls_socket_method(void);
/** Give the session a BIO of this method over its descriptor. */
int tls_socket_attach(struct tls_session *s, const BIO_METHOD *method);

/**
 * Use fewer of OpenSSL's algorithms from here on, in this process and those forked from it: before anything else of OpenSSL that asks for one.
 * Where it fails all are used, and certificates take longer.
 */
void tls_provider_load(void);

/** SSL_CTX_set_client_hello_cb(): reads the name, parks. */
int tls_hello_callback(SSL *ssl, int *ret_alert, void *arg);
/** SSL_CTX_sess_set_new_cb(): the host gave a ticket. */
int tls_tickets_keep(SSL *ssl, SSL_SESSION *session);
/** Hook into the verification of @store's sessions, each of which has ->chains. @return NULL when out of memory. */
struct tls_chains *tls_chains_new(X509_STORE *store);
/** After the store. Accepts NULL. */
void tls_chains_free(struct tls_chains *c);
/** SSL_set_verify(): keeps a readable text of the first error; never turns a no into a yes. */
int tls_verify_callback(int valid, X509_STORE_CTX *store);

/** Fill *why from OpenSSL's queue, the session and errno; empties the queue. @return TLS_ERROR */
enum tls_result tls_fault_set(struct tls_session *s, int ssl_error, struct tls_fault *why);
/** A distinguished name as printable text. @return to */
char *tls_name_print(const X509_NAME *name, char *to, size_t capacity);

#endif
