/* SYNs that a sandbox sends and never goes on with: raw frames on its cable, from ports of their own. For tests of the gateway and its benchmark. */
#ifndef ECLUSA_TESTS_UNIT_HALF_OPEN_H
#define ECLUSA_TESTS_UNIT_HALF_OPEN_H

#include "netd/link.h"

#include "common/cleanup.h"
#include "common/slice.h"

#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define HALF_OPEN_PORT_FIRST 1024

struct syn {
	struct iphdr ip;
	struct tcphdr tcp;
};

static inline uint16_t syn_checksum(const void *bytes, size_t len, uint32_t sum)
{
	const uint8_t *at = bytes;
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/** A SYN for the service that claims to come from @source. */
static inline struct syn syn_make(const struct address *source, uint16_t port)
{
	const struct address service = address_plan_service();
	struct syn s = {.ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP},
		.tcp = {.th_sport = htons(port), .th_off = 5, .th_flags = TH_SYN}};
	uint32_t sum = IPPROTO_TCP + sizeof(s.tcp);
	for (size_t i = 0; i < 4; i += 2)
		sum += (uint32_t)(source->bytes[i] << 8) + source->bytes[i + 1] +
			(uint32_t)(service.bytes[i] << 8) + service.bytes[i + 1];
	s.tcp.th_dport = htons(ADDRESS_PLAN_EXPLICIT_PORT);
	s.tcp.th_win = htons(1024);
	s.tcp.th_sum = htons(syn_checksum(&s.tcp, sizeof(s.tcp), sum));
	s.ip.tot_len = htons(sizeof(s));
	memcpy(&s.ip.saddr, source->bytes, 4);
	memcpy(&s.ip.daddr, service.bytes, 4);
	s.ip.check = htons(syn_checksum(&s.ip, sizeof(s.ip), 0));
	return s;
}

/**
 * In a sandbox's namespace, for good: without its address it takes no answer, so none is refused. @return descriptor for half_open_send(), or
 * negative errno.
 */
static inline int half_open_begin(void)
{
	struct ifreq none = {.ifr_name = LINK_SANDBOX_NAME, .ifr_addr.sa_family = AF_INET};
	auto_fd any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	auto_fd fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (any < 0 || fd < 0 || ioctl(any, SIOCSIFADDR, &none) < 0)
		return -errno;
	return fd_take(&fd);
}

/** @return how many of @count went out. */
static inline unsigned half_open_send(int fd, const struct address_slot *slot, unsigned count)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET,
		.sll_protocol = htons(ETHERTYPE_IP),
		.sll_ifindex = LINK_SANDBOX_INDEX,
		.sll_halen = ADDRESS_PLAN_LINK_BYTES};
	unsigned sent = 0;
	memcpy(to.sll_addr, slot->gateway_link, ADDRESS_PLAN_LINK_BYTES);
	for (unsigned i = 0; i < count; i++) {
		struct syn s = syn_make(&slot->sandbox, (uint16_t)(HALF_OPEN_PORT_FIRST + i));
		sent += sendto(fd, &s, sizeof(s), 0, (struct sockaddr *)&to, sizeof(to)) ==
			(ssize_t)sizeof(s);
	}
	return sent;
}

/** Connections of this namespace that wait for a handshake's end. */
static inline unsigned half_open_count(void)
{
	char line[256];
	unsigned count = 0, state;
	FILE *f = fopen("/proc/thread-self/net/tcp", "re");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		const char *at = strchr(line, ':'); /* of the number, the address and the peer */
		for (int i = 0; at != NULL && i < 2; i++)
			at = strchr(at + 1, ':');
		state = at != NULL && strlen(at) > 8 && at[5] == ' ' ? (unsigned)(at[7] - '0') : 0;
		count += state == TCP_SYN_RECV;
	}
	if (f != NULL)
		(void)fclose(f);
	return count;
}

/** SYNs of this namespace that found no room, and got no cookie instead (TcpExt of netstat). UINT64_MAX: nobody knows. */
static inline uint64_t half_open_dropped(void)
{
	char names[8192], numbers[8192];
	char *name_rest, *number_rest;
	uint64_t dropped = UINT64_MAX;
	FILE *f = fopen("/proc/thread-self/net/netstat", "re");
	if (f == NULL)
		return dropped;
	if (fgets(names, sizeof(names), f) != NULL && fgets(numbers, sizeof(numbers), f) != NULL) {
		const char *name = strtok_r(names, " ", &name_rest);
		const char *number = strtok_r(numbers, " ", &number_rest);
		for (; name != NULL && number != NULL; name = strtok_r(NULL, " ", &name_rest),
						       number = strtok_r(NULL, " ", &number_rest)) {
			if (strcmp(name, "TCPReqQFullDrop") == 0)
				(void)slice_decimal(slice_of(number), UINT64_MAX, false, &dropped);
		}
	}
	(void)fclose(f);
	return dropped;
}

#endif
