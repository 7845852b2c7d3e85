/*
 * A worker: the process that speaks to sandboxes and to the world, for the sandboxes that belong to it. super makes
 * its context and forks it; everything it will ever need is in the context, since it has no file system.
 */
#ifndef ECLUSA_PROXY_WORKER_H
#define ECLUSA_PROXY_WORKER_H

#include "audit/ring.h"
#include "common/upstream_proxy.h"
#include "ipc/message.h"
#include "policy/policy.h"
#include "proxy/budget.h"
#include "proxy/limits.h"
#include "proxy/metrics.h"
#include "proxy/synthetic.h"

/** Borrowed by worker_run(); made by super, which keeps what a restarted worker needs again. */
struct worker_context {
	unsigned index;
	int channel_fd; /* seqpacket to super: MESSAGE_SANDBOX_ADD/ADDED/REMOVE, MESSAGE_POLICY_PREPARE ..., MESSAGE_PROXY_FINISH/FINISHED */
	int keeper_fd;  /* seqpacket to the keeper: keeper.h */
	int recorder_fd; /* one byte wakes the recorder after a line entered the ring; non-blocking */
	int commit_fd;   /* eventfd: the recorder says that more of the ring is on the disk */
	int explicit_fd;            /* listening socket in the gateway namespace */
	int transparent_fd;         /* likewise, of captured connections; -1: the proxy is alone */
	int dns_udp_fd, dns_tcp_fd; /* of the proxy's own DNS, non-blocking; -1 as before */
	int guard_fd;               /* held only so that the dial guard lives; -1 without one */
	int ca_bundle_fd;           /* PEM roots of the system */
	int upstream_ca_fd;         /* more PEM roots, or -1 */
	const struct upstream_proxy *upstream_proxy; /* NULL: there is none between us and hosts */
	struct slice hosts; /* text of --hosts: "ADDR NAME..." lines; empty without */
	struct audit_ring *ring;
	struct budget *budget;
	struct synthetic *synthetic; /* addresses that stand for names of its sandboxes */
	struct metrics *metrics;     /* NULL: counted, and seen by nobody */
	struct policy *policy;       /* taken over */
	uint32_t policy_origin;      /* enum message_policy_origin */
	const struct message_proxy_start *start; /* resolvers */
	const struct limits *limits;             /* NULL: limits_default() */
	const char *instance; /* short id of this run or service life, for connection ids */
};

/**
 * Run the event loop until super says MESSAGE_PROXY_FINISH or its channel ends. Called in the forked child, already
 * confined (own user, pid, mount namespaces, no capability, seccomp filter loaded by worker_confine()).
 * @return the exit status. flow.c and its neighbours implement it.
 */
int worker_run(const struct worker_context *context);

#endif
