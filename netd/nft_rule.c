/*
 * See nft.h. Rules as libnftnl expressions. Registers: NFT_REG_1 for single values; NFT_REG32_00
 * and _01, which are its two halves, for the key of interface and source.
 */
#include "netd/nft_internal.h"

#include <errno.h>
#include <netinet/in.h>

#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#define IPV4_SOURCE_AT       12
#define IPV4_DESTINATION_AT  16
#define IPV6_DESTINATION_AT  24
#define PORT_BYTES           2
#define SOURCE_PORT_AT       0
#define DESTINATION_PORT_AT  2
#define TCP_FLAGS_AT         13
#define ICMP_PROHIBITED_CODE NFT_REJECT_ICMPX_ADMIN_PROHIBITED

void nft_rule_begin(struct nft *n, const char *chain)
{
	if (n->error != 0)
		return;
	n->rule = nftnl_rule_alloc();
	n->rule_chain = chain;
	if (n->rule == NULL || nftnl_rule_set_str(n->rule, NFTNL_RULE_TABLE, n->table) < 0 ||
		nftnl_rule_set_str(n->rule, NFTNL_RULE_CHAIN, chain) < 0) {
		n->error = -ENOMEM;
		return;
	}
	nftnl_rule_set_u32(n->rule, NFTNL_RULE_FAMILY, NFPROTO_INET);
}

void nft_rule_end(struct nft *n)
{
	char *room = nft_message_room(n, n->rule_chain);
	if (room != NULL) {
		struct nlmsghdr *message = nftnl_nlmsg_build_hdr(room, NFT_MSG_NEWRULE,
			NFPROTO_INET, NLM_F_CREATE | NLM_F_APPEND, n->sequence++);
		nftnl_rule_nlmsg_build_payload(message, n->rule);
		nft_message_done(n);
	}
	if (n->rule != NULL)
		nftnl_rule_free(n->rule);
	n->rule = NULL;
}

/** A new expression; NULL after an error. Follow with nft_append(). */
static struct nftnl_expr *nft_expression(struct nft *n, const char *name)
{
	if (n->error != 0)
		return NULL;
	struct nftnl_expr *expression = nftnl_expr_alloc(name);
	if (expression == NULL)
		n->error = -ENOMEM;
	return expression;
}

static void nft_append(struct nft *n, struct nftnl_expr *expression)
{
	nftnl_rule_add_expr(n->rule, expression);
}

static void nft_load_meta(struct nft *n, uint32_t key, uint32_t reg)
{
	struct nftnl_expr *e = nft_expression(n, "meta");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, key);
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_DREG, reg);
	nft_append(n, e);
}

static void nft_load_payload(
	struct nft *n, uint32_t base, uint32_t offset, uint32_t bytes, uint32_t reg)
{
	struct nftnl_expr *e = nft_expression(n, "payload");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_DREG, reg);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_BASE, base);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_OFFSET, offset);
	nftnl_expr_set_u32(e, NFTNL_EXPR_PAYLOAD_LEN, bytes);
	nft_append(n, e);
}

/** @op of enum nft_cmp_ops on NFT_REG_1. */
static void nft_compare(struct nft *n, uint32_t op, const void *value, uint32_t bytes)
{
	struct nftnl_expr *e = nft_expression(n, "cmp");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_SREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_CMP_OP, op);
	if (nftnl_expr_set(e, NFTNL_EXPR_CMP_DATA, value, bytes) < 0)
		n->error = -ENOMEM;
	nft_append(n, e);
}

/** NFT_REG_1 &= mask */
static void nft_mask(struct nft *n, const void *mask, uint32_t bytes)
{
	static const uint8_t zero[16];
	struct nftnl_expr *e = nft_expression(n, "bitwise");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_SREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_DREG, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_BITWISE_LEN, bytes);
	if (nftnl_expr_set(e, NFTNL_EXPR_BITWISE_MASK, mask, bytes) < 0 ||
		nftnl_expr_set(e, NFTNL_EXPR_BITWISE_XOR, zero, bytes) < 0)
		n->error = -ENOMEM;
	nft_append(n, e);
}

void nft_match_meta_u8(struct nft *n, uint32_t key, uint8_t value, bool equal)
{
	nft_load_meta(n, key, NFT_REG_1);
	nft_compare(n, equal ? NFT_CMP_EQ : NFT_CMP_NEQ, &value, sizeof(value));
}

void nft_match_meta_u32(struct nft *n, uint32_t key, uint32_t value)
{
	nft_load_meta(n, key, NFT_REG_1);
	nft_compare(n, NFT_CMP_EQ, &value, sizeof(value));
}

void nft_assume_family(struct nft *n, uint8_t family)
{
	n->family = family;
}

