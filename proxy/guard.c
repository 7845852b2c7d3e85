/* See guard.h. Asks the kernel with one RTM_GETROUTE, rtnetlink(7), answered while it is sent. */
#include "proxy/guard.h"

#include "common/cleanup.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

int guard_open(struct guard *ret, struct failure *why)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (fd < 0)
		return failure_errno(why, -errno, "guard: can't open a route socket");
	*ret = (struct guard){.netlink_fd = fd};
	return 0;
}

void guard_close(struct guard *g)
{
	fd_close(&g->netlink_fd);
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
static int route_type(struct guard *g, const struct address *a)
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
