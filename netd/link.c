/*
 * See link.h. There is no way to remove a link here: DELLINK is slow and synchronous, and a link
 * goes with its namespace.
 */
#include "netd/link.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <linux/fib_rules.h>
#include <linux/if.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/neighbour.h>
#include <netlink/route/route.h>
#include <netlink/route/rule.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

#define LINK_CARRIER_NS    NS_PER_SEC
#define LINK_CAPTURE_TABLE 100 /* any number that the kernel has no use for */

struct link {
	struct nl_sock *socket;
};

/** libnl's own codes hide errno; the line carries libnl's words. */
static int link_failed(int code, const char *step, struct failure *why)
{
	int r = -EIO;
	if (code == -NLE_PERM || code == -NLE_NOACCESS)
		r = -EPERM;
	if (code == -NLE_NOMEM)
		r = -ENOMEM;
	if (code == -NLE_EXIST)
		r = -EEXIST;
	if (code == -NLE_OPNOTSUPP || code == -NLE_OBJ_NOTFOUND || code == -NLE_NODEV)
		r = -EOPNOTSUPP;
	return failure_set(why, r, "can't %s: %s", step, nl_geterror(code));
}

int link_open(struct link **ret, struct failure *why)
{
	struct link *l = calloc(1, sizeof(*l));
	if (l == NULL)
		return failure_errno(why, -ENOMEM, "links");
	l->socket = nl_socket_alloc();
	int r = l->socket == NULL ? -NLE_NOMEM : nl_connect(l->socket, NETLINK_ROUTE);
	if (r < 0) {
		link_close(l);
		return link_failed(r, "open rtnetlink", why);
	}
	*ret = l;
	return 0;
}

void link_close(struct link *l)
{
	if (l == NULL)
		return;
	if (l->socket != NULL)
		nl_socket_free(l->socket);
	free(l);
}

/** A /32 as libnl's object; NULL when memory ran out. */
static struct nl_addr *link_address_object(const struct address *a)
{
	return nl_addr_build(AF_INET, a->bytes, 4);
}

int link_set_up(struct link *l, int index, struct failure *why)
{
	struct rtnl_link *now = rtnl_link_alloc();
	struct rtnl_link *wanted = rtnl_link_alloc();
	int r = -NLE_NOMEM;
	if (now != NULL && wanted != NULL) {
		rtnl_link_set_ifindex(now, index);
		rtnl_link_set_flags(wanted, IFF_UP);
		r = rtnl_link_change(l->socket, now, wanted, 0);
	}
	rtnl_link_put(now);
	rtnl_link_put(wanted);
	return r < 0 ? link_failed(r, "bring a link up", why) : 0;
}

/** @return 1 when the link's operational state is up, 0 when not yet, libnl's error. */
static int link_is_running(struct link *l, int index)
{
	struct rtnl_link *link;
	int r = rtnl_link_get_kernel(l->socket, index, NULL, &link);
	if (r < 0)
		return r;
	r = rtnl_link_get_operstate(link) == IF_OPER_UP ? 1 : 0;
	rtnl_link_put(link);
	return r;
}

int link_await_carrier(struct link *l, int index, struct failure *why)
{
	uint64_t deadline_ns = clock_monotonic_ns() + LINK_CARRIER_NS;
	for (;;) {
		/* asking makes kernels since 6.8 look at once; older ones do soon */
		int r = link_is_running(l, index);
		if (r < 0)
			return link_failed(r, "read a link's state", why);
		if (r > 0)
			return 0;
		if (clock_monotonic_ns() >= deadline_ns)
			return failure_set(why, -ETIMEDOUT, "a link of the gateway got no carrier");
		(void)poll(NULL, 0, 1);
	}
}

int link_add_address(struct link *l, int index, const struct address *address,
	const struct address *peer, struct failure *why)
{
	struct rtnl_addr *entry = rtnl_addr_alloc();
	struct nl_addr *local = link_address_object(address);
	struct nl_addr *other = peer == NULL ? NULL : link_address_object(peer);
	int r = -NLE_NOMEM;
	if (entry != NULL && local != NULL && (peer == NULL || other != NULL)) {
		rtnl_addr_set_ifindex(entry, index);
		r = rtnl_addr_set_local(entry, local);
		if (r >= 0 && other != NULL)
			r = rtnl_addr_set_peer(entry, other);
		if (r >= 0)
			r = rtnl_addr_add(l->socket, entry, 0);
	}
	nl_addr_put(local);
	nl_addr_put(other);
	rtnl_addr_put(entry);
	return r < 0 ? link_failed(r, "add an address", why) : 0;
}

int link_add_neighbour(struct link *l, int index, const struct address *address,
	const uint8_t link_address[static ADDRESS_PLAN_LINK_BYTES], struct failure *why)
{
	struct rtnl_neigh *entry = rtnl_neigh_alloc();
	struct nl_addr *where = link_address_object(address);
	struct nl_addr *hardware = nl_addr_build(AF_LLC, link_address, ADDRESS_PLAN_LINK_BYTES);
	int r = -NLE_NOMEM;
	if (entry != NULL && where != NULL && hardware != NULL) {
		rtnl_neigh_set_ifindex(entry, index);
		rtnl_neigh_set_lladdr(entry, hardware);
		rtnl_neigh_set_state(entry, NUD_PERMANENT);
		r = rtnl_neigh_set_dst(entry, where);
		if (r >= 0)
			r = rtnl_neigh_add(l->socket, entry, NLM_F_CREATE | NLM_F_REPLACE);
	}
	nl_addr_put(where);
	nl_addr_put(hardware);
	if (entry != NULL)
		rtnl_neigh_put(entry);
	return r < 0 ? link_failed(r, "add a neighbour entry", why) : 0;
}

