/*
 * One nftables table of family inet, and the netlink socket it is changed through. Changes gather
 * in a batch that the kernel takes whole or not at all. Errors while gathering are sticky and come
 * out at nft_commit().
 */
#ifndef ECLUSA_NETD_NFT_H
#define ECLUSA_NETD_NFT_H

#include "common/address.h"
#include "common/failure.h"

struct nft;

/** A base chain: hook and priority as linux/netfilter.h and netfilter_ipv4.h number them. */
struct nft_hook {
	uint32_t number;
	int32_t priority;
	bool drop; /* the policy */
};

/** What each element of a set carries. */
enum nft_state { NFT_STATE_NONE, NFT_STATE_COUNTER, NFT_STATE_LIMIT };

/** A plain hash set whose key is an interface index (host order) and an IPv4 source address. */
struct nft_set {
	const char *name;
	uint32_t
		elements; /* at most; 0: NFT_ELEMENTS_MAX. The kernel makes its table for that many at once */
	enum nft_state state;
	uint32_t rate; /* NFT_STATE_LIMIT: packets a second that match */
	uint32_t burst;
};

/** Addresses from first to last, both of them in it. */
struct nft_range {
	uint8_t first[4];
	uint8_t last[4];
};

struct nft_key {
	uint32_t interface_index;
	uint8_t source[4];
};

/**
 * A socket in the current network namespace, for changes to @table. @return 0 or negative errno.
 */
int nft_open(const char *table, struct nft **ret, struct failure *why);
/** Close the socket; a table that it owns goes with its last duplicate. Accepts NULL. */
void nft_close(struct nft *n);
/** Close the socket without waiting for what the kernel does then, if this kernel can. Accepts NULL. */
void nft_leave(struct nft *n);
/** The socket, borrowed. */
int nft_fd(const struct nft *n);

/** Into the batch. @owned: the table lives as long as the socket and nobody else may change it. */
void nft_add_table(struct nft *n, bool owned);
void nft_remove_table(struct nft *n);
/** @hook NULL for a chain that is only jumped to. */
void nft_add_chain(struct nft *n, const char *chain, const struct nft_hook *hook);
void nft_add_set(struct nft *n, const struct nft_set *set);
void nft_add_element(struct nft *n, const char *set, const struct nft_key *key);
void nft_remove_element(struct nft *n, const char *set, const struct nft_key *key);

/** A set of IPv4 ranges, which may not overlap, and its elements. */
void nft_add_range_set(struct nft *n, const char *set);
void nft_add_range(struct nft *n, const char *set, const struct nft_range *range);

/**
 * A rule at the end of @chain: matches that must all hold, then what is done. Close with
 * nft_rule_end().
 */
void nft_rule_begin(struct nft *n, const char *chain);
void nft_rule_end(struct nft *n);

/** Matches. @key is one of enum nft_meta_keys; the value is a byte (nfproto, l4proto) or an u32. */
void nft_match_meta_u8(struct nft *n, uint32_t key, uint8_t value, bool equal);
void nft_match_meta_u32(struct nft *n, uint32_t key, uint32_t value);
/** Destination in (or, with !@inside, out of) a prefix; says the family too. */
/**
 * What is known of packets in the rules that follow: 4 or 6, as a rule before has sorted out all others, so that none of these asks
 * again; 0: nothing, as in the beginning.
 */
void nft_assume_family(struct nft *n, uint8_t family);
void nft_match_destination(struct nft *n, const struct cidr *prefix, bool inside);
void nft_match_source(struct nft *n, const struct cidr *source);
/** TCP or UDP; match the protocol first. */
void nft_match_destination_ports(struct nft *n, uint16_t first, uint16_t last);
void nft_match_source_port(struct nft *n, uint16_t port);
void nft_match_tcp_flags(struct nft *n, uint8_t mask, uint8_t value);
void nft_match_icmp_type(struct nft *n, uint8_t type);
/**
 * Interface and source are (or, with !@inside, are not) an element; a limit over its rate does not
 * match.
 */
void nft_match_set(struct nft *n, const char *set, bool inside);
/** The IPv4 destination, or source, is in a set of ranges. */
void nft_match_destination_range(struct nft *n, const char *set);
void nft_match_source_range(struct nft *n, const char *set);
/**
 * The destination is no unicast address of somebody else: the host's own, broadcast, multicast,
 * none.
 */
void nft_match_destination_not_unicast(struct nft *n);

/** What is done. */
void nft_do_count(struct nft *n);
/** To nflog's @group: the packet's first @bytes, with a prefix. */
void nft_do_log(struct nft *n, const char *prefix, uint16_t group, uint32_t bytes);
void nft_do_accept(struct nft *n);
void nft_do_drop(struct nft *n);
void nft_do_goto(struct nft *n, const char *chain);
/** Only after a match of TCP. */
void nft_do_reset(struct nft *n);
/**
 * To the local transparent socket at @address:@port, or to the connection that it accepted; IPv4, on
 * a prerouting chain, only after a match of TCP. Where there is no such socket the rule ends here.
 */
void nft_do_tproxy(struct nft *n, const struct address *address, uint16_t port);
void nft_do_mark(struct nft *n, uint32_t mark);
/** ICMP or ICMPv6 "administratively prohibited". */
void nft_do_prohibit(struct nft *n);

/**
 * Send the batch. @return 0, or negative errno with nothing changed; the line names what was
 * refused.
 */
int nft_commit(struct nft *n, struct failure *why);
/**
 * Packets that matched an element of a set with counters. @return 0, -ENOENT, another negative
 * errno.
 */
int nft_read_counter(struct nft *n, const char *set, const struct nft_key *key, uint64_t *ret);

#endif
