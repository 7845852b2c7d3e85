/*
 * The proxy's listening sockets in the gateway namespace: of each kind one a worker, in one
 * SO_REUSEPORT group that a classic BPF program steers by source address, so that a sandbox belongs
 * to one worker, whichever door it comes to.
 */
#ifndef ECLUSA_NETD_LISTENER_H
#define ECLUSA_NETD_LISTENER_H

#include "common/address.h"
#include "common/failure.h"

/** What a group of sockets is for. */
struct listener_spec {
	struct address address;
	uint16_t port;
	bool datagram;    /* UDP */
	bool transparent; /* takes what tproxy leads to it; needs CAP_NET_ADMIN */
};

/** Connections that wait for accept(), for each worker; shared by its sandboxes. */
#define LISTENER_BACKLOG 512

/**
 * Which worker serves a sandbox: its address in host order, halved (pairs share a slot), modulo
 * workers.
 */
unsigned listener_worker(const struct address *sandbox, unsigned workers);

/**
 * Make @workers sockets in the current network namespace, CLOEXEC and non-blocking. @return 0, or
 * negative errno with nothing left open.
 */
int listener_open(
	const struct listener_spec *spec, unsigned workers, int *ret_fds, struct failure *why);

#endif
