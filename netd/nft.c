/*
 * See nft.h. Transport, tables, chains, sets and elements, by libmnl and libnftnl; rules are in
 * nft_rule.c. The kernel answers while sendmsg() runs, so the socket never blocks: an answer that
 * is not there is an error.
 */
#include "netd/nft_internal.h"

#include "common/cleanup.h"

#include <assert.h>
#include <libnftnl/batch.h>
#include <libnftnl/chain.h>
#include <libnftnl/common.h>
#include <libnftnl/expr.h>
#include <libnftnl/set.h>
#include <libnftnl/table.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <stdio.h>
#include <sys/socket.h>

/* nft(8)'s numbers for types, so that `nft list` prints a key as "iif . ip saddr" */
#define NFT_TYPE_IFINDEX 20U
#define NFT_TYPE_IPV4    7U
#define NFT_TYPE_KEY     (NFT_TYPE_IFINDEX << 6 | NFT_TYPE_IPV4)
#define NFT_ANSWER_BYTES ((size_t)16 << 10)
#define NFT_ELEMENTS_MAX 65536U

static_assert(sizeof(struct nft_key) == 8, "two 4-byte registers");

int nft_open(const char *table, struct nft **ret, struct failure *why)
{
	struct nft *n = calloc(1, sizeof(*n));
	if (n == NULL)
		return failure_errno(why, -ENOMEM, "packet filter");
	(void)snprintf(n->table, sizeof(n->table), "%s", table);
	n->sequence = 1;
	n->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (n->socket == NULL || mnl_socket_bind(n->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		int r = -errno;
		nft_close(n);
		return failure_errno(why, r, "can't open the packet filter (nf_tables)");
	}
	/*
	 * the kernel doubles it; where the host's limit is lower a huge batch fails, and nothing is
	 * loaded
	 */
	int bytes = NFT_BATCH_BYTES;
	(void)setsockopt(nft_fd(n), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	*ret = n;
	return 0;
}

/** Forget the batch; the sticky error goes with it. */
static void nft_batch_drop(struct nft *n)
{
	if (n->rule != NULL)
		nftnl_rule_free(n->rule);
	n->rule = NULL;
	if (n->batch != NULL)
		mnl_nlmsg_batch_stop(n->batch);
	n->batch = NULL;
	free(n->space);
	n->space = NULL;
	n->error = 0;
}

void nft_close(struct nft *n)
{
	if (n == NULL)
		return;
	nft_batch_drop(n);
	if (n->socket != NULL)
		(void)mnl_socket_close(n->socket); /* nothing can be done about it */
	free(n);
}

/** Send @fd over @pair[0], together with the end that it arrives at. */
static bool nft_send_round(int fd, const int pair[static 2])
{
	const int fds[] = {fd, pair[1]};
	char byte = 0;
	struct iovec payload = {.iov_base = &byte, .iov_len = 1};
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(sizeof(fds))];
	} control = {0};
	struct msghdr message = {.msg_iov = &payload,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(header), fds, sizeof(fds));
	return sendmsg(pair[0], &message, MSG_NOSIGNAL) == 1;
}

/*
 * The socket goes into a message that waits at a socket which is in that message as well: nobody can receive it, and the kernel
 * closes such sockets by itself, since Linux 6.8 in a thread of its own. Older ones do it, and wait, in our last close().
 */
void nft_leave(struct nft *n)
{
	int pair[2];
	if (n == NULL)
		return;
	if (n->socket != NULL && socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0) {
		(void)nft_send_round(nft_fd(n), pair); /* else closing waits */
		nft_close(n);
		fd_close(&pair[1]);
		fd_close(&pair[0]); /* the last: this makes the kernel look */
		return;
	}
	nft_close(n);
}

int nft_fd(const struct nft *n)
{
	return mnl_socket_get_fd(n->socket);
}

static int nft_batch_start(struct nft *n)
{
	n->space = malloc(NFT_BATCH_BYTES + NFT_MESSAGE_BYTES);
	if (n->space == NULL)
		return -ENOMEM;
	n->batch = mnl_nlmsg_batch_start(n->space, NFT_BATCH_BYTES);
	if (n->batch == NULL)
		return -ENOMEM;
	n->first_sequence = n->sequence;
	n->labels[0] = "batch";
	(void)nftnl_batch_begin(mnl_nlmsg_batch_current(n->batch), n->sequence++);
	nft_message_done(n);
	return n->error;
}

