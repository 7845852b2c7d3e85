/*
 * See ruleset.h. prerouting decides everything, before routing; input, forward and output only
 * repeat it. Adding the 1,000th sandbox costs what the first cost: the sets are plain hashes and no
 * rule is added.
 */
#include "netd/ruleset.h"

#include "common/cleanup.h"
#include "netd/address_plan.h"
#include "netd/sample.h"

#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>

#define LOOPBACK_INDEX  1 /* lo's, in every namespace */
#define SET_SANDBOXES   "sandboxes"
#define SET_REFUSALS    "refusals"
#define SET_CONNECTIONS "connections"
#define SET_QUESTIONS   "questions"
#define SET_SAMPLES     "samples"
#define SET_CAPTURED    "captured"
#define CHAIN_REFUSE    "refuse"
#define NEW_MASK        (TH_FIN | TH_SYN | TH_RST | TH_ACK) /* of which a new connection has SYN alone */

/** Ports of the service address where a TCP listener is. */
static const uint16_t tcp_ports[] = {ADDRESS_PLAN_EXPLICIT_PORT, ADDRESS_PLAN_DNS_PORT};

/** A class of refused packets: the chain that counts it, and its set of counters. */
struct ruleset_class {
	const char *chain;
	const char *set;
};

static const struct ruleset_class classes[PACKET_CLASS_COUNT] = {
	[PACKET_PRIVATE] = {"private", "count-private"},
	[PACKET_LINK_LOCAL] = {"link-local", "count-link-local"},
	[PACKET_METADATA] = {"metadata", "count-metadata"},
	[PACKET_SPECIAL] = {"special", "count-special"},
	[PACKET_PUBLIC] = {"public", "count-public"},
	[PACKET_SERVICE] = {"service-port", "count-service-port"},
	[PACKET_UDP] = {"udp", "count-udp"},
	[PACKET_CONNECTIONS] = {"too-many", "count-connections"},
	[PACKET_QUESTIONS] = {"too-many-questions", "count-questions"},
};

static enum packet_class ruleset_class_of(enum address_class class)
{
	switch (class) {
	case ADDRESS_PRIVATE:
		return PACKET_PRIVATE;
	case ADDRESS_LINK_LOCAL:
		return PACKET_LINK_LOCAL;
	case ADDRESS_METADATA:
		return PACKET_METADATA;
	case ADDRESS_PUBLIC:
		return PACKET_PUBLIC;
	case ADDRESS_LOOPBACK:
	case ADDRESS_SPECIAL:
	case ADDRESS_CLASS_COUNT:
		break;
	}
	return PACKET_SPECIAL;
}

static uint32_t host_order(const uint8_t b[static 4])
{
	return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static void network_order(uint32_t value, uint8_t ret[static 4])
{
	const uint8_t bytes[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16),
		(uint8_t)(value >> 8), (uint8_t)value};
	memcpy(ret, bytes, sizeof(bytes));
}

static int compare_prefixes(const void *a, const void *b)
{
	const struct cidr *one = a;
	const struct cidr *other = b;
	return memcmp(one->base.bytes, other->base.bytes, 4);
}

static uint32_t last_of(const struct cidr *c)
{
	uint32_t rest = c->bits >= 32 ? 0 : UINT32_MAX >> c->bits;
	return host_order(c->base.bytes) | rest;
}

/** Captured prefixes as ranges that don't overlap. @return 0, -EINVAL, -ENOMEM. */
static int ruleset_capture_set(struct nft *n, const struct ruleset_doors *doors)
{
	size_t count = doors->captured_count + 1;
	auto_free struct cidr *all = calloc(count, sizeof(*all));
	if (all == NULL)
		return -ENOMEM;
	all[0] = doors->synthetic;
	if (doors->captured_count > 0)
		memcpy(all + 1, doors->captured, doors->captured_count * sizeof(*all));
	for (size_t i = 0; i < count; i++) {
		if (all[i].base.family != 4 || all[i].bits > 32)
			return -EINVAL;
	}
	qsort(all, count, sizeof(*all), compare_prefixes);
	nft_add_range_set(n, SET_CAPTURED);
	for (size_t i = 0; i < count;) {
		uint32_t first = host_order(all[i].base.bytes);
		uint32_t last = last_of(&all[i]);
		for (i++; i < count && host_order(all[i].base.bytes) <= last; i++)
			last = last_of(&all[i]) > last ? last_of(&all[i]) : last;
		struct nft_range range;
		network_order(first, range.first);
		network_order(last, range.last);
		nft_add_range(n, SET_CAPTURED, &range);
	}
	return 0;
}

