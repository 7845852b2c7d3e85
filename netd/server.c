/*
 * See server.h. One poll loop over the proxy's channel and the leases'; a lease that can't be
 * served ends with a line for its launcher, never with less than it asked for. An embedded netd has
 * one lease and ends with it; a service's has one for each channel that it sends, and ends with the service.
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

/** Leases at once. */
#define SERVER_LEASES_MAX 4096

struct server {
	int proxy_fd;
	bool is_service;
	int service_fd;    /* -1: embedded, the launcher's channel is the one lease */
	struct nft *guard; /* NULL without one */
	struct gateway *gateway;
	struct lease *leases;
	bool counted; /* the launcher has its counters: it ends the proxy, and says when we may quit */
	bool finished; /* it has seen the end of everybody who could dial */
	uint32_t lease_count, leases_max;
	bool no_more_ready; /* the last one could not be made: not tried again before the next lease */
	struct pollfd waits[3 + SERVER_LEASES_MAX];
};

/** Whatever may arrive. */
union server_message {
	struct message_header header;
	struct message_sandbox_told told;
	struct message_netd_start start;
	struct message_lease lease;
	struct message_sandbox sandbox;
};

/**
 * A message, and no descriptors but the one that @ret_fd may hold. @return its length, 0 at the end of the channel, negative errno.
 */
static int server_receive(int fd, union server_message *ret, int *ret_fd)
{
	size_t count = 0;
	int r = channel_receive(fd, ret, sizeof(*ret), ret_fd, ret_fd == NULL ? 0 : 1, &count);
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
	s->is_service = start->leases != 0;
	s->leases_max = s->is_service ? start->leases : 1;
	const struct gateway_options options = {.workers = start->workers,
		.sandboxes = s->leases_max,
		.ready = s->is_service ? start->ready : 0,
		.captured = start->captured,
		.captured_count = start->captured_count};
	if (start->captured_count > MESSAGE_CAPTURED_MAX || s->leases_max > SERVER_LEASES_MAX)
		return failure_set(why, -EINVAL, "malformed start message");
	int r = gateway_open(&options, &s->gateway, why);
	if (r < 0)
		return r;
	return server_tell_proxy(s, why);
}

