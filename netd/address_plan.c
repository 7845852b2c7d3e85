/*
 * See address_plan.h. Any private range would do, since nothing else exists in a gateway
 * namespace; this one leaves room for eight million sandboxes. Pure arithmetic: no kernel object is
 * touched.
 */
#include "netd/address_plan.h"

#include <assert.h>
#include <errno.h>

#define PLAN_BASE UINT32_C(0x0a000000) /* 10.0.0.0 */
/*
 * lo is 1; and where both ends of a cable have the same number (the sandbox's is 2), the kernel
 * takes the cable for a plain link whose carrier may be noticed a second later
 */
#define PLAN_INDEX_BASE 2
#define PLAN_SERVICE    UINT32_C(0x0afffffe) /* 10.255.255.254 */
#define PLAN_SYNTHETIC  UINT32_C(0xc6120000) /* 198.18.0.0, RFC 2544 */

static_assert(PLAN_BASE + 2 * ADDRESS_PLAN_SLOT_MAX + 1 < PLAN_SERVICE, "the service is no slot's");

static struct address address_from_host_order(uint32_t value)
{
	return (struct address){.family = 4,
		.bytes = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
			(uint8_t)value}};
}

/**
 * Locally administered: 02 for the gateway's end, 06 for the sandbox's, then a zero and the slot.
 */
static void link_address(uint8_t first, uint32_t slot, uint8_t ret[static ADDRESS_PLAN_LINK_BYTES])
{
	const uint8_t bytes[ADDRESS_PLAN_LINK_BYTES] = {first, 0, (uint8_t)(slot >> 24),
		(uint8_t)(slot >> 16), (uint8_t)(slot >> 8), (uint8_t)slot};
	memcpy(ret, bytes, sizeof(bytes));
}

int address_plan_take(struct address_plan *plan, struct address_slot *ret)
{
	if (plan->used >= ADDRESS_PLAN_SLOT_MAX)
		return -ENOSPC;
	uint32_t slot = ++plan->used;
	*ret = (struct address_slot){
		.number = slot,
		.gateway = address_from_host_order(PLAN_BASE + 2 * slot),
		.sandbox = address_from_host_order(PLAN_BASE + 2 * slot + 1),
		.gateway_index = (int)slot + PLAN_INDEX_BASE,
	};
	link_address(0x02, slot, ret->gateway_link);
	link_address(0x06, slot, ret->sandbox_link);
	return 0;
}

struct address address_plan_service(void)
{
	return address_from_host_order(PLAN_SERVICE);
}

struct cidr address_plan_synthetic(void)
{
	return (struct cidr){.base = address_from_host_order(PLAN_SYNTHETIC), .bits = 15};
}