static void ruleset_sets(struct nft *n, uint32_t sandboxes)
{
	static const struct nft_set sets[] = {
		{.name = SET_SANDBOXES},
		{.name = SET_REFUSALS,
			.state = NFT_STATE_LIMIT,
			.rate = RULESET_REFUSALS_PER_SECOND,
			.burst = RULESET_REFUSALS_BURST},
		{.name = SET_CONNECTIONS,
			.state = NFT_STATE_LIMIT,
			.rate = RULESET_CONNECTIONS_PER_SECOND,
			.burst = RULESET_CONNECTIONS_BURST},
		{.name = SET_QUESTIONS,
			.state = NFT_STATE_LIMIT,
			.rate = RULESET_QUESTIONS_PER_SECOND,
			.burst = RULESET_QUESTIONS_BURST},
		{.name = SET_SAMPLES,
			.state = NFT_STATE_LIMIT,
			.rate = RULESET_SAMPLES_PER_SECOND,
			.burst = RULESET_SAMPLES_BURST},
	};
	for (size_t i = 0; i < array_size(sets); i++) {
		struct nft_set set = sets[i];
		set.elements = sandboxes;
		nft_add_set(n, &set);
	}
	for (size_t i = 0; i < array_size(classes); i++)
		nft_add_set(n,
			&(struct nft_set){.name = classes[i].set,
				.elements = sandboxes,
				.state = NFT_STATE_COUNTER});
}

static void ruleset_chains(struct nft *n)
{
	static const struct {
		const char *name;
		struct nft_hook hook;
	} base[] = {
		{"prerouting", {NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE, true}},
		{"input", {NF_INET_LOCAL_IN, NF_IP_PRI_FILTER, true}},
		{"forward", {NF_INET_FORWARD, NF_IP_PRI_FILTER, true}},
		{"output", {NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER, true}},
	};
	for (size_t i = 0; i < array_size(base); i++)
		nft_add_chain(n, base[i].name, &base[i].hook);
	nft_add_chain(n, CHAIN_REFUSE, NULL);
	for (size_t i = 0; i < array_size(classes); i++)
		nft_add_chain(n, classes[i].chain, NULL);
}

/** Refuse at once: TCP by a reset, the rest by ICMP, as often as the sandbox's limit answers. */
static void ruleset_refusal(struct nft *n, bool sampled)
{
	for (size_t i = 0; i < array_size(classes); i++) {
		if (sampled) {
			nft_rule_begin(n, classes[i].chain);
			nft_match_set(n, SET_SAMPLES, true);
			nft_do_log(n, packet_class_name((enum packet_class)i), SAMPLE_GROUP,
				SAMPLE_BYTES);
			nft_rule_end(n);
		}
		nft_rule_begin(n, classes[i].chain);
		nft_match_set(n, classes[i].set, true);
		nft_do_goto(n, CHAIN_REFUSE);
		nft_rule_end(n);
	}
	nft_rule_begin(n, CHAIN_REFUSE);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_TCP, true);
	nft_match_set(n, SET_REFUSALS, true);
	nft_do_reset(n);
	nft_rule_end(n);

	nft_rule_begin(n, CHAIN_REFUSE);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_TCP, false);
	nft_match_set(n, SET_REFUSALS, true);
	nft_do_prohibit(n);
	nft_rule_end(n);

	nft_rule_begin(n, CHAIN_REFUSE);
	nft_do_drop(n);
	nft_rule_end(n);
}

/** Who is it? Anything that is no sandbox's own interface and address goes no further. */
static void ruleset_identity(struct nft *n)
{
	nft_rule_begin(n, "prerouting");
	nft_match_meta_u8(n, NFT_META_NFPROTO, NFPROTO_IPV4, false);
	nft_do_count(n);
	nft_do_drop(n);
	nft_rule_end(n);
	/* what follows in prerouting, and what it leads to, sees IPv4 alone */
	nft_assume_family(n, 4);

	nft_rule_begin(n, "prerouting");
	nft_match_meta_u32(n, NFT_META_IIF, LOOPBACK_INDEX);
	nft_do_accept(n);
	nft_rule_end(n);

	nft_rule_begin(n, "prerouting");
	nft_match_set(n, SET_SANDBOXES, false);
	nft_do_count(n);
	nft_do_drop(n);
	nft_rule_end(n);
}

static void ruleset_match_service(struct nft *n, const struct cidr *service, uint16_t port)
{
	nft_match_destination(n, service, true);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_TCP, true);
	nft_match_destination_ports(n, port, port);
}

static void ruleset_match_question(struct nft *n, const struct cidr *service)
{
	nft_match_destination(n, service, true);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_UDP, true);
	nft_match_destination_ports(n, ADDRESS_PLAN_DNS_PORT, ADDRESS_PLAN_DNS_PORT);
}

