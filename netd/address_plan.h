/*
 * Which addresses a sandbox gets. Slot i (from 1) owns the pair 10.0.0.0 + 2i: the even one is
 * the gateway's end, the odd one the sandbox's. A slot is handed out once in a gateway's life: a
 * dead sandbox's queued connection would otherwise be taken for its successor's.
 */
#ifndef ECLUSA_NETD_ADDRESS_PLAN_H
#define ECLUSA_NETD_ADDRESS_PLAN_H

#include "common/address.h"

#define ADDRESS_PLAN_EXPLICIT_PORT    3128
#define ADDRESS_PLAN_TRANSPARENT_PORT 3129 /* on loopback, where only tproxy leads */
#define ADDRESS_PLAN_DNS_PORT         53
#define ADDRESS_PLAN_LINK_BYTES       6
/** The pairs end before the one that holds the service address. */
#define ADDRESS_PLAN_SLOT_MAX UINT32_C(8388606)

/** The next slot. Zero-initialise. */
struct address_plan {
	uint32_t used;
};

/** What belongs to one slot. */
struct address_slot {
	uint32_t number;
	struct address gateway;
	struct address sandbox;
	int gateway_index; /* interface index of the gateway's end; never 2, the sandbox's */
	uint8_t gateway_link[ADDRESS_PLAN_LINK_BYTES];
	uint8_t sandbox_link[ADDRESS_PLAN_LINK_BYTES];
};

/** A slot that nobody had before. @return 0 or -ENOSPC when none is left. */
int address_plan_take(struct address_plan *plan, struct address_slot *ret);
/** Where the proxy listens: 10.255.255.254, the same for every sandbox. */
struct address address_plan_service(void);
/** Where the proxy's own DNS takes its answers from: 198.18.0.0/15, which leads nowhere. */
struct cidr address_plan_synthetic(void);

#endif
