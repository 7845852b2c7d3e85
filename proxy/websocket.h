/*
 * The opening handshake of WebSocket (RFC 6455 4), as far as someone between the two has to see that both mean it.
 * Frames are bytes to us. Inputs: heads of a client and of a host.
 */
#ifndef ECLUSA_PROXY_WEBSOCKET_H
#define ECLUSA_PROXY_WEBSOCKET_H

#include "proxy/http1.h"

#define WEBSOCKET_ACCEPT_BYTES 29 /* of base64, and NUL */

/**
 * What the host has to answer to a request that asks for WebSocket. @return 0; -EINVAL: it is no valid
 * handshake: no single key of 16 bytes, or a body.
 */
int websocket_accept_of(
	const struct http1_request *r, char ret_accept[static WEBSOCKET_ACCEPT_BYTES]);
/** Whether a 101 answers that request, and no other protocol was switched to. */
bool websocket_switches(const struct http1_response *r, const char *accept);

#endif