/** A TCP door: new connections within the sandbox's limit, and what belongs to them. */
static void ruleset_service(struct nft *n, const struct cidr *service, uint16_t port)
{
	nft_rule_begin(n, "prerouting");
	ruleset_match_service(n, service, port);
	nft_match_tcp_flags(n, NEW_MASK, TH_SYN);
	nft_match_set(n, SET_CONNECTIONS, true);
	nft_do_accept(n);
	nft_rule_end(n);

	nft_rule_begin(n, "prerouting");
	ruleset_match_service(n, service, port);
	nft_match_tcp_flags(n, NEW_MASK, TH_SYN);
	nft_do_goto(n, classes[PACKET_CONNECTIONS].chain);
	nft_rule_end(n);

	nft_rule_begin(n, "prerouting");
	ruleset_match_service(n, service, port);
	nft_match_tcp_flags(n, TH_SYN, 0);
	nft_do_accept(n);
	nft_rule_end(n);
}

/** The proxy's own DNS: it answers from policy alone. */
static void ruleset_questions(struct nft *n, const struct cidr *service)
{
	nft_rule_begin(n, "prerouting");
	ruleset_match_question(n, service);
	nft_match_set(n, SET_QUESTIONS, true);
	nft_do_accept(n);
	nft_rule_end(n);

	nft_rule_begin(n, "prerouting");
	ruleset_match_question(n, service);
	nft_do_goto(n, classes[PACKET_QUESTIONS].chain);
	nft_rule_end(n);
}

/** @flags and @value: of SYN, FIN, RST and ACK. */
static void ruleset_match_captured(struct nft *n, uint8_t flags, uint8_t value)
{
	nft_rule_begin(n, "prerouting");
	nft_match_destination_range(n, SET_CAPTURED);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_TCP, true);
	nft_match_destination_ports(n, 1, UINT16_MAX); /* port 0 is nobody's */
	nft_match_tcp_flags(n, flags, value);
}

static void ruleset_take(struct nft *n, const struct address *to)
{
	nft_do_tproxy(n, to, ADDRESS_PLAN_TRANSPARENT_PORT);
	nft_do_mark(n, RULESET_CAPTURE_MARK);
	nft_do_accept(n);
	nft_rule_end(n);
}

/**
 * The transparent door: TCP that is meant for addresses that stand for names, or that ip: rules open. A new connection within the
 * sandbox's limit is marked first: where nobody listens it goes on with its mark, and is none too many.
 */
static void ruleset_capture(struct nft *n, const struct address *to)
{
	ruleset_match_captured(n, NEW_MASK, TH_SYN);
	nft_match_set(n, SET_CONNECTIONS, true);
	nft_do_mark(n, RULESET_CAPTURE_MARK);
	nft_rule_end(n);

	ruleset_match_captured(n, NEW_MASK, TH_SYN);
	nft_match_meta_u32(n, NFT_META_MARK, 0);
	nft_do_goto(n, classes[PACKET_CONNECTIONS].chain);
	nft_rule_end(n);

	ruleset_match_captured(n, NEW_MASK, TH_SYN);
	ruleset_take(n, to);

	ruleset_match_captured(n, TH_SYN, 0);
	ruleset_take(n, to);
}

static void ruleset_goto_class(struct nft *n, const struct cidr *prefix, enum packet_class class)
{
	nft_rule_begin(n, "prerouting");
	nft_match_destination(n, prefix, true);
	nft_do_goto(n, classes[class].chain);
	nft_rule_end(n);
}

/** Nothing that a range around it opens. */
static void ruleset_elsewhere(struct nft *n, const struct cidr *service)
{
	nft_rule_begin(n, "prerouting");
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_UDP, true);
	nft_do_goto(n, classes[PACKET_UDP].chain);
	nft_rule_end(n);

	ruleset_goto_class(n, service, PACKET_SERVICE);
}

/** Everything else is refused; what it was aimed at only decides where it is counted. */
static void ruleset_destinations(struct nft *n)
{
	size_t count;
	const struct address_range *ranges = address_ranges(&count);
	for (size_t i = 0; i < count; i++) {
		if (ranges[i].prefix.base.family == 4)
			ruleset_goto_class(n, &ranges[i].prefix, ruleset_class_of(ranges[i].class));
	}
	nft_rule_begin(n, "prerouting");
	nft_do_goto(n, classes[PACKET_PUBLIC].chain);
	nft_rule_end(n);
}

