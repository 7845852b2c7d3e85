/*
 * See guard.h. Each packet is judged by its destination, without conntrack, after any NAT of the
 * host. A packet without a socket (the kernel's own resets) has no uid and passes: it answers a
 * peer that was judged before.
 */
#include "netd/guard.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <stdio.h>

#define CHAIN_OUTPUT "output"
#define CHAIN_JUDGE  "judge" /* IPv6, whatever is not IPv4 */
#define CHAIN_JUDGE4 "judge-ipv4"
#define CHAIN_CLOSED "closed"

/** Only 2000::/3 is anybody's global unicast address. */
static const struct cidr global_v6 = {{.family = 6, .bytes = {0x20}}, 3};

static void guard_close_prefix(struct nft *n, const struct cidr *prefix, bool inside)
{
	nft_rule_begin(n, prefix->base.family == 4 ? CHAIN_JUDGE4 : CHAIN_JUDGE);
	nft_match_destination(n, prefix, inside);
	nft_do_goto(n, CHAIN_CLOSED);
	nft_rule_end(n);
}

/** The host's own public address is reachable through lo even when firewalled from outside. */
static void guard_close_host(struct nft *n, const char *chain)
{
	nft_rule_begin(n, chain);
	nft_match_destination_not_unicast(n);
	nft_do_goto(n, CHAIN_CLOSED);
	nft_rule_end(n);
}

static void guard_judge(struct nft *n)
{
	size_t count;
	const struct address_range *ranges = address_ranges(&count);
	nft_rule_begin(n, CHAIN_JUDGE);
	nft_match_meta_u8(n, NFT_META_NFPROTO, NFPROTO_IPV4, true);
	nft_do_goto(n, CHAIN_JUDGE4);
	nft_rule_end(n);
	for (size_t i = 0; i < count; i++) {
		nft_assume_family(n, ranges[i].prefix.base.family);
		guard_close_prefix(n, &ranges[i].prefix, true);
	}
	nft_assume_family(n, 6);
	guard_close_prefix(n, &global_v6, false);
	nft_assume_family(n, 0);
	guard_close_host(n, CHAIN_JUDGE);
	guard_close_host(n, CHAIN_JUDGE4);
}

static void guard_open_prefix(struct nft *n, const struct message_opened *opened, uint8_t protocol)
{
	nft_rule_begin(n, CHAIN_CLOSED);
	nft_match_destination(n, &opened->prefix, true);
	nft_match_meta_u8(n, NFT_META_L4PROTO, protocol, true);
	nft_match_destination_ports(n, opened->port_first, opened->port_last);
	nft_do_accept(n);
	nft_rule_end(n);
}

static void guard_refuse(struct nft *n)
{
	/* an ICMP refusal left connect() hanging for seconds: TCP gets a reset */
	nft_rule_begin(n, CHAIN_CLOSED);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_TCP, true);
	nft_do_count(n);
	nft_do_reset(n);
	nft_rule_end(n);

	nft_rule_begin(n, CHAIN_CLOSED);
	nft_do_count(n);
	nft_do_prohibit(n);
	nft_rule_end(n);
}

static int guard_build(struct nft *n, const struct message_netd_start *start, struct failure *why)
{
	const struct nft_hook output = {NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER, false};
	nft_add_table(n, true);
	nft_add_chain(n, CHAIN_CLOSED, NULL);
	nft_add_chain(n, CHAIN_JUDGE, NULL);
	nft_add_chain(n, CHAIN_JUDGE4, NULL);
	nft_add_chain(n, CHAIN_OUTPUT, &output);
	for (uint32_t i = 0; i < start->opened_count; i++) {
		const struct message_opened *opened = &start->opened[i];
		if (opened->protocol == 0 || opened->protocol == IPPROTO_TCP)
			guard_open_prefix(n, opened, IPPROTO_TCP);
		if (opened->protocol == 0 || opened->protocol == IPPROTO_UDP)
			guard_open_prefix(n, opened, IPPROTO_UDP);
	}
	guard_refuse(n);
	guard_judge(n);
	nft_rule_begin(n, CHAIN_OUTPUT);
	nft_match_meta_u32(n, NFT_META_SKUID, start->proxy_uid);
	nft_do_goto(n, CHAIN_JUDGE);
	nft_rule_end(n);
	return nft_commit(n, why);
}

/** @return 0 or -EINVAL: the launcher is trusted, but a wrong prefix here would open something. */
static int guard_check(const struct message_netd_start *start)
{
	if (start->proxy_uid == 0 || start->opened_count > MESSAGE_OPENED_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < start->opened_count; i++) {
		const struct message_opened *opened = &start->opened[i];
		uint8_t family = opened->prefix.base.family;
		if ((family != 4 && family != 6) ||
			opened->prefix.bits > (family == 4 ? 32 : 128) ||
			opened->port_first > opened->port_last)
			return -EINVAL;
		if (opened->protocol != 0 && opened->protocol != IPPROTO_TCP &&
			opened->protocol != IPPROTO_UDP)
			return -EINVAL;
	}
	return 0;
}

int guard_load(const struct message_netd_start *start, struct nft **ret, struct failure *why)
{
	int r = guard_check(start);
	if (r < 0)
		return failure_errno(why, r, "dial guard");
	char table[32];
	(void)snprintf(table, sizeof(table), "eclusa-guard-%d", (int)getpid());
	struct nft *n;
	r = nft_open(table, &n, why);
	if (r < 0)
		return r;
	r = guard_build(n, start, why);
	if (r < 0) {
		nft_close(n);
		return r;
	}
	*ret = n;
	return 0;
}

void guard_drop(struct nft *guard)
{
	struct failure why = {0};
	if (guard == NULL)
		return;
	nft_remove_table(guard);
	if (nft_commit(guard, &why) < 0)
		log_event(LOG_LEVEL_ERROR, "guard-not-dropped", "error=%s", why.text);
	nft_leave(guard);
}
