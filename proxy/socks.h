/*
 * SOCKS5 (RFC 1928), the server's side of its messages: strict parsing in place, and replies. Only what the proxy takes: no
 * authentication, CONNECT. Knows nothing of flows: see socks_door.c. Input: a sandbox's bytes.
 */
#ifndef ECLUSA_PROXY_SOCKS_H
#define ECLUSA_PROXY_SOCKS_H

#include "common/buf.h"
#include "policy/host.h"

#define SOCKS_VERSION_4          4
#define SOCKS_VERSION_5          5
#define SOCKS_TEXT_BYTES         256 /* of an address as text, and NUL */
#define SOCKS_GREETING_BYTES_MAX 257
#define SOCKS_REQUEST_BYTES_MAX  262

enum socks_result {
	SOCKS_MORE,
	SOCKS_DONE,
	SOCKS_ERROR,
	SOCKS_UNKNOWN_ADDRESS, /* of no known kind, so that nobody knows where the request ends */
};

enum socks_reply { /* RFC 1928 6 */
	SOCKS_SUCCEEDED = 0,
	SOCKS_FAILURE = 1,
	SOCKS_NOT_ALLOWED = 2,
	SOCKS_HOST_UNREACHABLE = 4,
	SOCKS_REFUSED = 5,
	SOCKS_BAD_COMMAND = 7,
	SOCKS_BAD_ADDRESS = 8,
};

/** What a client waits for. */
enum socks_stage {
	SOCKS_STAGE_METHOD,  /* the choice of a method */
	SOCKS_STAGE_REQUEST, /* the reply to its request */
	SOCKS_STAGE_4,       /* a reply of version 4, which is never yes */
};

struct socks_request {
	size_t len;    /* of the message */
	bool connect;  /* the command is CONNECT */
	bool has_host; /* the address names a valid host: @host */
	struct host host;
	uint16_t port;
	char text
		[SOCKS_TEXT_BYTES]; /* the address as it came, which may be anything; for the record */
	size_t text_len;
};

/** The client's methods. SOCKS_ERROR: not of version 5, or it offers none. *ret_open: one of them is no authentication. */
enum socks_result socks_parse_greeting(struct slice in, size_t *ret_len, bool *ret_open);
/**
 * The client's request. A name is parsed as CONNECT's host is, so that what is an address there is one here. *ret is filled on
 * SOCKS_DONE.
 */
enum socks_result socks_parse_request(struct slice in, struct socks_request *ret);
/** Append what a client at this stage is told. @return 0, -ENOMEM, -ENOBUFS */
int socks_write_reply(enum socks_stage stage, enum socks_reply reply, struct buf *out);
/** Append the choice of no authentication. */
int socks_write_method(struct buf *out);

#endif