/** The doors' own replies. */
static void ruleset_replies(struct nft *n, const struct cidr *service)
{
	for (size_t i = 0; i < array_size(tcp_ports); i++) {
		nft_rule_begin(n, "input");
		nft_match_set(n, SET_SANDBOXES, true);
		ruleset_match_service(n, service, tcp_ports[i]);
		nft_do_accept(n);
		nft_rule_end(n);

		nft_rule_begin(n, "output");
		nft_match_source(n, service);
		nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_TCP, true);
		nft_match_source_port(n, tcp_ports[i]);
		nft_do_accept(n);
		nft_rule_end(n);
	}
	nft_rule_begin(n, "input");
	nft_match_set(n, SET_SANDBOXES, true);
	ruleset_match_question(n, service);
	nft_do_accept(n);
	nft_rule_end(n);

	nft_rule_begin(n, "output");
	nft_match_source(n, service);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_UDP, true);
	nft_match_source_port(n, ADDRESS_PLAN_DNS_PORT);
	nft_do_accept(n);
	nft_rule_end(n);
}

/** Captured connections go in and answer in the name of whom they were meant for. */
static void ruleset_captured(struct nft *n)
{
	nft_rule_begin(n, "input");
	nft_match_set(n, SET_SANDBOXES, true);
	nft_match_meta_u32(n, NFT_META_MARK, RULESET_CAPTURE_MARK);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_TCP, true);
	nft_do_accept(n);
	nft_rule_end(n);

	nft_rule_begin(n, "output");
	nft_match_source_range(n, SET_CAPTURED);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_TCP, true);
	nft_do_accept(n);
	nft_rule_end(n);
}

/** Beside replies only refusals leave. */
static void ruleset_refusals_leave(struct nft *n)
{
	nft_rule_begin(n, "output");
	nft_match_meta_u8(n, NFT_META_NFPROTO, NFPROTO_IPV4, true);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_TCP, true);
	nft_match_tcp_flags(n, TH_RST, TH_RST);
	nft_do_accept(n);
	nft_rule_end(n);

	nft_rule_begin(n, "output");
	nft_match_meta_u8(n, NFT_META_NFPROTO, NFPROTO_IPV4, true);
	nft_match_meta_u8(n, NFT_META_L4PROTO, IPPROTO_ICMP, true);
	nft_match_icmp_type(n, ICMP_DEST_UNREACH);
	nft_do_accept(n);
	nft_rule_end(n);
}

int ruleset_load(struct nft *n, const struct ruleset_doors *doors, struct failure *why)
{
	const struct cidr service = {.base = doors->service, .bits = 32};
	nft_add_table(n, false);
	int r = ruleset_capture_set(n, doors);
	if (r < 0)
		return failure_errno(why, r, "captured addresses");
	ruleset_sets(n, doors->sandboxes);
	ruleset_chains(n);
	ruleset_identity(n);
	ruleset_refusal(n, doors->sampled);
	for (size_t i = 0; i < array_size(tcp_ports); i++)
		ruleset_service(n, &service, tcp_ports[i]);
	ruleset_questions(n, &service);
	ruleset_elsewhere(n, &service);
	ruleset_capture(n, &doors->transparent);
	ruleset_destinations(n);
	nft_assume_family(n, 0);
	ruleset_replies(n, &service);
	ruleset_captured(n);
	ruleset_refusals_leave(n);
	return nft_commit(n, why);
}

int ruleset_admit(struct nft *n, const struct nft_key *sandbox, struct failure *why)
{
	for (size_t i = 0; i < array_size(classes); i++)
		nft_add_element(n, classes[i].set, sandbox);
	nft_add_element(n, SET_REFUSALS, sandbox);
	nft_add_element(n, SET_CONNECTIONS, sandbox);
	nft_add_element(n, SET_QUESTIONS, sandbox);
	nft_add_element(n, SET_SAMPLES, sandbox);
	nft_add_element(n, SET_SANDBOXES, sandbox);
	return nft_commit(n, why);
}

int ruleset_evict(struct nft *n, const struct nft_key *sandbox, struct failure *why)
{
	nft_remove_element(n, SET_SANDBOXES, sandbox);
	nft_remove_element(n, SET_SAMPLES, sandbox);
	nft_remove_element(n, SET_QUESTIONS, sandbox);
	nft_remove_element(n, SET_CONNECTIONS, sandbox);
	nft_remove_element(n, SET_REFUSALS, sandbox);
	for (size_t i = 0; i < array_size(classes); i++)
		nft_remove_element(n, classes[i].set, sandbox);
	return nft_commit(n, why);
}

int ruleset_count(struct nft *n, const struct nft_key *sandbox,
	uint64_t ret_packets[static PACKET_CLASS_COUNT], struct failure *why)
{
	uint64_t packets[PACKET_CLASS_COUNT] = {0};
	for (size_t i = 0; i < array_size(classes); i++) {
		int r = nft_read_counter(n, classes[i].set, sandbox, &packets[i]);
		if (r < 0)
			return failure_errno(
				why, r, "can't read the gateway's counter \"%s\"", classes[i].set);
	}
	memcpy(ret_packets, packets, sizeof(packets));
	return 0;
}
