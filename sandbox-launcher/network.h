/*
 * The embedded network of one run: a private netd and a private proxy, started, leased from and
 * ended. Not the sandbox itself. With no network asked for, none of this is used.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_NETWORK_H
#define ECLUSA_SANDBOX_LAUNCHER_NETWORK_H

#include "common/failure.h"
#include "common/slice.h"
#include "common/upstream_proxy.h"
#include "ipc/message.h"

#include <poll.h>

struct network;
struct policy;
struct profile;

struct network_options {
	const char *sandbox_id; /* also the id that the segment was created with */
	const char *profile;    /* a profile of the bundle */
	const struct profile
		*rules;      /* the same, compiled; NULL: none of its ip: rules is looked at */
	struct slice bundle; /* policy/source.h */
	const struct policy *policy; /* the same, compiled */
	bool root;               /* root of the initial user namespace: dial guard, separate uid */
	const char *upstream_ca; /* PEM file or NULL */
	struct upstream_proxy_options upstream_proxy;
	const char *hosts;    /* lab hosts file or NULL */
	const char *resolver; /* ADDR:PORT or NULL: the nameservers of /etc/resolv.conf */
	int segment_fd;       /* borrowed: audit segment */
	int audit_folder_fd;  /* borrowed: rings are made there */
};

/** Spawn both programs, which do nothing before they are told. The caller is root, in its own user namespace if need be. */
int network_begin(struct network **ret, struct failure *why);
/** Tell them, and ask for one lease; returns without waiting. */
int network_start(struct network *n, const struct network_options *options, struct failure *why);
/**
 * Wait for the sandbox's namespace and the CA's certificate, at most until @deadline_ns (monotonic). Nothing is served yet: no
 * program may start in it.
 */
int network_wait_place(struct network *n, uint64_t deadline_ns, struct failure *why);
struct leased;
/** A network that a service gave: @leased is owned from now on. All that follows means it; nothing is started. */
int network_lease_from(struct leased *leased, struct network **ret, struct failure *why);
/** Borrowed; NULL: it is no service's. NULL is accepted. */
struct leased *network_leased(const struct network *n);
/** Wait for lease and proxy, likewise. */
int network_wait(struct network *n, uint64_t deadline_ns, struct failure *why);

/** After network_wait_place(): all borrowed from @n. */
int network_namespace_fd(const struct network *n);
const struct message_lease_granted *network_lease(const struct network *n);
struct slice network_ca_pem(const struct network *n);
/**
 * Two descriptors to poll while the run goes on: if either reports anything, netd or super has died
 * (verdict supervisor).
 */
#define NETWORK_POLL_COUNT 2
void network_poll(const struct network *n, struct pollfd ret[static NETWORK_POLL_COUNT]);

/**
 * Orderly end, after the sandbox is gone: read the gateway's counters, let the proxy record and
 * quit, reap both programs, complete the rings into the segment. @return 0; -EPIPE when netd or
 * super had died (counters then zero; what the rings hold is recorded as recovered). Bounded by a
 * deadline of 5 s. @ret_counters may be NULL.
 */
int network_finish(struct network *n, struct message_counters_read *ret_counters);
/** Ends whatever still runs (SIGKILL by pidfd) and releases. Accepts NULL. */
void network_free(struct network *n);

#endif
