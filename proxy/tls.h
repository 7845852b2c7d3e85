/*
 * TLS towards both sides on non-blocking sockets, by OpenSSL: contexts made once a process, a
 * session a connection. Towards the world every certificate is verified; there is no switch for
 * that. Towards the sandbox a handshake is parked at its ClientHello until the caller has judged
 * the name and brought a leaf. Decides nothing about policy.
 */
#ifndef ECLUSA_PROXY_TLS_H
#define ECLUSA_PROXY_TLS_H

#include "common/reason.h"
#include "proxy/leaf.h"

struct tls_upstream_context; /* roots and settings towards the world */
struct tls_server_context;   /* settings and key towards the sandbox */
struct tls_session;          /* one TLS connection over a borrowed descriptor */

enum tls_result {
	TLS_DONE,
	TLS_WANT_READ,  /* call again when the descriptor is readable */
	TLS_WANT_WRITE, /* call again when it is writable */
	TLS_PARKED,     /* server handshake: ask tls_session_hello(), then tls_session_use_leaf() or
			   _refuse() */
	TLS_CLOSED,     /* the peer ended with close_notify */
	TLS_ERROR,      /* over; a peer that just closed without close_notify is this, too */
};

#define TLS_DETAIL_BYTES 256

/** Why it ended. @detail one printable line. */
struct tls_fault {
	enum reason reason; /* DENY_UPSTREAM_CERT, ERROR_UPSTREAM; towards the sandbox DENY_NOT_TLS,
			       DENY_PROTOCOL, DENY_SNI_MISMATCH */
	bool by_peer;       /* who went away, or refused with an alert */
	char detail[TLS_DETAIL_BYTES];
};

/** Initialise the library (2 ms), so that processes forked afterwards need not. A failure shows when it is used. */
void tls_warm_up(void);

/**
 * Verified towards: the roots of @ca_bundle_fd and @extra_ca_fd (-1: none), both PEM, duplicated
 * here. Roots are read and parsed (8 ms) at the first session, or by tls_upstream_context_load().
 * TLS 1.2 and later, ALPN http/1.1.
 */
int tls_upstream_context_new(
	int ca_bundle_fd, int extra_ca_fd, struct tls_upstream_context **ret, struct failure *why);
/** Load now what would be loaded at the first session. @return 0, -EINVAL: no certificate in it;
 * another negative errno. */
int tls_upstream_context_load(struct tls_upstream_context *c, struct failure *why);
void tls_upstream_context_free(struct tls_upstream_context *c);

/** Borrows @key, which must outlive it. No tickets and no session cache: no session of one name can
 * be resumed under another. */
int tls_server_context_new(
	const struct leaf_key *key, struct tls_server_context **ret, struct failure *why);
void tls_server_context_free(struct tls_server_context *c);

/** A client session to @host (SNI and certificate name; an address is checked as an address,
 * without SNI). @fd is borrowed, connected, non-blocking. */
int tls_session_new_upstream(struct tls_upstream_context *c, int fd, const struct host *host,
	struct tls_session **ret, struct failure *why);
/**
 * A server session. The ClientHello must be unread on @fd: bytes that were read before (behind a
 * CONNECT head) can't be given back; refuse such a client.
 */
int tls_session_new_server(struct tls_server_context *c, int fd, struct tls_session **ret);
/** Releases without a word to the peer. Accepts NULL. The descriptor stays open. */
void tls_session_free(struct tls_session *s);

/** Go on with the handshake. TLS_DONE, _WANT_READ, _WANT_WRITE, _PARKED, _ERROR (*why filled). */
enum tls_result tls_handshake(struct tls_session *s, struct tls_fault *why);

/** What a ClientHello says about the server's name. */
enum tls_hello_kind {
	TLS_HELLO_NAME,
	TLS_HELLO_NO_NAME,
	TLS_HELLO_MALFORMED, /* a server_name that is no host, or several: refuse */
};

/** Of a parked session (and later). *ret_name is set for TLS_HELLO_NAME. An encrypted-client-hello
 * extension is ignored: the outer name is the one that is served. */
enum tls_hello_kind tls_session_hello(const struct tls_session *s, struct host *ret_name);
/** Unpark with this certificate (referenced by the session); go on with tls_handshake(). @return 0,
 * -EINVAL. */
int tls_session_use_leaf(struct tls_session *s, const struct leaf *leaf);
/** Unpark with a fatal unrecognized_name alert; the next tls_handshake() sends it and says
 * TLS_ERROR, DENY_SNI_MISMATCH. */
void tls_session_refuse(struct tls_session *s);

/** Of a parked session: whether HTTP/1.1 may follow. */
bool tls_session_offers_http1(const struct tls_session *s);
/** tls_session_refuse() with the alert no_application_protocol. */
void tls_session_refuse_protocol(struct tls_session *s);

/** Read decrypted bytes: TLS_DONE with *ret_len > 0, _WANT_*, _CLOSED, _ERROR. No allocation. */
enum tls_result tls_read(
	struct tls_session *s, char *to, size_t capacity, size_t *ret_len, struct tls_fault *why);
/**
 * Write a record: TLS_DONE with *ret_len > 0 (perhaps fewer than given), _WANT_*, _ERROR. It leaves at once if it has all of @from, else
 * the kernel may keep it for what follows. After WANT_* offer
 * the same bytes again (more may follow them, and they may have moved).
 */
enum tls_result tls_write(
	struct tls_session *s, struct slice from, size_t *ret_len, struct tls_fault *why);
/**
 * After TLS_DONE of tls_read(): whether another read may find something. More is taken from the descriptor than one record, and poll() does not
 * show what waits inside.
 */
bool tls_may_have_more(const struct tls_session *s);
/** Whether some of it was taken from the descriptor already. */
bool tls_has_more(const struct tls_session *s);
/**
 * Say close_notify: everything before it was complete. Never after a cut. TLS_DONE: said (do not
 * wait for the peer's); TLS_WANT_WRITE; TLS_ERROR: could not be said.
 */
enum tls_result tls_shutdown(struct tls_session *s);

#define TLS_NAME_BYTES   256
#define TLS_SERIAL_BYTES 48 /* 20 bytes at most: RFC 5280, 4.1.2.2 */

/** For audit, after the handshake. @version and @cipher static text; names only for upstream
 * sessions. */
struct tls_info {
	unsigned references; /* of one on the heap */
	const char *version;
	const char *cipher;
	char subject[TLS_NAME_BYTES];
	char issuer[TLS_NAME_BYTES];
	char serial[TLS_SERIAL_BYTES]; /* of the certificate, hex digits */
};
void tls_session_info(const struct tls_session *s, struct tls_info *ret);
/** The same on the heap, to be shared. @return NULL when out of memory. */
struct tls_info *tls_info_new(const struct tls_session *s);
/** Accept NULL. */
struct tls_info *tls_info_get(struct tls_info *info);
void tls_info_put(struct tls_info *info);

/** What waits first on a socket. */
enum tls_peek { TLS_PEEK_TLS, TLS_PEEK_OTHER, TLS_PEEK_NOTHING, TLS_PEEK_CLOSED };
/** Look at the first bytes without taking them: NOTHING = none there yet; OTHER = not a TLS
 * handshake (deny.not-tls). */
enum tls_peek tls_peek(int fd);

#endif
