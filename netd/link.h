/* Links, addresses, neighbours and routes of one network namespace, by rtnetlink. */
#ifndef ECLUSA_NETD_LINK_H
#define ECLUSA_NETD_LINK_H

#include "common/failure.h"
#include "netd/address_plan.h"

#define LINK_LOOPBACK_INDEX 1
#define LINK_SANDBOX_INDEX  2
#define LINK_SANDBOX_NAME   "eth0"

struct link; /* an rtnetlink socket; it stays in the namespace that it was opened in */

/** In the current network namespace. @return 0 or negative errno. */
int link_open(struct link **ret, struct failure *why);
/** Accepts NULL. */
void link_close(struct link *l);

int link_set_up(struct link *l, int index, struct failure *why);
/** A /32; with @peer also the route to it. */
int link_add_address(struct link *l, int index, const struct address *address,
	const struct address *peer, struct failure *why);
/** An entry that never expires and asks nobody. */
int link_add_neighbour(struct link *l, int index, const struct address *address,
	const uint8_t link_address[static ADDRESS_PLAN_LINK_BYTES], struct failure *why);
int link_add_default_route(
	struct link *l, int index, const struct address *via, struct failure *why);
/**
 * Packets with @mark are for this namespace itself, whatever their destination: a rule, and a table
 * with one local route.
 */
int link_add_capture_route(struct link *l, uint32_t mark, struct failure *why);
/**
 * Wait until the kernel has noticed that a link has its carrier: until then it drops what the
 * link should send, and a refusal is lost. It is a matter of microseconds. @return 0, -ETIMEDOUT
 * after a second, other errors.
 */
int link_await_carrier(struct link *l, int index, struct failure *why);
/**
 * The cable of a slot: the gateway's end here, up, under its planned index; the sandbox's end
 * born in @sandbox_fd's namespace as eth0, index 2, down. One queue each way.
 */
int link_add_cable(
	struct link *l, const struct address_slot *slot, int sandbox_fd, struct failure *why);

#endif
