/* See resolve.h. c-ares does the wire; its callbacks only mark and wake. */
#include "proxy/resolve.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "proxy/hosts.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <ares.h>
#include <assert.h>
#include <netdb.h>
#include <string.h>

#define TRIES 2 /* sent again only when nothing came back */

enum family { FAMILY_V6, FAMILY_V4, FAMILY_COUNT };

struct resolve_socket {
	uv_poll_t poll;
	int fd;
	struct resolve_channel *channel;
	struct resolve_socket *next;
};

struct resolve_channel {
	uv_loop_t *loop;
	ares_channel ares;
	bool has_ares; /* false without servers */
	struct hosts *hosts;
	const struct limits *limits;
	uv_timer_t timer; /* c-ares's own */
	struct resolve_socket *sockets;
	size_t query_count;
	bool closing;
};

/** One of the two questions. */
struct resolve_question {
	struct resolve_query *query;
	enum resolve_status status;
	struct address addresses[RESOLVE_ADDRESSES_MAX];
	size_t count;
};

struct resolve_query {
	struct resolve_channel *channel;
	resolve_wake *wake;
	void *arg;
	uv_timer_t timer;
	bool timer_closed;
	bool dropped;
	bool asking; /* inside of resolve_ask() */
	enum resolve_status status;
	unsigned outstanding; /* questions that c-ares still has */
	struct resolve_question questions[FAMILY_COUNT];
	struct address addresses[FAMILY_COUNT * RESOLVE_ADDRESSES_MAX];
	size_t count;
};

static void channel_rearm(struct resolve_channel *c);

/** Counted as long as c-ares works on it; the channel outlives that, and perhaps not what follows. */
static void query_uncount(struct resolve_query *q)
{
	if (q->dropped && q->outstanding == 0 && q->channel != NULL) {
		q->channel->query_count--;
		q->channel = NULL;
	}
}

/** Freed once neither c-ares nor the loop knows it. */
static void query_release(struct resolve_query *q)
{
	if (q->dropped && q->outstanding == 0 && q->timer_closed)
		free(q);
}

static void on_query_timer_closed(uv_handle_t *handle)
{
	struct resolve_query *q = handle->data;
	q->timer_closed = true;
	query_release(q);
}

/** The whole answer out of its halves. */
static enum resolve_status query_status(const struct resolve_query *q)
{
	enum resolve_status a = q->questions[FAMILY_V4].status;
	enum resolve_status b = q->questions[FAMILY_V6].status;
	if (a == RESOLVE_FOUND || b == RESOLVE_FOUND)
		return RESOLVE_FOUND;
	if (a == RESOLVE_WAIT || b == RESOLVE_WAIT)
		return RESOLVE_TIMEOUT;
	if (a == RESOLVE_NONE && b == RESOLVE_NONE)
		return RESOLVE_NONE;
	return a == RESOLVE_TIMEOUT || b == RESOLVE_TIMEOUT ? RESOLVE_TIMEOUT : RESOLVE_FAILED;
}

static void query_finish(struct resolve_query *q)
{
	if (q->status != RESOLVE_WAIT || q->dropped)
		return;
	q->status = query_status(q);
	for (size_t f = 0; f < FAMILY_COUNT; f++) {
		const struct resolve_question *half = &q->questions[f];
		for (size_t i = 0; half->status == RESOLVE_FOUND && i < half->count; i++)
			q->addresses[q->count++] = half->addresses[i];
	}
	(void)uv_timer_stop(&q->timer); /* can't fail */
	if (!q->asking)
		q->wake(q->arg);
}

static void on_query_timer(uv_timer_t *timer)
{
	query_finish(timer->data);
}

static void on_half(struct resolve_question *half)
{
	struct resolve_query *q = half->query;
	bool complete = q->questions[FAMILY_V4].status != RESOLVE_WAIT &&
		q->questions[FAMILY_V6].status != RESOLVE_WAIT;
	if (q->dropped || q->status != RESOLVE_WAIT)
		return;
	if (complete)
		query_finish(q);
	else if (half->status == RESOLVE_FOUND &&
		uv_timer_get_due_in(&q->timer) > q->channel->limits->dns_grace_ms)
		(void)uv_timer_start(&q->timer, on_query_timer, q->channel->limits->dns_grace_ms,
			0); /* has a callback, so can't fail */
}

static void parse_v4(struct resolve_question *half, const unsigned char *bytes, int len)
{
	struct ares_addrttl found[RESOLVE_ADDRESSES_MAX];
	int count = RESOLVE_ADDRESSES_MAX;
	if (ares_parse_a_reply(bytes, len, NULL, found, &count) != ARES_SUCCESS)
		return;
	for (int i = 0; i < count; i++) {
		struct address *to = &half->addresses[half->count++];
		*to = (struct address){.family = 4};
		memcpy(to->bytes, &found[i].ipaddr, 4);
	}
}