static void nft_match_family(struct nft *n, uint8_t family)
{
	if (n->family == 0)
		nft_match_meta_u8(
			n, NFT_META_NFPROTO, family == 4 ? NFPROTO_IPV4 : NFPROTO_IPV6, true);
	else if (n->family != family && n->error == 0)
		n->error = -EINVAL; /* such a rule would look at the wrong bytes */
}

/** The kernel compares as many bytes as the prefix touches; only one that ends within a byte needs a mask. */
void nft_match_destination(struct nft *n, const struct cidr *prefix, bool inside)
{
	bool v4 = prefix->base.family == 4;
	uint32_t bytes = prefix->bits == 0 ? 1 : (prefix->bits + 7U) / 8;
	uint8_t mask[16] = {0};
	for (unsigned bit = 0; bit < prefix->bits; bit++)
		mask[bit / 8] = (uint8_t)(mask[bit / 8] | 0x80U >> bit % 8);
	nft_match_family(n, prefix->base.family);
	nft_load_payload(n, NFT_PAYLOAD_NETWORK_HEADER,
		v4 ? IPV4_DESTINATION_AT : IPV6_DESTINATION_AT, bytes, NFT_REG_1);
	if (prefix->bits < bytes * 8)
		nft_mask(n, mask, bytes);
	nft_compare(n, inside ? NFT_CMP_EQ : NFT_CMP_NEQ, prefix->base.bytes, bytes);
}

void nft_match_source(struct nft *n, const struct cidr *source)
{
	uint8_t mask[4] = {0};
	for (unsigned bit = 0; bit < source->bits; bit++)
		mask[bit / 8] = (uint8_t)(mask[bit / 8] | 0x80U >> bit % 8);
	nft_match_family(n, 4);
	nft_load_payload(n, NFT_PAYLOAD_NETWORK_HEADER, IPV4_SOURCE_AT, 4, NFT_REG_1);
	nft_mask(n, mask, sizeof(mask));
	nft_compare(n, NFT_CMP_EQ, source->base.bytes, 4);
}

static void nft_match_range(struct nft *n, const char *set, uint32_t offset)
{
	nft_match_family(n, 4);
	nft_load_payload(n, NFT_PAYLOAD_NETWORK_HEADER, offset, 4, NFT_REG_1);
	struct nftnl_expr *e = nft_expression(n, "lookup");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1);
	if (nftnl_expr_set_str(e, NFTNL_EXPR_LOOKUP_SET, set) < 0)
		n->error = -ENOMEM;
	nft_append(n, e);
}

void nft_match_destination_range(struct nft *n, const char *set)
{
	nft_match_range(n, set, IPV4_DESTINATION_AT);
}

void nft_match_source_range(struct nft *n, const char *set)
{
	nft_match_range(n, set, IPV4_SOURCE_AT);
}

void nft_match_destination_ports(struct nft *n, uint16_t first, uint16_t last)
{
	uint16_t first_be = htons(first);
	uint16_t last_be = htons(last);
	nft_load_payload(
		n, NFT_PAYLOAD_TRANSPORT_HEADER, DESTINATION_PORT_AT, PORT_BYTES, NFT_REG_1);
	nft_compare(n, first == last ? NFT_CMP_EQ : NFT_CMP_GTE, &first_be, PORT_BYTES);
	if (first != last)
		nft_compare(n, NFT_CMP_LTE, &last_be, PORT_BYTES);
}

void nft_match_source_port(struct nft *n, uint16_t port)
{
	uint16_t port_be = htons(port);
	nft_load_payload(n, NFT_PAYLOAD_TRANSPORT_HEADER, SOURCE_PORT_AT, PORT_BYTES, NFT_REG_1);
	nft_compare(n, NFT_CMP_EQ, &port_be, PORT_BYTES);
}

void nft_match_tcp_flags(struct nft *n, uint8_t mask, uint8_t value)
{
	nft_load_payload(n, NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS_AT, 1, NFT_REG_1);
	nft_mask(n, &mask, 1);
	nft_compare(n, NFT_CMP_EQ, &value, 1);
}

void nft_match_icmp_type(struct nft *n, uint8_t type)
{
	nft_load_payload(n, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1, NFT_REG_1);
	nft_compare(n, NFT_CMP_EQ, &type, 1);
}

