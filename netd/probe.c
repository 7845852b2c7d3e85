/* See probe.h. The process ends after one part, and with it the namespace and all that was made. */
#include "netd/probe.h"

#include "common/cleanup.h"
#include "common/uids.h"
#include "netd/gateway.h"
#include "netd/guard.h"
#include "netd/netns.h"
#include "netd/ruleset.h"

#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>

#define CHAIN_CAPTURE "capture"

static int probe_filter(struct failure *why)
{
	const struct ruleset_doors doors = {
		.service = address_plan_service(), .synthetic = address_plan_synthetic()};
	struct nft *n = NULL;
	int r = nft_open(RULESET_TABLE, &n, why);
	if (r == 0)
		r = ruleset_load(n, &doors, why);
	nft_close(n);
	return r;
}

static int probe_cable(struct failure *why)
{
	struct gateway *g;
	struct address_slot slot;
	const struct gateway_options options = {.workers = 1, .sandboxes = 1};
	int r = gateway_open(&options, &g, why);
	if (r < 0)
		return r;
	auto_fd sandbox = -1;
	r = gateway_add_sandbox(g, &slot, &sandbox, why);
	gateway_close(g);
	return r;
}

static int probe_guard(struct failure *why)
{
	auto_free struct message_netd_start *start = calloc(1, sizeof(*start));
	struct nft *n = NULL;
	if (start == NULL)
		return failure_errno(why, -ENOMEM, "dial guard");
	start->proxy_uid = ECLUSA_UID_PROXY;
	int r = guard_load(start, &n, why);
	nft_close(n);
	return r;
}

static int probe_tproxy(struct failure *why)
{
	const struct address loopback = {.family = 4, .bytes = {127, 0, 0, 1}};
	const struct nft_hook capture = {NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE, false};
	struct nft *n = NULL;
	int r = nft_open("eclusa-probe", &n, why);
	if (r < 0)
		return r;
	nft_add_table(n, true);
	nft_add_chain(n, CHAIN_CAPTURE, &capture);
	nft_rule_begin(n, CHAIN_CAPTURE);
	nft_match_meta_u8(n, NFT_META_NFPROTO, NFPROTO_IPV4, true);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_TCP, true);
	nft_do_tproxy(n, &loopback, ADDRESS_PLAN_TRANSPARENT_PORT);
	nft_rule_end(n);
	r = nft_commit(n, why);
	nft_close(n);
	return r;
}

int probe_run(const char *part, struct failure *why)
{
	static const struct {
		const char *name;
		int (*run)(struct failure *why);
	} parts[] = {{"filter", probe_filter}, {"cable", probe_cable}, {"guard", probe_guard},
		{"tproxy", probe_tproxy}};
	for (size_t i = 0; i < array_size(parts); i++) {
		if (strcmp(part, parts[i].name) != 0)
			continue;
		/* nothing below is made in the host's namespace */
		auto_fd own = netns_create();
		if (own < 0)
			return failure_errno(why, own, "can't make a network namespace");
		return parts[i].run(why);
	}
	return failure_set(why, -EINVAL, "there is no such part");
}
