/* What was wrong with a peer's message, and how it is answered. */
#ifndef ECLUSA_PROXY_HTTP_FAULT_H
#define ECLUSA_PROXY_HTTP_FAULT_H

#include "common/reason.h"

/**
 * A fault. @status is what a client gets: 400, 414, 417, 431, 501, 505 for its own message; 502 for
 * any fault of an upstream's. @reason REASON_DENY_SMUGGLING, _NAME_INVALID, _LIMIT, _PROTOCOL, or
 * REASON_ERROR_UPSTREAM.
 * @detail a constant sentence without peer bytes.
 */
struct http_fault {
	unsigned status;
	enum reason reason;
	const char *detail;
};

#endif
