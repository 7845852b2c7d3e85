/*
 * What a client begins a connection with, where that may be TLS, an HTTP request or something else: only the first bytes are looked
 * at, and nothing is judged. Who reads on is strict (hello.h, tls.h, http1.h). For connections that are for raw bytes alone see
 * opening.h. Input: a sandbox's bytes.
 */
#ifndef ECLUSA_PROXY_FIRST_BYTES_H
#define ECLUSA_PROXY_FIRST_BYTES_H

#include "common/slice.h"

enum first_bytes {
	FIRST_BYTES_MORE, /* too few to say */
	FIRST_BYTES_TLS,  /* a record of a TLS handshake */
	FIRST_BYTES_HTTP, /* a method (RFC 9110 9.1) and a blank */
	FIRST_BYTES_OTHER,
};

/** Call again with the same bytes and more while it says FIRST_BYTES_MORE, which it never does of more than HTTP1_METHOD_BYTES_MAX. */
enum first_bytes first_bytes_of(struct slice in);

#endif
