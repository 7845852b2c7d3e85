/*
 * A lease: one connection of a launcher, and the one sandbox network that it may ask for. The end
 * of the connection is the eviction. Legal order: idle, then (after MESSAGE_LEASE) waiting for the
 * proxy, then granted; counters at any time after.
 */
#ifndef ECLUSA_NETD_LEASE_H
#define ECLUSA_NETD_LEASE_H

#include "netd/gateway.h"

enum lease_state { LEASE_IDLE, LEASE_WAITING, LEASE_GRANTED };

struct lease {
	struct lease *next; /* in the server's list */
	int channel_fd;
	enum lease_state state;
	char sandbox_id[SANDBOX_ID_BYTES];
	char profile[MESSAGE_NAME_BYTES];
	struct address_slot slot;
	struct message_samples samples; /* of its refused packets */
	int namespace_fd; /* until granted: afterwards the launcher's copy is the sandbox's life */
};

/**
 * A lease over a connection, which it owns from now on. NULL when out of memory (the connection is
 * closed).
 */
struct lease *lease_new(int channel_fd);
/** Evict what was admitted, close everything. */
void lease_free(struct lease *lease, struct gateway *g);

/**
 * MESSAGE_LEASE: make the sandbox's network, announce it to the proxy, and show it to the launcher. @return 0 or negative
 * errno.
 */
int lease_request(struct lease *lease, struct gateway *g, const struct message_lease *message,
	int proxy_fd, struct failure *why);
/** MESSAGE_SANDBOX_ADDED: the proxy knows it; hand the namespace to the launcher. */
int lease_grant(struct lease *lease, struct failure *why);
/** MESSAGE_COUNTERS: answer with what was refused so far. */
int lease_count(struct lease *lease, struct gateway *g, struct failure *why);
/** MESSAGE_SANDBOX_REMOVE to the proxy, if it was told of the sandbox. */
void lease_withdraw(const struct lease *lease, int proxy_fd);

#endif
