/*
 * See guard.h. Asks the kernel with one RTM_GETROUTE, rtnetlink(7), answered while it is sent. What it said is true until something
 * changes, of which it tells whoever listens: that is looked at each time, which is a tenth of asking.
 */
#include "proxy/guard.h"

#include "common/cleanup.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#define GROUP(group) (1u << (RTNLGRP_##group - 1))

/** All that can change how the kernel routes an address. @return descriptor, or -1. */
static int changes_open(void)
{
	const struct sockaddr_nl changes = {.nl_family = AF_NETLINK,
		.nl_groups = GROUP(LINK) | GROUP(IPV4_IFADDR) | GROUP(IPV4_ROUTE) |
			GROUP(IPV4_RULE) | GROUP(IPV6_IFADDR) | GROUP(IPV6_ROUTE) |
			GROUP(IPV6_RULE) | GROUP(NEXTHOP)};
	auto_fd fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&changes, sizeof(changes)) < 0)
		return -1;
	return fd_take(&fd);
}

int guard_open(struct guard *ret, struct failure *why)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (fd < 0)
		return failure_errno(why, -errno, "guard: can't open a route socket");
	*ret = (struct guard){.netlink_fd = fd, .changes_fd = changes_open()};
	return 0;
}

void guard_close(struct guard *g)
{
	fd_close(&g->netlink_fd);
	fd_close(&g->changes_fd);
}

struct route_question {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr destination;
	uint8_t bytes[16];
};

static int route_ask(struct guard *g, const struct address *a)
{
	size_t len = a->family == 6 ? 16 : 4;
	struct route_question q = {
		.head = {.nlmsg_len = (uint32_t)(offsetof(struct route_question, bytes) + len),
			.nlmsg_type = RTM_GETROUTE,
			.nlmsg_flags = NLM_F_REQUEST,
			.nlmsg_seq = ++g->sequence},
		.route = {.rtm_family = a->family == 6 ? AF_INET6 : AF_INET,
			.rtm_dst_len = (uint8_t)(len * 8)},
		.destination = {.rta_len = (uint16_t)(sizeof(struct rtattr) + len),
			.rta_type = RTA_DST},
	};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	memcpy(q.bytes, a->bytes, len);
	ssize_t sent = sendto(g->netlink_fd, &q, q.head.nlmsg_len, MSG_NOSIGNAL,
		(struct sockaddr *)&kernel, sizeof(kernel));
	return sent == (ssize_t)q.head.nlmsg_len ? 0 : -EIO;
}

/** @return the route's type (RTN_*), -ENETUNREACH, -EIO. */
static int route_find(struct guard *g, const struct address *a)
{
	if (route_ask(g, a) < 0)
		return -EIO;
	for (;;) {
		union {
			struct nlmsghdr head;
			char bytes[4096];
		} answer;
		ssize_t n = recv(g->netlink_fd, &answer, sizeof(answer), MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < (ssize_t)sizeof(answer.head))
			return -EIO;
		if (answer.head.nlmsg_seq != g->sequence)
			continue; /* left by a question that failed */
		if (answer.head.nlmsg_type == NLMSG_ERROR)
			return -ENETUNREACH; /* also blackhole and prohibit routes */
		if (answer.head.nlmsg_type != RTM_NEWROUTE ||
			n < (ssize_t)(NLMSG_HDRLEN + sizeof(struct rtmsg)))
			return -EIO;
		struct rtmsg route;
		memcpy(&route, answer.bytes + NLMSG_HDRLEN, sizeof(route));
		return route.rtm_type;
	}
}

/** Whether anything changed, or may have: more than the socket holds is an error of it. */
static bool changes_happened(const struct guard *g)
{
	bool happened = false;
	char byte;
	for (;;) {
		ssize_t n = recv(g->changes_fd, &byte, sizeof(byte), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return happened;
		happened = true;
		if (n < 0 && errno != EINTR && errno != ENOBUFS)
			return true;
	}
}

static struct guard_route *route_place(struct guard *g, const struct address *a)
{
	uint32_t sum = a->family;
	for (size_t i = 0; i < sizeof(a->bytes); i++)
		sum = 31 * sum + a->bytes[i];
	return &g->routes[sum % GUARD_ROUTES];
}

/** As route_find(), from what is known. */
static int route_type(struct guard *g, const struct address *a)
{
	struct guard_route *known = route_place(g, a);
	if (g->changes_fd < 0)
		return route_find(g, a);
	if (changes_happened(g))
		memset((void *)g->routes, 0, sizeof(g->routes));
	if (known->address.family != 0 && address_equal(&known->address, a))
		return known->type;
	int type = route_find(g, a);
	if (type >= 0)
		*known = (struct guard_route){.address = *a, .type = type};
	return type;
}

static bool opened_by(const struct rule *rule, const struct address *a)
{
	for (size_t i = 0; i < rule->address_count; i++) {
		if (cidr_contains(&rule->addresses[i], a))
			return true;
	}
	return false;
}

enum guard_result guard_admit(struct guard *g, const struct rule *rule,
	const struct guard_target *target, struct admitted_address *ret, enum reason *ret_reason)
{
	if (g->by_name && target->address->family == 0) {
		*ret = (struct admitted_address){.checked = {.port = target->port}};
		return GUARD_ADMITTED;
	}
	enum reason reason = policy_admit_address(rule, target->address);
	if (!reason_allows(reason)) {
		*ret_reason = reason;
		return GUARD_REFUSED;
	}
	int type = route_type(g, target->address);
	if (type == -ENETUNREACH)
		return GUARD_UNREACHABLE;
	if (type < 0)
		return GUARD_FAILED;
	if (type != RTN_UNICAST && !opened_by(rule, target->address)) {
		*ret_reason = REASON_DENY_ADDRESS_PRIVATE;
		return GUARD_REFUSED;
	}
	*ret = (struct admitted_address){
		.checked = {.address = *target->address, .port = target->port}};
	return GUARD_ADMITTED;
}

void guard_admit_proxy(
	const struct upstream_proxy *proxy, size_t index, struct admitted_address *ret)
{
	*ret = (struct admitted_address){
		.checked = {.address = proxy->addresses[index], .port = proxy->port}};
}
