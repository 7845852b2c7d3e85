/*
 * The gateway namespace: no uplink, a packet filter, the proxy's listeners, and one link a
 * sandbox. It exists as long as somebody holds it or a socket in it; there is nothing to undo.
 */
#ifndef ECLUSA_NETD_GATEWAY_H
#define ECLUSA_NETD_GATEWAY_H

#include "ipc/message.h"
#include "netd/address_plan.h"

#include "common/failure.h"

#define GATEWAY_READY_MAX 64

struct gateway;
struct sample_source;

/** What a gateway has. */
struct gateway_options {
	unsigned workers;
	uint32_t sandboxes; /* at once; 0: as many as the sets of the rules may have */
	const struct cidr
		*captured; /* TCP to them reaches the transparent listeners: IPv4, may overlap */
	size_t captured_count;
	unsigned ready; /* namespaces that gateway_fill() keeps ready: at most GATEWAY_READY_MAX */
};

/**
 * Make it and stay in it: settings, then rules, then lo, the service address and the listeners of
 * each worker. @return 0, or negative errno with a line that names the step.
 */
int gateway_open(const struct gateway_options *options, struct gateway **ret, struct failure *why);
/** Accepts NULL. */
void gateway_close(struct gateway *g);
/** Of one kind, one a worker, borrowed. */
const int *gateway_listeners(const struct gateway *g, enum listener_kind kind, unsigned *ret_count);

/**
 * Make a sandbox's network namespace, its cable and its identity, on a slot that nobody had
 * before. After it the sandbox may knock at the service's port and is refused everything else.
 * @return 0 and the namespace's descriptor.
 */
int gateway_add_sandbox(
	struct gateway *g, struct address_slot *ret_slot, int *ret_fd, struct failure *why);
/**
 * Make one more namespace with its cable, for a lease to come, if one is lacking. Nobody is admitted by that, and none is given
 * out twice. @return 1 when one was made, 0 when there are enough, negative errno.
 */
int gateway_fill(struct gateway *g, struct failure *why);
/** Whether one is lacking. */
bool gateway_lacks(const struct gateway *g);
/** Its packets are dropped from now on. The namespace goes with its last holder. */
int gateway_remove_sandbox(struct gateway *g, const struct address_slot *slot, struct failure *why);
/** Where samples of refused packets come from; NULL: this kernel has none. Borrowed. */
struct sample_source *gateway_samples(const struct gateway *g);
int gateway_count_sandbox(struct gateway *g, const struct address_slot *slot,
	uint64_t ret_packets[static PACKET_CLASS_COUNT], struct failure *why);

#endif
