/*
 * What netd is to open for the proxy and to capture for it, gathered into its start message: addresses that the dial guard lets through
 * beyond public ones, and addresses by which a client that knows no proxy may ask. Whose rules they are is the caller's to know.
 */
#ifndef ECLUSA_IPC_OPENINGS_H
#define ECLUSA_IPC_OPENINGS_H

#include "ipc/message.h"

/** @too_many_opened, @too_many_captured: something found no room in the message, which may not be sent then. */
struct openings {
	struct message_netd_start *to;
	bool too_many_opened, too_many_captured;
};

/** Ports of a prefix, by TCP. @arg the openings: a policy's visitor. */
void openings_open(const struct cidr *prefix, uint16_t port_first, uint16_t port_last, void *arg);
/** One port of one address, by TCP and UDP: a name server. */
void openings_open_server(struct openings *o, const struct address *address, uint16_t port);
/** One port of one address, by TCP: a proxy. */
void openings_open_proxy(struct openings *o, const struct address *address, uint16_t port);
/** A prefix that the gateway hands to the proxy; IPv6 is left out, as a sandbox has none. @arg the openings: a policy's visitor. */
void openings_capture(const struct cidr *prefix, void *arg);

#endif
