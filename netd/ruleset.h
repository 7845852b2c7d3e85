/*
 * The gateway's packet filter: one static ruleset, and for each sandbox one element in each of
 * its sets. It says who a packet is from (interface and source together), what it may reach (the
 * service's port), and refuses and counts the rest.
 */
#ifndef ECLUSA_NETD_RULESET_H
#define ECLUSA_NETD_RULESET_H

#include "ipc/message.h"
#include "netd/nft.h"

#define RULESET_TABLE "eclusa-gateway"

/**
 * Refusals that one sandbox gets answered; what is beyond is dropped in silence, and counted all
 * the same.
 */
#define RULESET_REFUSALS_PER_SECOND 10000U
#define RULESET_REFUSALS_BURST      65536U
/** New connections of one sandbox, at every door; what is beyond is reset. */
#define RULESET_CONNECTIONS_PER_SECOND 2000U
#define RULESET_CONNECTIONS_BURST      4000U
/** Questions by UDP to the proxy's DNS from one sandbox; what is beyond is refused. */
#define RULESET_QUESTIONS_PER_SECOND 2000U
#define RULESET_QUESTIONS_BURST      4000U
/** Refused packets of one sandbox that are looked at one by one; all are counted. */
#define RULESET_SAMPLES_PER_SECOND 20U
#define RULESET_SAMPLES_BURST      100U
/** Of a connection that goes to the transparent door: what the routing rule looks for. */
#define RULESET_CAPTURE_MARK 1U

/** Where the proxy listens, and what leads there. */
struct ruleset_doors {
	struct address service;
	struct cidr synthetic;       /* TCP to it is captured, */
	const struct cidr *captured; /* and TCP to these: IPv4, may overlap */
	size_t captured_count;
	uint32_t sandboxes;         /* at once; 0: as many as a set may have */
	bool sampled;               /* somebody listens to nflog: refused packets go there, too */
	struct address transparent; /* where captured connections are accepted */
};

/**
 * Load it into the namespace of @n's socket, in one batch. Nobody is admitted yet. @return 0 or
 * negative errno.
 */
int ruleset_load(struct nft *n, const struct ruleset_doors *doors, struct failure *why);
/**
 * From now on packets of this interface and source are a sandbox's; its counters start at 0. One
 * batch.
 */
int ruleset_admit(struct nft *n, const struct nft_key *sandbox, struct failure *why);
/** Its packets are dropped from now on. */
int ruleset_evict(struct nft *n, const struct nft_key *sandbox, struct failure *why);
/** Refused packets of a sandbox. */
int ruleset_count(struct nft *n, const struct nft_key *sandbox,
	uint64_t ret_packets[static PACKET_CLASS_COUNT], struct failure *why);

#endif
