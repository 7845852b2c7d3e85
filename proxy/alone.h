/*
 * The proxy alone: an explicit proxy without sandboxes, for a sidecar or a developer's machine. This process plays launcher and
 * netd for an ordinary super: it opens files, listens, hands both over, and stays to hear signals and to load policy anew. It
 * keeps its user's rights and reads no byte of a client; whoever connects belongs to one synthetic sandbox. As a service (--serve) there is
 * a netd between, and sandboxes whose launchers ask for networks: serve.h.
 */
#ifndef ECLUSA_PROXY_ALONE_H
#define ECLUSA_PROXY_ALONE_H

#include "common/address.h"
#include "common/upstream_proxy.h"
#include "policy/config.h"

enum alone_exit {
	ALONE_EXIT_ENDED = 0,
	ALONE_EXIT_FAILED = 1,
	ALONE_EXIT_POLICY = 2, /* there is no policy to start with */
	ALONE_EXIT_USAGE = 125,
};

#define ALONE_PROFILES_MAX 64

/** Paths and names as the user gave them; NULL: not given. */
struct alone_options {
	char *const *argv; /* as it was called, for the log */
	struct address address;
	uint16_t port;
	bool has_address;
	bool remote; /* --listen may be reached from other machines */
	bool watch;
	bool serve;         /* sandboxes come, and no clients: then there is no address */
	const char *socket; /* where their launchers ask */
	unsigned workers, leases, ready;
	const char *policy, *profile; /* the first of them; NULL: the only one there is */
	const char *profiles[ALONE_PROFILES_MAX];
	size_t profile_count;
	const char *trust[CONFIG_TRUST_MAX];
	size_t trust_count;
	const char *ca, *ca_key, *ca_out;
	const char *upstream_ca, *hosts, *resolver;
	struct upstream_proxy_options upstream_proxy;
	const char *audit_dir, *state_dir;
	const char *metrics; /* a socket's path, or ADDRESS:PORT of the loopback */
	uint64_t segment_bytes, segment_age_ms; /* of a file of the log; 0: not given */
	unsigned decisions;                     /* that may be in flight; 0: not given */
};

/** Take argv apart, all of it. @return 0; -EINVAL after a line on standard error. */
int alone_parse(int argc, char **argv, struct alone_options *ret);
/** Serve until SIGTERM or SIGINT, or until a part of it died for good. @return enum alone_exit */
int alone_run(const struct alone_options *options);

#endif