static void parse_v6(struct resolve_question *half, const unsigned char *bytes, int len)
{
	struct ares_addr6ttl found[RESOLVE_ADDRESSES_MAX];
	int count = RESOLVE_ADDRESSES_MAX;
	if (ares_parse_aaaa_reply(bytes, len, NULL, found, &count) != ARES_SUCCESS)
		return;
	for (int i = 0; i < count; i++) {
		struct address *to = &half->addresses[half->count++];
		*to = (struct address){.family = 6};
		memcpy(to->bytes, &found[i].ip6addr, 16);
	}
}

static enum resolve_status answer_status(
	struct resolve_question *half, const unsigned char *bytes, int len)
{
	if (len < HFIXEDSZ)
		return RESOLVE_FAILED;
	int rcode = bytes[3] & 0x0f;
	if (rcode == ns_r_nxdomain)
		return RESOLVE_NONE;
	if (rcode != ns_r_noerror)
		return RESOLVE_FAILED;
	if (half == &half->query->questions[FAMILY_V4])
		parse_v4(half, bytes, len);
	else
		parse_v6(half, bytes, len);
	return half->count > 0 ? RESOLVE_FOUND : RESOLVE_NONE;
}

static void on_answer(void *arg, int status, int timeouts, unsigned char *bytes, int len)
{
	struct resolve_question *half = arg;
	struct resolve_query *q = half->query;
	(void)timeouts;
	if (status == ARES_SUCCESS)
		half->status = answer_status(half, bytes, len);
	else
		half->status = status == ARES_ETIMEOUT ? RESOLVE_TIMEOUT : RESOLVE_FAILED;
	q->outstanding--;
	on_half(half);
	query_uncount(q);
	query_release(q);
}

/** A question of our own making: its number comes from the kernel, whatever c-ares was seeded with. */
static int question_send(struct resolve_question *half, const char *name, int type)
{
	uint16_t id;
	unsigned char *wire = NULL;
	int len = 0;
	random_bytes(&id, sizeof(id));
	if (ares_create_query(name, C_IN, type, id, 1, &wire, &len, 0) != ARES_SUCCESS)
		return -EINVAL;
	half->query->outstanding++;
	ares_send(half->query->channel->ares, wire, len, on_answer, half); /* may answer at once */
	ares_free_string(wire);
	return 0;
}

struct resolve_query *resolve_ask(
	struct resolve_channel *c, const struct host *host, resolve_wake *wake, void *arg)
{
	assert(host->kind == HOST_NAME);
	struct resolve_query *q =
		c->query_count < RESOLVE_QUERIES_MAX ? calloc(1, sizeof(*q)) : NULL;
	if (q == NULL)
		return NULL;
	*q = (struct resolve_query){.channel = c, .wake = wake, .arg = arg, .asking = true};
	(void)uv_timer_init(c->loop, &q->timer); /* can't fail */
	q->timer.data = q;
	c->query_count++;
	for (size_t f = 0; f < FAMILY_COUNT; f++)
		q->questions[f].query = q;
	q->count = hosts_find(c->hosts, host, q->addresses, array_size(q->addresses));
	if (q->count > 0) {
		q->status = RESOLVE_FOUND;
	} else if (!c->has_ares) {
		q->status = RESOLVE_FAILED;
	} else {
		(void)uv_timer_start(
			&q->timer, on_query_timer, c->limits->dns_ms, 0); /* as above */
		if (question_send(&q->questions[FAMILY_V6], host->name, T_AAAA) < 0 ||
			question_send(&q->questions[FAMILY_V4], host->name, T_A) < 0)
			q->status = RESOLVE_FAILED;
		channel_rearm(c);
	}
	q->asking = false;
	return q;
}

enum resolve_status resolve_answer(
	const struct resolve_query *q, const struct address **ret_addresses, size_t *ret_count)
{
	if (q->status == RESOLVE_FOUND) {
		*ret_addresses = q->addresses;
		*ret_count = q->count;
	}
	return q->status;
}

void resolve_drop(struct resolve_query *q)
{
	if (q == NULL)
		return;
	q->dropped = true;
	query_uncount(q);
	uv_close((uv_handle_t *)&q->timer, on_query_timer_closed);
}

