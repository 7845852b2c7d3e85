/* See sample.h. Plain libmnl: nflog's own library would ask for connection tracking, which there is none of here. */
#include "netd/sample.h"

#include "common/cleanup.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <netinet/in.h>

#define SAMPLE_SOCKET_BYTES  ((size_t)256 << 10)
#define SAMPLE_MESSAGE_BYTES ((size_t)16 << 10)
#define PREFIX_BYTES         64

struct sample_source {
	struct mnl_socket *socket;
};

struct sample_call {
	sample_visit *visit;
	void *arg;
};

/** A configuration message of our group. */
static struct nlmsghdr *config_begin(char *space, uint32_t sequence)
{
	struct nlmsghdr *message = mnl_nlmsg_put_header(space);
	message->nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG;
	message->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK;
	message->nlmsg_seq = sequence;
	struct nfgenmsg *head = mnl_nlmsg_put_extra_header(message, sizeof(*head));
	head->nfgen_family = AF_UNSPEC;
	head->version = NFNETLINK_V0;
	head->res_id = htons(SAMPLE_GROUP);
	return message;
}

static int config_send(struct sample_source *s, const struct nlmsghdr *message)
{
	char answer[SAMPLE_MESSAGE_BYTES];
	if (mnl_socket_sendto(s->socket, message, message->nlmsg_len) < 0)
		return -errno;
	ssize_t got = mnl_socket_recvfrom(s->socket, answer, sizeof(answer));
	if (got < 0)
		return -errno;
	int r = mnl_cb_run(answer, (size_t)got, message->nlmsg_seq,
		mnl_socket_get_portid(s->socket), NULL, NULL);
	return r < 0 ? -errno : 0;
}

/** Bind the group, the first bytes of each packet, each at once. */
static int configure(struct sample_source *s)
{
	char space[256];
	const struct nfulnl_msg_config_cmd bind = {.command = NFULNL_CFG_CMD_BIND};
	const struct nfulnl_msg_config_mode mode = {
		.copy_mode = NFULNL_COPY_PACKET, .copy_range = htonl(SAMPLE_BYTES)};
	struct nlmsghdr *message = config_begin(space, 1);
	mnl_attr_put(message, NFULA_CFG_CMD, sizeof(bind), &bind);
	int r = config_send(s, message);
	if (r < 0)
		return r;
	message = config_begin(space, 2);
	mnl_attr_put(message, NFULA_CFG_MODE, sizeof(mode), &mode);
	mnl_attr_put_u32(message, NFULA_CFG_QTHRESH, htonl(1));
	return config_send(s, message);
}

int sample_open(struct sample_source **ret, struct failure *why)
{
	struct sample_source *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return failure_errno(why, -ENOMEM, "nflog");
	int r = 0;
	s->socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (s->socket == NULL || mnl_socket_bind(s->socket, 0, MNL_SOCKET_AUTOPID) < 0)
		r = -errno;
	if (r == 0) {
		int bytes = SAMPLE_SOCKET_BYTES;
		(void)setsockopt(mnl_socket_get_fd(s->socket), SOL_SOCKET, SO_RCVBUF, &bytes,
			sizeof(bytes)); /* less of it is fewer samples */
		r = configure(s);
	}
	if (r < 0) {
		sample_close(s);
		return failure_errno(why, r, "nflog");
	}
	*ret = s;
	return 0;
}

void sample_close(struct sample_source *s)
{
	if (s == NULL)
		return;
	if (s->socket != NULL)
		(void)mnl_socket_close(s->socket); /* nothing can be done about it */
	free(s);
}

int sample_fd(const struct sample_source *s)
{
	return s == NULL ? -1 : mnl_socket_get_fd(s->socket);
}

static bool class_of(const char *prefix, uint32_t *ret)
{
	for (uint32_t class = 0; class < PACKET_CLASS_COUNT; class ++) {
		if (strncmp(prefix, packet_class_name((enum packet_class) class), PREFIX_BYTES) ==
			0) {
			*ret = class;
			return true;
		}
	}
	return false;
}

/** What one message says. */
struct sample_message {
	struct message_sample sample;
	uint32_t interface_index;
	bool has_class, has_packet;
};

static int on_attribute(const struct nlattr *attribute, void *data)
{
	struct sample_message *m = data;
	uint16_t type = mnl_attr_get_type(attribute);
	uint16_t len = mnl_attr_get_payload_len(attribute);
	const void *value = mnl_attr_get_payload(attribute);
	if (type == NFULA_PREFIX && len > 0 && memchr(value, '\0', len) != NULL)
		m->has_class = class_of(value, &m->sample.class);
	else if (type == NFULA_IFINDEX_INDEV && len == sizeof(uint32_t))
		m->interface_index = ntohl(mnl_attr_get_u32(attribute));
	else if (type == NFULA_PAYLOAD)
		m->has_packet = sample_parse((struct slice){value, len}, &m->sample) == 0;
	return MNL_CB_OK;
}

static int on_message(const struct nlmsghdr *message, void *data)
{
	const struct sample_call *call = data;
	struct sample_message m = {0};
	if ((message->nlmsg_type & 0xff) != NFULNL_MSG_PACKET)
		return MNL_CB_OK;
	(void)mnl_attr_parse(message, sizeof(struct nfgenmsg), on_attribute,
		&m); /* what is malformed says nothing */
	if (m.has_class && m.has_packet)
		call->visit((int)m.interface_index, &m.sample, call->arg);
	return MNL_CB_OK;
}

void sample_read(struct sample_source *s, sample_visit *visit, void *arg)
{
	char space[SAMPLE_MESSAGE_BYTES];
	struct sample_call call = {visit, arg};
	for (unsigned i = 0; s != NULL && i < SAMPLE_TURN; i++) {
		ssize_t got = mnl_socket_recvfrom(s->socket, space, sizeof(space));
		if (got < 0 && (errno == ENOBUFS || errno == EINTR))
			continue; /* some were lost: counters know */
		if (got <= 0)
			return;
		(void)mnl_cb_run(space, (size_t)got, 0, 0, on_message,
			&call); /* what is malformed is no sample */
	}
}

int sample_parse(struct slice packet, struct message_sample *ret)
{
	const uint8_t *bytes = (const uint8_t *)packet.ptr;
	if (packet.len < 20 || bytes[0] >> 4 != 4)
		return -EINVAL;
	size_t head = (size_t)(bytes[0] & 15) * 4;
	bool first = (bytes[6] & 0x1f) == 0 && bytes[7] == 0; /* fragment */
	if (head < 20)
		return -EINVAL;
	ret->protocol = bytes[9];
	memcpy(ret->destination, bytes + 16, sizeof(ret->destination));
	ret->port = 0;
	if ((ret->protocol == IPPROTO_TCP || ret->protocol == IPPROTO_UDP) && first &&
		packet.len >= head + 4)
		ret->port = (uint16_t)(bytes[head + 2] << 8 | bytes[head + 3]);
	return 0;
}

void sample_add(struct message_samples *samples, const struct message_sample *sample)
{
	for (uint32_t i = 0; i < samples->count; i++) {
		struct message_sample *known = &samples->items[i];
		if (known->class == sample->class && known->protocol == sample->protocol &&
			known->port == sample->port &&
			memcmp(known->destination, sample->destination,
				sizeof(known->destination)) == 0) {
			known->count++;
			return;
		}
	}
	if (samples->count == MESSAGE_SAMPLES_MAX)
		return; /* it counts with the rest of its class */
	samples->items[samples->count] = *sample;
	samples->items[samples->count++].count = 1;
}
