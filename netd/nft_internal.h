/* What nft.c and nft_rule.c share, and nobody else includes: the batch in the making. */
#ifndef ECLUSA_NETD_NFT_INTERNAL_H
#define ECLUSA_NETD_NFT_INTERNAL_H

#include "netd/nft.h"

#include <libmnl/libmnl.h>
#include <libnftnl/rule.h>

#define NFT_BATCH_BYTES   ((size_t)320 << 10) /* a dial guard with every exception takes 230 KiB */
#define NFT_MESSAGE_BYTES ((size_t)8 << 10)   /* no message of ours is longer */
#define NFT_MESSAGES_MAX  640
#define NFT_TABLE_BYTES   32

struct nft {
	struct mnl_socket *socket;
	char table[NFT_TABLE_BYTES];
	uint32_t sequence; /* of the next message */
	char *space;       /* NULL: no batch is being made */
	struct mnl_nlmsg_batch *batch;
	uint32_t first_sequence;
	const char *labels[NFT_MESSAGES_MAX]; /* what message first_sequence + i adds */
	struct nftnl_rule *rule;              /* being made */
	const char *rule_chain;
	uint8_t family; /* of every packet that reaches the next rules: 4, 6, 0: unknown */
	int error;      /* sticky */
};

/** Where the next message is built; NULL after an error. Follow with nft_message_done(). */
char *nft_message_room(struct nft *n, const char *label);
/** Close the message that was built in the room. */
void nft_message_done(struct nft *n);

#endif