char *nft_message_room(struct nft *n, const char *label)
{
	if (n->error == 0 && n->batch == NULL)
		n->error = nft_batch_start(n);
	/* one place is kept for the end of the batch */
	if (n->error == 0 && n->sequence - n->first_sequence >= NFT_MESSAGES_MAX - 1)
		n->error = -E2BIG;
	if (n->error != 0)
		return NULL;
	n->labels[n->sequence - n->first_sequence] = label;
	return mnl_nlmsg_batch_current(n->batch);
}

void nft_message_done(struct nft *n)
{
	if (!mnl_nlmsg_batch_next(n->batch))
		n->error = -E2BIG;
}

/** A message header for something of our table; NULL after an error. */
static struct nlmsghdr *nft_message(struct nft *n, const char *label, uint16_t type, uint16_t flags)
{
	char *room = nft_message_room(n, label);
	if (room == NULL)
		return NULL;
	return nftnl_nlmsg_build_hdr(room, type, NFPROTO_INET, flags, n->sequence++);
}

void nft_add_table(struct nft *n, bool owned)
{
	struct nftnl_table *table = nftnl_table_alloc();
	if (table == NULL) {
		n->error = n->error == 0 ? -ENOMEM : n->error;
		return;
	}
	(void)nftnl_table_set_str(table, NFTNL_TABLE_NAME, n->table); /* checked at commit */
	if (owned)
		nftnl_table_set_u32(table, NFTNL_TABLE_FLAGS, NFT_TABLE_F_OWNER);
	struct nlmsghdr *message =
		nft_message(n, "the table", NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
	if (message != NULL) {
		nftnl_table_nlmsg_build_payload(message, table);
		nft_message_done(n);
	}
	nftnl_table_free(table);
}

void nft_remove_table(struct nft *n)
{
	struct nftnl_table *table = nftnl_table_alloc();
	if (table == NULL) {
		n->error = n->error == 0 ? -ENOMEM : n->error;
		return;
	}
	(void)nftnl_table_set_str(table, NFTNL_TABLE_NAME, n->table); /* checked at commit */
	struct nlmsghdr *message = nft_message(n, "the table", NFT_MSG_DELTABLE, 0);
	if (message != NULL) {
		nftnl_table_nlmsg_build_payload(message, table);
		nft_message_done(n);
	}
	nftnl_table_free(table);
}

void nft_add_chain(struct nft *n, const char *name, const struct nft_hook *hook)
{
	struct nftnl_chain *chain = nftnl_chain_alloc();
	if (chain == NULL) {
		n->error = n->error == 0 ? -ENOMEM : n->error;
		return;
	}
	(void)nftnl_chain_set_str(chain, NFTNL_CHAIN_TABLE, n->table); /* checked at commit */
	(void)nftnl_chain_set_str(chain, NFTNL_CHAIN_NAME, name);
	if (hook != NULL) {
		(void)nftnl_chain_set_str(chain, NFTNL_CHAIN_TYPE, "filter");
		nftnl_chain_set_u32(chain, NFTNL_CHAIN_HOOKNUM, hook->number);
		nftnl_chain_set_s32(chain, NFTNL_CHAIN_PRIO, hook->priority);
		nftnl_chain_set_u32(chain, NFTNL_CHAIN_POLICY, hook->drop ? NF_DROP : NF_ACCEPT);
	}
	struct nlmsghdr *message =
		nft_message(n, name, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
	if (message != NULL) {
		nftnl_chain_nlmsg_build_payload(message, chain);
		nft_message_done(n);
	}
	nftnl_chain_free(chain);
}

/**
 * The expression that each element of @spec gets a copy of; NULL when it has none or memory ran
 * out.
 */
static struct nftnl_expr *nft_set_state(const struct nft_set *spec)
{
	if (spec->state == NFT_STATE_COUNTER)
		return nftnl_expr_alloc("counter");
	struct nftnl_expr *limit = nftnl_expr_alloc("limit");
	if (limit == NULL)
		return NULL;
	nftnl_expr_set_u64(limit, NFTNL_EXPR_LIMIT_RATE, spec->rate);
	nftnl_expr_set_u64(limit, NFTNL_EXPR_LIMIT_UNIT, 1);
	nftnl_expr_set_u32(limit, NFTNL_EXPR_LIMIT_BURST, spec->burst);
	nftnl_expr_set_u32(limit, NFTNL_EXPR_LIMIT_TYPE, NFT_LIMIT_PKTS);
	return limit;
}

/** A set object that names @set of our table; NULL with a sticky error when memory ran out. */
static struct nftnl_set *nft_set_named(struct nft *n, const char *name)
{
	struct nftnl_set *set = nftnl_set_alloc();
	if (set == NULL) {
		n->error = n->error == 0 ? -ENOMEM : n->error;
		return NULL;
	}
	nftnl_set_set_u32(set, NFTNL_SET_FAMILY, NFPROTO_INET);
	if (nftnl_set_set_str(set, NFTNL_SET_TABLE, n->table) < 0 ||
		nftnl_set_set_str(set, NFTNL_SET_NAME, name) < 0) {
		n->error = n->error == 0 ? -ENOMEM : n->error;
		nftnl_set_free(set);
		return NULL;
	}
	return set;
}

void nft_add_set(struct nft *n, const struct nft_set *spec)
{
	struct nftnl_set *set = nft_set_named(n, spec->name);
	if (set == NULL)
		return;
	nftnl_set_set_u32(set, NFTNL_SET_ID, n->sequence);
	nftnl_set_set_u32(set, NFTNL_SET_FLAGS, spec->state == NFT_STATE_NONE ? 0 : NFT_SET_EVAL);
	nftnl_set_set_u32(set, NFTNL_SET_KEY_TYPE, NFT_TYPE_KEY);
	nftnl_set_set_u32(set, NFTNL_SET_KEY_LEN, sizeof(struct nft_key));
	nftnl_set_set_u32(
		set, NFTNL_SET_DESC_SIZE, spec->elements == 0 ? NFT_ELEMENTS_MAX : spec->elements);
	if (spec->state != NFT_STATE_NONE) {
		struct nftnl_expr *state = nft_set_state(spec);
		if (state != NULL)
			nftnl_set_add_expr(set, state);
		else
			n->error = n->error == 0 ? -ENOMEM : n->error;
	}
	struct nlmsghdr *message =
		nft_message(n, spec->name, NFT_MSG_NEWSET, NLM_F_CREATE | NLM_F_EXCL);
	if (message != NULL) {
		nftnl_set_nlmsg_build_payload(message, set);
		nft_message_done(n);
	}
	nftnl_set_free(set);
}

void nft_add_range_set(struct nft *n, const char *name)
{
	struct nftnl_set *set = nft_set_named(n, name);
	if (set == NULL)
		return;
	nftnl_set_set_u32(set, NFTNL_SET_ID, n->sequence);
	nftnl_set_set_u32(set, NFTNL_SET_FLAGS, NFT_SET_INTERVAL);
	nftnl_set_set_u32(set, NFTNL_SET_KEY_TYPE, NFT_TYPE_IPV4);
	nftnl_set_set_u32(set, NFTNL_SET_KEY_LEN, 4);
	struct nlmsghdr *message = nft_message(n, name, NFT_MSG_NEWSET, NLM_F_CREATE | NLM_F_EXCL);
	if (message != NULL) {
		nftnl_set_nlmsg_build_payload(message, set);
		nft_message_done(n);
	}
	nftnl_set_free(set);
}

/** An element of @set; its key marks where a range begins, or where it has ended. */
static void nft_range_end(
	struct nft *n, struct nftnl_set *set, const uint8_t key[static 4], uint32_t flags)
{
	struct nftnl_set_elem *element = nftnl_set_elem_alloc();
	if (element == NULL || nftnl_set_elem_set(element, NFTNL_SET_ELEM_KEY, key, 4) < 0) {
		n->error = n->error == 0 ? -ENOMEM : n->error;
		if (element != NULL)
			nftnl_set_elem_free(element);
		return;
	}
	nftnl_set_elem_set_u32(element, NFTNL_SET_ELEM_FLAGS, flags);
	nftnl_set_elem_add(set, element);
}

void nft_add_range(struct nft *n, const char *name, const struct nft_range *range)
{
	struct nftnl_set *set = nft_set_named(n, name);
	if (set == NULL)
		return;
	uint8_t behind[4];
	memcpy(behind, range->last, sizeof(behind));
	size_t at = sizeof(behind);
	while (at > 0 && ++behind[at - 1] == 0)
		at--;
	nft_range_end(n, set, range->first, 0);
	if (at > 0) /* else it ends where the addresses do */
		nft_range_end(n, set, behind, NFT_SET_ELEM_INTERVAL_END);
	struct nlmsghdr *message =
		nft_message(n, name, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL);
	if (message != NULL) {
		nftnl_set_elems_nlmsg_build_payload(message, set);
		nft_message_done(n);
	}
	nftnl_set_free(set);
}

/** @set with one element of this key; NULL with a sticky error when memory ran out. */
static struct nftnl_set *nft_set_with(struct nft *n, const char *name, const struct nft_key *key)
{
	struct nftnl_set *set = nft_set_named(n, name);
	if (set == NULL)
		return NULL;
	struct nftnl_set_elem *element = nftnl_set_elem_alloc();
	if (element == NULL ||
		nftnl_set_elem_set(element, NFTNL_SET_ELEM_KEY, key, sizeof(*key)) < 0) {
		n->error = n->error == 0 ? -ENOMEM : n->error;
		if (element != NULL)
			nftnl_set_elem_free(element);
		nftnl_set_free(set);
		return NULL;
	}
	nftnl_set_elem_add(set, element);
	return set;
}

static void nft_change_element(
	struct nft *n, const char *name, const struct nft_key *key, uint16_t type, uint16_t flags)
{
	struct nftnl_set *set = nft_set_with(n, name, key);
	if (set == NULL)
		return;
	struct nlmsghdr *message = nft_message(n, name, type, flags);
	if (message != NULL) {
		nftnl_set_elems_nlmsg_build_payload(message, set);
		nft_message_done(n);
	}
	nftnl_set_free(set);
}

void nft_add_element(struct nft *n, const char *set, const struct nft_key *key)
{
	nft_change_element(n, set, key, NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_EXCL);
}

void nft_remove_element(struct nft *n, const char *set, const struct nft_key *key)
{
	nft_change_element(n, set, key, NFT_MSG_DELSETELEM, 0);
}

/**
 * An answer's verdict on messages from @first up to @last. @return 1 for the last one's ack, 0 to
 * read on, negative errno.
 */
static int nft_answer(
	const struct nlmsghdr *answer, uint32_t first, uint32_t last, uint32_t *ret_at)
{
	if (answer->nlmsg_seq - first > last - first || answer->nlmsg_type != NLMSG_ERROR)
		return 0; /* left over from an earlier batch */
	if (mnl_nlmsg_get_payload_len(answer) < sizeof(struct nlmsgerr))
		return -EBADMSG;
	const struct nlmsgerr *verdict = mnl_nlmsg_get_payload(answer);
	*ret_at = answer->nlmsg_seq;
	if (verdict->error != 0)
		return verdict->error < 0 ? verdict->error : -EBADMSG;
	return answer->nlmsg_seq == last ? 1 : 0;
}

/** One datagram of answers into @space of NFT_ANSWER_BYTES. @return its length or negative errno; -EPROTO: none came. */
static int nft_receive(struct nft *n, char *space)
{
	ssize_t got;
	do {
		got = mnl_socket_recvfrom(n->socket, space, NFT_ANSWER_BYTES);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == EAGAIN ? -EPROTO : -errno;
	return (int)got;
}

/**
 * Read answers until the ack of message @last. @return 0 or the first error, with the message it is
 * about.
 */
static int nft_answers(struct nft *n, uint32_t first, uint32_t last, uint32_t *ret_at)
{
	auto_free char *space = malloc(NFT_ANSWER_BYTES);
	if (space == NULL)
		return -ENOMEM;
	for (;;) {
		int got = nft_receive(n, space);
		if (got < 0)
			return got;
		int left = got;
		const struct nlmsghdr *answer = (const struct nlmsghdr *)(const void *)space;
		for (; mnl_nlmsg_ok(answer, left); answer = mnl_nlmsg_next(answer, &left)) {
			int r = nft_answer(answer, first, last, ret_at);
			if (r != 0)
				return r < 0 ? r : 0;
		}
	}
}

/** End the batch, ask for an ack of its last change, send. */
static int nft_batch_send(struct nft *n, uint32_t *ret_at)
{
	uint32_t last = n->sequence - 1;
	char *at = mnl_nlmsg_batch_head(n->batch);
	int left = (int)mnl_nlmsg_batch_size(n->batch);
	struct nlmsghdr *message = (struct nlmsghdr *)(void *)at;
	/* one ack only: hundreds of them overflow the receive buffer; errors come unasked */
	for (; mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
		if (message->nlmsg_seq == last)
			message->nlmsg_flags |= NLM_F_ACK;
	}
	(void)nftnl_batch_end(mnl_nlmsg_batch_current(n->batch), n->sequence++);
	nft_message_done(n);
	if (n->error != 0)
		return n->error;
	if (mnl_socket_sendto(
		    n->socket, mnl_nlmsg_batch_head(n->batch), mnl_nlmsg_batch_size(n->batch)) < 0)
		return -errno;
	return nft_answers(n, n->first_sequence, last, ret_at);
}

int nft_commit(struct nft *n, struct failure *why)
{
	uint32_t at = n->first_sequence;
	int r = n->error;
	if (r == 0 && n->batch == NULL)
		return 0; /* nothing to change */
	if (r == 0)
		r = nft_batch_send(n, &at);
	if (r < 0) {
		const char *label = n->labels[at - n->first_sequence];
		failure_errno(why, r, "packet filter table %s: the kernel refused \"%s\"", n->table,
			label == NULL ? "batch" : label);
	}
	nft_batch_drop(n);
	return r;
}

struct nft_counter {
	uint64_t packets;
	bool found;
};

static int nft_counter_of_expression(struct nftnl_expr *expression, void *to)
{
	const char *name = nftnl_expr_get_str(expression, NFTNL_EXPR_NAME);
	if (name != NULL && strcmp(name, "counter") == 0)
		*(struct nft_counter *)to = (struct nft_counter){
			nftnl_expr_get_u64(expression, NFTNL_EXPR_CTR_PACKETS), true};
	return 0;
}

static int nft_counter_of_element(struct nftnl_set_elem *element, void *to)
{
	return nftnl_set_elem_expr_foreach(element, nft_counter_of_expression, to);
}

/** @return 0, -ENOENT when the answer holds no counter. */
static int nft_counter_parse(const struct nlmsghdr *answer, uint64_t *ret)
{
	struct nft_counter counter = {0};
	struct nftnl_set *set = nftnl_set_alloc();
	if (set == NULL)
		return -ENOMEM;
	bool parsed = nftnl_set_elems_nlmsg_parse(answer, set) == 0 &&
		nftnl_set_elem_foreach(set, nft_counter_of_element, &counter) == 0;
	nftnl_set_free(set);
	if (!parsed || !counter.found)
		return -ENOENT;
	*ret = counter.packets;
	return 0;
}

/** Read the one answer to a question about an element. */
static int nft_counter_answer(struct nft *n, uint32_t sequence, uint64_t *ret)
{
	auto_free char *space = malloc(NFT_ANSWER_BYTES);
	if (space == NULL)
		return -ENOMEM;
	for (;;) {
		int got = nft_receive(n, space);
		if (got < 0)
			return got;
		const struct nlmsghdr *answer = (const struct nlmsghdr *)(const void *)space;
		if (!mnl_nlmsg_ok(answer, got))
			return -EBADMSG;
		if (answer->nlmsg_seq != sequence)
			continue; /* left over from an earlier batch */
		if (answer->nlmsg_type != NLMSG_ERROR)
			return nft_counter_parse(answer, ret);
		uint32_t at;
		int r = nft_answer(answer, sequence, sequence, &at);
		return r < 0 ? r : -EPROTO;
	}
}

int nft_read_counter(struct nft *n, const char *name, const struct nft_key *key, uint64_t *ret)
{
	struct nftnl_set *set = nft_set_with(n, name, key);
	auto_free char *space = malloc(NFT_MESSAGE_BYTES);
	if (set == NULL || space == NULL) {
		if (set != NULL)
			nftnl_set_free(set);
		return -ENOMEM;
	}
	uint32_t sequence = n->sequence++;
	struct nlmsghdr *message =
		nftnl_nlmsg_build_hdr(space, NFT_MSG_GETSETELEM, NFPROTO_INET, 0, sequence);
	nftnl_set_elems_nlmsg_build_payload(message, set);
	nftnl_set_free(set);
	if (mnl_socket_sendto(n->socket, message, message->nlmsg_len) < 0)
		return -errno;
	return nft_counter_answer(n, sequence, ret);
}
