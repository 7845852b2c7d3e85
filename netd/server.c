/*
 * See server.h. One poll loop over the proxy's channel and the leases'; a lease that can't be
 * served ends with a line for its launcher, never with less than it asked for. An embedded netd has
 * one lease and ends with it; a service will add accepted connections to the same list.
 */
#include "netd/server.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/fault.h"
#include "netd/guard.h"
#include "netd/lease.h"
#include "netd/sample.h"

#include <poll.h>
#include <sysexits.h>

/** Connections at once. */
#define SERVER_LEASES_MAX 1

struct server {
	int proxy_fd;
	struct nft *guard; /* NULL without one */
	struct gateway *gateway;
	struct lease *leases;
	bool counted; /* the launcher has its counters: it ends the proxy, and says when we may quit */
	bool finished; /* it has seen the end of everybody who could dial */
};

/** Whatever may arrive. */
union server_message {
	struct message_header header;
	struct message_failed failed;
	struct message_netd_start start;
	struct message_lease lease;
	struct message_sandbox sandbox;
};

/**
 * A message and no descriptors. @return its length, 0 at the end of the channel, negative errno.
 */
static int server_receive(int fd, union server_message *ret)
{
	int r = channel_receive(fd, ret, sizeof(*ret), NULL, 0, NULL);
	if (r > 0 && (size_t)r < sizeof(ret->header))
		return -EPROTO;
	return r;
}

static bool message_is(const union server_message *m, int len, enum message_kind kind, size_t size)
{
	return m->header.kind == kind && (size_t)len == size;
}

static int server_tell_proxy(struct server *s, struct failure *why)
{
	int fds[LISTENER_KIND_COUNT * MESSAGE_WORKERS_MAX + 1];
	unsigned count = 0;
	size_t total = 0;
	for (size_t kind = 0; kind < LISTENER_KIND_COUNT; kind++) {
		const int *listeners =
			gateway_listeners(s->gateway, (enum listener_kind)kind, &count);
		memcpy(fds + total, listeners, count * sizeof(fds[0]));
		total += count;
	}
	if (s->guard != NULL)
		fds[total++] = nft_fd(s->guard);
	const struct message_listeners message = {.header = {.kind = MESSAGE_LISTENERS},
		.count = count,
		.kinds = LISTENER_KIND_COUNT,
		.has_guard = s->guard != NULL};
	int r = channel_send(s->proxy_fd, &message, sizeof(message), fds, total);
	return r < 0 ? failure_errno(why, r, "can't hand the listeners to the proxy") : 0;
}

/** The guard first, in the host's namespace: no worker dials before it holds the guard's socket. */
static int server_start(
	struct server *s, const struct message_netd_start *start, struct failure *why)
{
	if (start->dial_guard != 0) {
		int r = guard_load(start, &s->guard, why);
		if (r < 0)
			return r;
	}
	fault_point("netd-guard");
	const struct gateway_options options = {.workers = start->workers,
		.sandboxes = SERVER_LEASES_MAX,
		.captured = start->captured,
		.captured_count = start->captured_count};
	if (start->captured_count > MESSAGE_CAPTURED_MAX)
		return failure_set(why, -EINVAL, "malformed start message");
	int r = gateway_open(&options, &s->gateway, why);
	if (r < 0)
		return r;
	return server_tell_proxy(s, why);
}

/** The first message of the launcher. @return 0, 1 when it left without one, negative errno. */
static int server_await_start(struct server *s, int launcher_fd, struct failure *why)
{
	union server_message m;
	int len = server_receive(launcher_fd, &m);
	if (len == 0)
		return 1;
	if (len < 0)
		return failure_errno(why, len, "can't read the start message");
	if (!message_is(&m, len, MESSAGE_NETD_START, sizeof(m.start)))
		return failure_set(why, -EPROTO, "malformed start message");
	return server_start(s, &m.start, why);
}

static void server_take_sample(int interface_index, const struct message_sample *sample, void *arg)
{
	const struct server *s = arg;
	for (struct lease *l = s->leases; l != NULL; l = l->next) {
		if (l->state != LEASE_IDLE && l->slot.gateway_index == interface_index)
			sample_add(&l->samples, sample);
	}
}

/**
 * One message of a launcher. @return 1 when the lease has ended, 0, or negative errno: it must end.
 */
static int server_serve_lease(struct server *s, struct lease *lease, struct failure *why)
{
	union server_message m;
	int len = server_receive(lease->channel_fd, &m);
	if (len == 0)
		return 1;
	if (len < 0)
		return failure_errno(why, len, "can't read from the launcher");
	if (message_is(&m, len, MESSAGE_LEASE, sizeof(m.lease)))
		return lease_request(lease, s->gateway, &m.lease, s->proxy_fd, why);
	if (message_is(&m, len, MESSAGE_COUNTERS, sizeof(m.header))) {
		sample_read(gateway_samples(s->gateway), server_take_sample, s);
		s->counted = true;
		return lease_count(lease, s->gateway, why);
	}
	if (message_is(&m, len, MESSAGE_NETD_FINISH, sizeof(m.header))) {
		s->finished = true;
		return 0;
	}
	return failure_set(why, -EPROTO, "unknown message of %d bytes", len);
}