static void on_channel_timer(uv_timer_t *timer)
{
	struct resolve_channel *c = timer->data;
	ares_process_fd(c->ares, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
	channel_rearm(c);
}

static void channel_rearm(struct resolve_channel *c)
{
	struct timeval left;
	if (c->closing)
		return;
	if (ares_timeout(c->ares, NULL, &left) == NULL) {
		(void)uv_timer_stop(&c->timer); /* can't fail */
		return;
	}
	uint64_t ms = (uint64_t)left.tv_sec * 1000 + (uint64_t)left.tv_usec / 1000 + 1;
	(void)uv_timer_start(&c->timer, on_channel_timer, ms, 0); /* can't fail */
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
	struct resolve_socket *s = poll->data;
	struct resolve_channel *c = s->channel;
	int fd = s->fd; /* s may be gone after the first call */
	bool read = status < 0 || (events & UV_READABLE) != 0;
	bool write = status < 0 || (events & UV_WRITABLE) != 0;
	ares_process_fd(c->ares, read ? fd : ARES_SOCKET_BAD, write ? fd : ARES_SOCKET_BAD);
	channel_rearm(c);
}

static void on_socket_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void socket_drop(struct resolve_channel *c, struct resolve_socket **at)
{
	struct resolve_socket *s = *at;
	(void)c;
	*at = s->next;
	uv_close((uv_handle_t *)&s->poll, on_socket_closed);
}

/** What c-ares wants to know of a socket; both false: it is about to close it. */
static void on_socket_state(void *arg, ares_socket_t fd, int readable, int writable)
{
	struct resolve_channel *c = arg;
	struct resolve_socket **at = &c->sockets;
	while (*at != NULL && (*at)->fd != fd)
		at = &(*at)->next;
	int events = (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0);
	if (events == 0) {
		if (*at != NULL)
			socket_drop(c, at);
		return;
	}
	if (*at == NULL) {
		struct resolve_socket *s = calloc(1, sizeof(*s));
		if (s == NULL || uv_poll_init(c->loop, &s->poll, fd) < 0) {
			free(s); /* unwatched: the question times out */
			return;
		}
		*s = (struct resolve_socket){
			.poll = s->poll, .fd = fd, .channel = c, .next = c->sockets};
		s->poll.data = s;
		c->sockets = s;
		at = &c->sockets;
	}
	(void)uv_poll_start(&(*at)->poll, events, on_socket); /* fails only while closing */
}

static int servers_set(const struct resolve_options *options, ares_channel ares)
{
	struct ares_addr_port_node nodes[16];
	size_t count = options->server_count < array_size(nodes) ? options->server_count
								 : array_size(nodes);
	for (size_t i = 0; i < count; i++) {
		const struct resolve_server *from = &options->servers[i];
		bool v6 = from->address.family == 6;
		nodes[i] = (struct ares_addr_port_node){
			.next = i + 1 < count ? &nodes[i + 1] : NULL,
			.family = v6 ? AF_INET6 : AF_INET,
			.udp_port = from->port,
			.tcp_port = from->port,
		};
		if (v6)
			memcpy(&nodes[i].addr.addr6, from->address.bytes, 16);
		else
			memcpy(&nodes[i].addr.addr4, from->address.bytes, 4);
	}
	return ares_set_servers_ports(ares, nodes) == ARES_SUCCESS ? 0 : -EINVAL;
}

/** Every option is given, so that c-ares has no reason to look at files or the environment. */
static int ares_open(const struct resolve_options *options, struct resolve_channel *c)
{
	struct in_addr replaced = {.s_addr = htonl(INADDR_LOOPBACK)};
	char lookups[] = "b"; /* servers only */
	struct ares_options o = {
		.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES,
		.timeout = (int)(options->limits->dns_ms * 2 / 5 + 1),
		.tries = TRIES,
		.ndots = 0,
		.servers = &replaced,
		.nservers = 1,
		.lookups = lookups,
		.sock_state_cb = on_socket_state,
		.sock_state_cb_data = c,
	};
	int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_NDOTS |
		ARES_OPT_SERVERS | ARES_OPT_DOMAINS | ARES_OPT_LOOKUPS | ARES_OPT_SORTLIST |
		ARES_OPT_SOCK_STATE_CB | ARES_OPT_NOROTATE;
	if (ares_init_options(&c->ares, &o, mask) != ARES_SUCCESS)
		return -EIO;
	c->has_ares = true;
	return servers_set(options, c->ares);
}

int resolve_channel_new(
	const struct resolve_options *options, struct resolve_channel **ret, struct failure *why)
{
	struct resolve_channel *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return failure_set(why, -ENOMEM, "resolver: out of memory");
	*c = (struct resolve_channel){.loop = options->loop,
		.hosts = hosts_new(options->hosts),
		.limits = options->limits};
	(void)uv_timer_init(c->loop, &c->timer); /* can't fail */
	c->timer.data = c;
	int r = c->hosts == NULL ? -ENOMEM : 0;
	if (r == 0 && options->server_count > 0)
		r = ares_open(options, c);
	if (r < 0) {
		resolve_channel_free(c);
		return failure_set(why, r, "resolver: can't be set up");
	}
	*ret = c;
	return 0;
}

static void on_channel_closed(uv_handle_t *handle)
{
	free(handle->data);
}

void resolve_channel_free(struct resolve_channel *c)
{
	if (c == NULL)
		return;
	c->closing = true;
	if (c->has_ares)
		ares_destroy(
			c->ares); /* ends outstanding questions; sockets by on_socket_state() */
	while (c->sockets != NULL)
		socket_drop(c, &c->sockets);
	hosts_free(ptr_take(c->hosts));
	uv_close((uv_handle_t *)&c->timer, on_channel_closed);
}