void nft_match_set(struct nft *n, const char *set, bool inside)
{
	nft_match_family(n, 4);
	nft_load_meta(n, NFT_META_IIF, NFT_REG32_00);
	nft_load_payload(n, NFT_PAYLOAD_NETWORK_HEADER, IPV4_SOURCE_AT, 4, NFT_REG32_01);
	struct nftnl_expr *e = nft_expression(n, "lookup");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_SREG, NFT_REG32_00);
	if (nftnl_expr_set_str(e, NFTNL_EXPR_LOOKUP_SET, set) < 0)
		n->error = -ENOMEM;
	if (!inside)
		nftnl_expr_set_u32(e, NFTNL_EXPR_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
	nft_append(n, e);
}

void nft_match_destination_not_unicast(struct nft *n)
{
	struct nftnl_expr *e = nft_expression(n, "fib");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_FLAGS, NFTA_FIB_F_DADDR);
	nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
	nftnl_expr_set_u32(e, NFTNL_EXPR_FIB_DREG, NFT_REG_1);
	nft_append(n, e);
	uint32_t unicast = 1; /* RTN_UNICAST */
	nft_compare(n, NFT_CMP_NEQ, &unicast, sizeof(unicast));
}

void nft_do_count(struct nft *n)
{
	struct nftnl_expr *e = nft_expression(n, "counter");
	if (e != NULL)
		nft_append(n, e);
}

void nft_do_log(struct nft *n, const char *prefix, uint16_t group, uint32_t bytes)
{
	struct nftnl_expr *e = nft_expression(n, "log");
	if (e == NULL)
		return;
	if (nftnl_expr_set_str(e, NFTNL_EXPR_LOG_PREFIX, prefix) < 0)
		n->error = -ENOMEM;
	nftnl_expr_set_u16(e, NFTNL_EXPR_LOG_GROUP, group);
	nftnl_expr_set_u32(e, NFTNL_EXPR_LOG_SNAPLEN, bytes);
	nftnl_expr_set_u16(e, NFTNL_EXPR_LOG_QTHRESHOLD, 1);
	nft_append(n, e);
}

static void nft_do_verdict(struct nft *n, uint32_t verdict, const char *chain)
{
	struct nftnl_expr *e = nft_expression(n, "immediate");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT);
	if (chain != NULL && nftnl_expr_set_str(e, NFTNL_EXPR_IMM_CHAIN, chain) < 0)
		n->error = -ENOMEM;
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_VERDICT, verdict);
	nft_append(n, e);
}

void nft_do_accept(struct nft *n)
{
	nft_do_verdict(n, NF_ACCEPT, NULL);
}

void nft_do_drop(struct nft *n)
{
	nft_do_verdict(n, NF_DROP, NULL);
}

void nft_do_goto(struct nft *n, const char *chain)
{
	nft_do_verdict(n, (uint32_t)NFT_GOTO, chain);
}

static void nft_do_reject(struct nft *n, uint32_t type, uint8_t code)
{
	struct nftnl_expr *e = nft_expression(n, "reject");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_REJECT_TYPE, type);
	nftnl_expr_set_u8(e, NFTNL_EXPR_REJECT_CODE, code);
	nft_append(n, e);
}

void nft_do_reset(struct nft *n)
{
	nft_do_reject(n, NFT_REJECT_TCP_RST, 0);
}

void nft_do_prohibit(struct nft *n)
{
	nft_do_reject(n, NFT_REJECT_ICMPX_UNREACH, ICMP_PROHIBITED_CODE);
}

static void nft_load_value(struct nft *n, const void *value, uint32_t bytes, uint32_t reg)
{
	struct nftnl_expr *e = nft_expression(n, "immediate");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_IMM_DREG, reg);
	if (nftnl_expr_set(e, NFTNL_EXPR_IMM_DATA, value, bytes) < 0)
		n->error = -ENOMEM;
	nft_append(n, e);
}

void nft_do_tproxy(struct nft *n, const struct address *address, uint16_t port)
{
	uint16_t port_be = htons(port);
	nft_load_value(n, address->bytes, 4, NFT_REG_1);
	nft_load_value(n, &port_be, sizeof(port_be), NFT_REG_2);
	struct nftnl_expr *e = nft_expression(n, "tproxy");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_TPROXY_FAMILY, NFPROTO_IPV4);
	nftnl_expr_set_u32(e, NFTNL_EXPR_TPROXY_REG_ADDR, NFT_REG_1);
	nftnl_expr_set_u32(e, NFTNL_EXPR_TPROXY_REG_PORT, NFT_REG_2);
	nft_append(n, e);
}

void nft_do_mark(struct nft *n, uint32_t mark)
{
	nft_load_value(n, &mark, sizeof(mark), NFT_REG_1);
	struct nftnl_expr *e = nft_expression(n, "meta");
	if (e == NULL)
		return;
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_KEY, NFT_META_MARK);
	nftnl_expr_set_u32(e, NFTNL_EXPR_META_SREG, NFT_REG_1);
	nft_append(n, e);
}