/** The first message of the launcher, whose channel it then is. @return 0, 1 when it left without one, negative errno. */
static int server_await_start(struct server *s, int launcher_fd, struct failure *why)
{
	union server_message m;
	int len = server_receive(launcher_fd, &m, NULL);
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
	int len = server_receive(lease->channel_fd, &m, NULL);
	if (len == 0)
		return 1;
	if (len < 0)
		return failure_errno(why, len, "can't read from the launcher");
	if (message_is(&m, len, MESSAGE_LEASE, sizeof(m.lease)))
		return lease_request(lease, s->gateway, &m.lease, s->proxy_fd, why);
	if (message_is(&m, len, MESSAGE_COUNTERS, sizeof(m.header))) {
		sample_read(gateway_samples(s->gateway), server_take_sample, s);
		s->counted = !s->is_service;
		return lease_count(lease, s->gateway, why);
	}
	if (!s->is_service && message_is(&m, len, MESSAGE_NETD_FINISH, sizeof(m.header))) {
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
	s->lease_count--;
	lease_withdraw(lease, s->proxy_fd);
	lease_free(lease, s->gateway);
}

static void server_fail_lease(struct server *s, struct lease *lease, const struct failure *why)
{
	message_send_failed(lease->channel_fd, why->code, why->text);
	server_end_lease(s, lease);
}

/** The proxy can't take a sandbox. */
static void server_refuse(struct server *s, const struct message_sandbox_told *m)
{
	struct failure why = {0};
	struct lease *lease = server_lease_by_id(s, m->sandbox_id);
	if (lease == NULL || lease->state != LEASE_WAITING)
		return; /* it ended while the proxy answered */
	(void)failure_set(
		&why, m->code < 0 ? m->code : -EIO, "%.*s", (int)sizeof(m->text) - 1, m->text);
	server_fail_lease(s, lease, &why);
}

/** One more lease over this channel, which it owns. */
static struct lease *server_new_lease(struct server *s, int channel_fd)
{
	struct lease *lease = lease_new(channel_fd);
	if (lease == NULL)
		return NULL;
	lease->next = s->leases;
	s->leases = lease;
	s->lease_count++;
	return lease;
}

/**
 * The service wants a lease over the channel that it sends. @return 0, 1 when it has ended, negative errno: it can't be relied
 * on.
 */
static int server_serve_service(struct server *s)
{
	union server_message m;
	struct failure why = {0};
	auto_fd fd = -1;
	int len = server_receive(s->service_fd, &m, &fd);
	if (len <= 0)
		return len == 0 ? 1 : len;
	if (!message_is(&m, len, MESSAGE_LEASE, sizeof(m.lease)) || fd < 0)
		return -EPROTO;
	s->no_more_ready = false;
	if (s->lease_count >= s->leases_max) {
		message_send_failed(fd, -EUSERS, "the gateway has as many sandboxes as it may");
		return 0;
	}
	struct lease *lease = server_new_lease(s, fd_take(&fd));
	if (lease == NULL)
		return 0; /* its channel is closed */
	if (lease_request(lease, s->gateway, &m.lease, s->proxy_fd, &why) < 0)
		server_fail_lease(s, lease, &why);
	return 0;
}

/**
 * One message of the proxy. @return 0, 1 at its end, negative errno: the proxy can't be relied on.
 */
static int server_serve_proxy(struct server *s)
{
	union server_message m;
	int len = server_receive(s->proxy_fd, &m, NULL);
	if (len <= 0)
		return len == 0 ? 1 : len;
	if (message_is(&m, len, MESSAGE_SANDBOX_REFUSED, sizeof(m.told))) {
		server_refuse(s, &m.told);
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

/** Nothing else is to be done: a namespace for a lease to come. */
static void server_idle(struct server *s)
{
	struct failure why = {0};
	s->no_more_ready = gateway_fill(s->gateway, &why) < 0;
	if (s->no_more_ready)
		log_event(LOG_LEVEL_ERROR, "not-ready", "error=\"%s\"", why.text);
}

/** Those of the leases that have something to say, one message each. */
static void server_serve_leases(struct server *s, const struct pollfd *waits)
{
	for (struct lease *l = s->leases, *next; l != NULL; l = next, waits++) {
		struct failure why = {0};
		next = l->next;
		if (waits->revents == 0)
			continue;
		int r = server_serve_lease(s, l, &why);
		if (r < 0)
			server_fail_lease(s, l, &why);
		else if (r > 0)
			server_end_lease(s, l);
	}
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

/** Wait for something and serve it. @return 0, 1 when the proxy or the service is gone, negative errno. */
static int server_turn(struct server *s)
{
	struct pollfd *waits = s->waits;
	bool idles = gateway_lacks(s->gateway) && !s->no_more_ready;
	waits[0] = (struct pollfd){.fd = s->proxy_fd, .events = POLLIN};
	waits[1] = (struct pollfd){.fd = sample_fd(gateway_samples(s->gateway)), .events = POLLIN};
	waits[2] = (struct pollfd){.fd = s->service_fd, .events = POLLIN};
	nfds_t count = 3;
	for (struct lease *l = s->leases; l != NULL; l = l->next)
		waits[count++] = (struct pollfd){.fd = l->channel_fd, .events = POLLIN};
	int ready = poll(waits, count, idles ? 0 : -1);
	if (ready < 0)
		return errno == EINTR ? 0 : -errno;
	if (ready == 0)
		server_idle(s);
	if (waits[1].revents != 0)
		sample_read(gateway_samples(s->gateway), server_take_sample, s);
	server_serve_leases(s, waits + 3);
	int r = waits[0].revents == 0 ? 0 : server_serve_proxy(s);
	if (r > 0 && s->counted) {
		fd_close(&s->proxy_fd);
		r = 0;
	}
	if (r == 0 && waits[2].revents != 0)
		r = server_serve_service(s);
	return r;
}

static void server_fini(struct server *s)
{
	while (s->leases != NULL)
		server_end_lease(s, s->leases);
	fd_close(&s->service_fd);
	fd_close(&s->proxy_fd); /* it learns at once, and ends while we do */
	nft_close(s->guard);
	gateway_close(s->gateway);
}

/** Until the launcher, or the service, is gone. @return 0 or negative errno. */
static int server_serve(struct server *s, int launcher_fd, struct failure *why)
{
	int r = server_await_start(s, launcher_fd, why);
	if (r < 0)
		message_send_failed(launcher_fd, why->code, why->text);
	if (r == 0 && s->is_service)
		s->service_fd = fd_take(&launcher_fd);
	else if (r == 0)
		r = server_new_lease(s, fd_take(&launcher_fd)) == NULL ? -ENOMEM : 0;
	fd_close(&launcher_fd);
	while (r == 0 && !s->finished && (s->leases != NULL || s->service_fd >= 0))
		r = server_turn(s);
	return r;
}

int server_run(int launcher_fd, int proxy_fd)
{
	struct server *s = calloc(1, sizeof(*s));
	struct failure why = {0};
	if (s == NULL)
		return EX_OSERR; /* the channels end with us */
	s->proxy_fd = proxy_fd;
	s->service_fd = -1;
	int r = server_serve(s, launcher_fd, &why);
	if (s->finished)
		server_finish(s);
	if (r < 0 && why.code == 0)
		log_event(LOG_LEVEL_ERROR, "netd-ends", "error=%s", strerror(-r));
	server_fini(s);
	free(s);
	return r < 0 ? EX_SOFTWARE : 0;
}
