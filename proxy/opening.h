/*
 * How a client opens a connection that is for raw bytes only: whether with TLS or an HTTP request, which other rules
 * are for. A recogniser that keeps no bytes and holds none back: what could still become one or the other passes, and
 * what makes it certain does not. Input: a sandbox's bytes.
 */
#ifndef ECLUSA_PROXY_OPENING_H
#define ECLUSA_PROXY_OPENING_H

#include "common/slice.h"

#define OPENING_LINE_BYTES_MAX 65536 /* a first line that is longer is no request's */
#define OPENING_WORD_BYTES     16

enum opening_result {
	OPENING_UNDECIDED,
	OPENING_OTHER, /* neither of them: nobody looks any further */
	OPENING_TLS,
	OPENING_HTTP,
};

/** Zero-initialise. */
struct opening {
	uint8_t state;
	uint8_t matched; /* of "HTTP/" behind a blank */
	uint8_t word_len;
	char word[OPENING_WORD_BYTES]; /* the first word: may be a method */
	uint32_t count;                /* bytes of the first line */
};

/** The next bytes. After anything but OPENING_UNDECIDED it is not called again; on TLS and HTTP none of them may pass. */
enum opening_result opening_feed(struct opening *o, struct slice in);

#endif