static struct lease *server_lease_by_id(struct server *s, const char *sandbox_id)
{
	for (struct lease *l = s->leases; l != NULL; l = l->next) {
		if (l->state != LEASE_IDLE &&
			strncmp(l->sandbox_id, sandbox_id, sizeof(l->sandbox_id)) == 0)
			return l;
	}
	return NULL;
}

/** Take a lease off the list, tell the proxy, evict. */
static void server_end_lease(struct server *s, struct lease *lease)
{
	struct lease **at = &s->leases;
	while (*at != lease)
		at = &(*at)->next;
	*at = lease->next;
	lease_withdraw(lease, s->proxy_fd);
	lease_free(lease, s->gateway);
}

static void server_fail_lease(struct server *s, struct lease *lease, const struct failure *why)
{
	message_send_failed(lease->channel_fd, why->code, why->text);
	server_end_lease(s, lease);
}

/**
 * The proxy can't take a sandbox. Its message names none, so whoever waits is told; an embedded run
 * has one.
 */
static void server_refuse_waiting(struct server *s, const struct message_failed *m)
{
	struct failure why = {0};
	(void)failure_set(
		&why, m->code < 0 ? m->code : -EIO, "%.*s", (int)sizeof(m->text) - 1, m->text);
	for (struct lease *l = s->leases, *next; l != NULL; l = next) {
		next = l->next;
		if (l->state == LEASE_WAITING)
			server_fail_lease(s, l, &why);
	}
}

/**
 * One message of the proxy. @return 0, 1 at its end, negative errno: the proxy can't be relied on.
 */
static int server_serve_proxy(struct server *s)
{
	union server_message m;
	int len = server_receive(s->proxy_fd, &m);
	if (len <= 0)
		return len == 0 ? 1 : len;
	if (message_is(&m, len, MESSAGE_FAILED, sizeof(m.failed))) {
		server_refuse_waiting(s, &m.failed);
		return 0;
	}
	if (!message_is(&m, len, MESSAGE_SANDBOX_ADDED, sizeof(m.sandbox)))
		return -EPROTO;
	struct lease *lease = server_lease_by_id(s, m.sandbox.sandbox_id);
	if (lease == NULL)
		return 0; /* it ended while the proxy answered */
	struct failure why = {0};
	if (lease_grant(lease, &why) < 0)
		server_fail_lease(s, lease, &why);
	return 0;
}

/** Wait for something and serve it. @return 0, 1 when the proxy is gone, negative errno. */
static int server_turn(struct server *s)
{
	struct pollfd waits[2 + SERVER_LEASES_MAX] = {{.fd = s->proxy_fd, .events = POLLIN},
		{.fd = sample_fd(gateway_samples(s->gateway)), .events = POLLIN}};
	nfds_t count = 2;
	for (struct lease *l = s->leases; l != NULL; l = l->next)
		waits[count++] = (struct pollfd){.fd = l->channel_fd, .events = POLLIN};
	if (poll(waits, count, -1) < 0)
		return errno == EINTR ? 0 : -errno;
	if (waits[1].revents != 0)
		sample_read(gateway_samples(s->gateway), server_take_sample, s);
	size_t i = 2;
	for (struct lease *l = s->leases, *next; l != NULL; l = next, i++) {
		next = l->next;
		if (waits[i].revents == 0)
			continue;
		struct failure why = {0};
		int r = server_serve_lease(s, l, &why);
		if (r < 0)
			server_fail_lease(s, l, &why);
		else if (r > 0)
			server_end_lease(s, l);
	}
	int r = waits[0].revents == 0 ? 0 : server_serve_proxy(s);
	if (r <= 0 || !s->counted)
		return r;
	fd_close(&s->proxy_fd);
	return 0;
}

/**
 * In order: the guard goes at once, the rest with this process. Nothing is evicted first, as the kernel would have us wait for that
 * when the gateway's socket is closed.
 */
static void server_finish(struct server *s)
{
	fault_point("netd-finishing");
	guard_drop(s->guard);
	_exit(0);
}

static void server_fini(struct server *s)
{
	while (s->leases != NULL)
		server_end_lease(s, s->leases);
	fd_close(&s->proxy_fd); /* it learns at once, and ends while we do */
	nft_close(s->guard);
	gateway_close(s->gateway);
}

int server_run(int launcher_fd, int proxy_fd)
{
	struct server s = {.proxy_fd = proxy_fd};
	struct failure why = {0};
	int r = server_await_start(&s, launcher_fd, &why);
	if (r < 0)
		message_send_failed(launcher_fd, why.code, why.text);
	if (r == 0) {
		s.leases = lease_new(fd_take(&launcher_fd));
		r = s.leases == NULL ? -ENOMEM : 0;
	}
	fd_close(&launcher_fd);
	while (r == 0 && s.leases != NULL && !s.finished)
		r = server_turn(&s);
	if (s.finished)
		server_finish(&s);
	if (r < 0 && why.code == 0)
		log_event(LOG_LEVEL_ERROR, "netd-ends", "error=%s", strerror(-r));
	server_fini(&s);
	return r < 0 ? EX_SOFTWARE : 0;
}
