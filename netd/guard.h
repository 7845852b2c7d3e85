/*
 * The dial guard: a table in the host's namespace that keeps the proxy's uid from private,
 * special and the host's own addresses, whatever the proxy itself believes. It lives as long as any
 * duplicate of its socket is open.
 */
#ifndef ECLUSA_NETD_GUARD_H
#define ECLUSA_NETD_GUARD_H

#include "ipc/message.h"
#include "netd/nft.h"

/**
 * Load the guard for @start->proxy_uid in the current network namespace; @start->opened are the
 * exceptions. @return 0 and the table's socket, or negative errno with nothing loaded.
 */
int guard_load(const struct message_netd_start *start, struct nft **ret, struct failure *why);
/**
 * Take the table away, and leave the socket: for when nobody else holds a duplicate. Closing the last one takes the table away as
 * well, but waits until no processor can be looking at it, 10 ms and more. Accepts NULL.
 */
void guard_drop(struct nft *guard);

#endif
