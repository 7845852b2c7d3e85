/*
 * How a client opens a connection that is for raw bytes only: whether with TLS or an HTTP request, which other rules
 * are for, or with a PROXY header, behind which either may follow. A recogniser that keeps no bytes and holds none back:
 * what could still become one of them passes, and what makes it certain does not. Input: a sandbox's bytes.
 */
#ifndef ECLUSA_PROXY_OPENING_H
#define ECLUSA_PROXY_OPENING_H

#include "common/slice.h"

#define OPENING_HEAD_BYTES 12 /* the first bytes, in which TLS and a binary PROXY header show */
#define OPENING_WORD_BYTES 16

enum opening_result {
	OPENING_UNDECIDED,
	OPENING_OTHER, /* none of them: nobody looks any further */
	OPENING_TLS,
	OPENING_HTTP,
	OPENING_PROXY,
};

/** Zero-initialise. */
struct opening {
	uint8_t head[OPENING_HEAD_BYTES];
	uint8_t head_len;
	uint8_t state;   /* of the first line that may be a request's */
	uint8_t matched; /* of "HTTP/" behind a blank */
	uint8_t word_len;
	char word[OPENING_WORD_BYTES]; /* the first word: may be a method */
};

/** The next bytes. After anything but OPENING_UNDECIDED it is not called again; of what is recognised none of them may pass. */
enum opening_result opening_feed(struct opening *o, struct slice in);

#endif
