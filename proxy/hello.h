/*
 * The ClientHello on a connection that is passed on unread: whom it names, and nothing else. Strict (RFC 8446 4.1.2, RFC
 * 6066 3): what two readers could read in two ways is malformed. Input: a sandbox's raw bytes, as they
 * come from the socket. For TLS that ends here see tls.h.
 */
#ifndef ECLUSA_PROXY_HELLO_H
#define ECLUSA_PROXY_HELLO_H

#include "policy/host.h"

#define HELLO_BYTES_MAX        16384 /* the message, whatever records it comes in */
#define HELLO_FLIGHT_BYTES_MAX 65536 /* the records up to its end */

enum hello_result {
	HELLO_MORE,
	HELLO_DONE,
	HELLO_MALFORMED,
	HELLO_NOT_TLS, /* the first bytes are no TLS handshake record */
	HELLO_ALERT, /* only after a HelloRetryRequest: scan->at is behind an alert, which a client sends that gives up */
};

/** Where the search for the message's end stands; zero-initialise. Keeps slow senders linear. */
struct hello_scan {
	bool again; /* a second hello may come: records of early data and change_cipher_spec before it are skipped */
	size_t at;       /* of the next record that was not looked at */
	size_t first;    /* of the message's first record */
	size_t got;      /* bytes of the message in whole records */
	uint8_t head[4]; /* the first of them: type and length */
};

struct hello {
	size_t len;    /* of the input up to the end of the hello's last record */
	bool has_name; /* with SNI; then @name is it */
	struct host name;
	bool ech;   /* encrypted_client_hello: the name inside may be another one */
	bool tls13; /* TLS 1.3 is offered, so that the host may ask for a second hello */
};

/**
 * Parse. Call again with the same bytes and more (they may have moved) while it says HELLO_MORE; an input of
 * HELLO_FLIGHT_BYTES_MAX never gets that. *ret is filled on HELLO_DONE. Does not block or allocate.
 */
enum hello_result hello_parse(struct hello_scan *scan, struct slice in, struct hello *ret);

/** What a host answers to a ClientHello. */
enum hello_answer {
	HELLO_ANSWER_MORE,  /* too few bytes to say */
	HELLO_ANSWER_RETRY, /* HelloRetryRequest (RFC 8446 4.1.3): another ClientHello follows */
	HELLO_ANSWER_OTHER,
};
/** Look at the first bytes of a host; HELLO_FLIGHT_BYTES_MAX of them never get HELLO_ANSWER_MORE. */
enum hello_answer hello_answer_of(struct slice in);

#endif