/** A next hop that need not be on a connected prefix: there is none. NULL when memory ran out. */
static struct rtnl_nexthop *link_nexthop(int index, struct nl_addr *via)
{
	struct rtnl_nexthop *hop = rtnl_route_nh_alloc();
	if (hop == NULL)
		return NULL;
	rtnl_route_nh_set_ifindex(hop, index);
	rtnl_route_nh_set_gateway(hop, via);
	rtnl_route_nh_set_flags(hop, RTNH_F_ONLINK);
	return hop;
}

/** A route to everywhere by @hop, which it frees; @local: "local ... table LINK_CAPTURE_TABLE". @return libnl's error. */
static int link_add_route(struct link *l, struct rtnl_nexthop *hop, bool local)
{
	struct rtnl_route *route = rtnl_route_alloc();
	struct nl_addr *anywhere = nl_addr_alloc(4);
	int r = -NLE_NOMEM;
	if (route != NULL && anywhere != NULL && hop != NULL) {
		nl_addr_set_family(anywhere, AF_INET);
		nl_addr_set_prefixlen(anywhere, 0);
		rtnl_route_add_nexthop(route, ptr_take(hop)); /* the route frees it */
		r = rtnl_route_set_family(route, AF_INET);
		if (local) {
			rtnl_route_set_table(route, LINK_CAPTURE_TABLE);
			rtnl_route_set_scope(route, RT_SCOPE_HOST);
			r = r < 0 ? r : rtnl_route_set_type(route, RTN_LOCAL);
		}
		if (r >= 0)
			r = rtnl_route_set_dst(route, anywhere);
		if (r >= 0)
			r = rtnl_route_add(l->socket, route, NLM_F_EXCL);
	}
	if (hop != NULL)
		rtnl_route_nh_free(hop);
	nl_addr_put(anywhere);
	if (route != NULL)
		rtnl_route_put(route);
	return r;
}

int link_add_default_route(
	struct link *l, int index, const struct address *via, struct failure *why)
{
	struct nl_addr *gateway = link_address_object(via);
	struct rtnl_nexthop *hop = gateway == NULL ? NULL : link_nexthop(index, gateway);
	int r = link_add_route(l, hop, false);
	nl_addr_put(gateway);
	return r < 0 ? link_failed(r, "add the route to the gateway", why) : 0;
}

static int link_add_local_route(struct link *l)
{
	struct rtnl_nexthop *hop = rtnl_route_nh_alloc();
	if (hop != NULL)
		rtnl_route_nh_set_ifindex(hop, LINK_LOOPBACK_INDEX);
	return link_add_route(l, hop, true);
}

int link_add_capture_route(struct link *l, uint32_t mark, struct failure *why)
{
	struct rtnl_rule *rule = rtnl_rule_alloc();
	int r = rule == NULL ? -NLE_NOMEM : link_add_local_route(l);
	if (r >= 0) {
		rtnl_rule_set_family(rule, AF_INET);
		rtnl_rule_set_action(rule, FR_ACT_TO_TBL);
		rtnl_rule_set_mark(rule, mark);
		rtnl_rule_set_table(rule, LINK_CAPTURE_TABLE);
		r = rtnl_rule_add(l->socket, rule, NLM_F_EXCL);
	}
	if (rule != NULL)
		rtnl_rule_put(rule);
	return r < 0 ? link_failed(r, "add the route of captured connections", why) : 0;
}

static int link_describe_end(struct rtnl_link *end, const char *name, int index,
	const uint8_t link_address[static ADDRESS_PLAN_LINK_BYTES])
{
	struct nl_addr *hardware = nl_addr_build(AF_LLC, link_address, ADDRESS_PLAN_LINK_BYTES);
	if (hardware == NULL)
		return -NLE_NOMEM;
	rtnl_link_set_name(end, name);
	rtnl_link_set_ifindex(end, index);
	rtnl_link_set_addr(end, hardware);
	rtnl_link_set_num_tx_queues(end, 1); /* the default, one a CPU, doubles the cost */
	rtnl_link_set_num_rx_queues(end, 1);
	nl_addr_put(hardware);
	return 0;
}

int link_add_cable(
	struct link *l, const struct address_slot *slot, int sandbox_fd, struct failure *why)
{
	char name[IFNAMSIZ];
	(void)snprintf(name, sizeof(name), "s%u", slot->number);
	struct rtnl_link *here = rtnl_link_veth_alloc();
	int r = -NLE_NOMEM;
	if (here != NULL) {
		struct rtnl_link *there = rtnl_link_veth_get_peer(here); /* a reference */
		r = link_describe_end(here, name, slot->gateway_index, slot->gateway_link);
		if (r >= 0)
			r = link_describe_end(
				there, LINK_SANDBOX_NAME, LINK_SANDBOX_INDEX, slot->sandbox_link);
		rtnl_link_set_flags(here, IFF_UP);
		rtnl_link_set_ns_fd(there, sandbox_fd);
		if (r >= 0)
			r = rtnl_link_add(l->socket, here, NLM_F_CREATE | NLM_F_EXCL);
		rtnl_link_put(there);
		rtnl_link_veth_release(here);
	}
	return r < 0 ? link_failed(r, "make the sandbox's veth pair", why) : 0;
}
