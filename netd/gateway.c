/*
 * See gateway.h. The order is the safety: with rules missing and a listener up, a sandbox reached
 * it. Any failed step ends the gateway or the lease; nothing goes on with a warning.
 */
#include "netd/gateway.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "ipc/fault.h"
#include "netd/link.h"
#include "netd/listener.h"
#include "netd/netns.h"
#include "netd/nft.h"
#include "netd/ruleset.h"
#include "netd/sample.h"
#include "netd/sysctl.h"

struct gateway {
	int namespace_fd;
	struct address_plan plan;
	struct nft *nft;
	struct sample_source *samples; /* NULL: this kernel has no nflog */
	struct link *links;
	int listeners[LISTENER_KIND_COUNT][MESSAGE_WORKERS_MAX];
	unsigned workers;
	struct {
		struct address_slot slot;
		int fd;
	} ready[GATEWAY_READY_MAX]; /* not admitted yet */
	unsigned ready_count, ready_wanted;
};

static const struct address loopback = {.family = 4, .bytes = {127, 0, 0, 1}};

/** Every door, for each worker; g->workers tells how many are open, of all kinds. */
static int gateway_listen(struct gateway *g, unsigned workers, struct failure *why)
{
	const struct address service = address_plan_service();
	const struct listener_spec specs[LISTENER_KIND_COUNT] = {
		[LISTENER_EXPLICIT] = {service, ADDRESS_PLAN_EXPLICIT_PORT, false, false},
		[LISTENER_TRANSPARENT] = {loopback, ADDRESS_PLAN_TRANSPARENT_PORT, false, true},
		[LISTENER_DNS_UDP] = {service, ADDRESS_PLAN_DNS_PORT, true, false},
		[LISTENER_DNS_TCP] = {service, ADDRESS_PLAN_DNS_PORT, false, false},
	};
	for (size_t kind = 0; kind < LISTENER_KIND_COUNT; kind++) {
		int r = listener_open(&specs[kind], workers, g->listeners[kind], why);
		if (r < 0)
			return r;
	}
	g->workers = workers;
	return 0;
}

/** The rules; without nflog refused packets are counted and none is looked at. */
static int gateway_load(struct gateway *g, struct ruleset_doors *doors, struct failure *why)
{
	struct failure without = {0};
	doors->sampled = sample_open(&g->samples, &without) == 0;
	if (!doors->sampled)
		log_event(LOG_LEVEL_INFO, "no-samples", "error=\"%s\"", without.text);
	return ruleset_load(g->nft, doors, why);
}

/** What a sandbox can reach is in place before anything that it could reach. */
static int gateway_build(
	struct gateway *g, const struct gateway_options *options, struct failure *why)
{
	const struct address service = address_plan_service();
	struct ruleset_doors doors = {.service = service,
		.synthetic = address_plan_synthetic(),
		.captured = options->captured,
		.captured_count = options->captured_count,
		.sandboxes = options->sandboxes,
		.transparent = loopback};
	g->namespace_fd = netns_create();
	if (g->namespace_fd < 0)
		return failure_errno(
			why, g->namespace_fd, "can't make the gateway's network namespace");
	fault_point("netd-gateway");
	int r = sysctl_apply(SYSCTL_GATEWAY, why);
	if (r == 0)
		r = nft_open(RULESET_TABLE, &g->nft, why);
	if (r == 0)
		r = gateway_load(g, &doors, why);
	if (r < 0)
		return r;
	fault_point("netd-rules");
	r = link_open(&g->links, why);
	if (r == 0)
		r = link_set_up(g->links, LINK_LOOPBACK_INDEX, why);
	if (r == 0)
		r = link_add_address(g->links, LINK_LOOPBACK_INDEX, &service, NULL, why);
	if (r == 0)
		r = link_add_capture_route(g->links, RULESET_CAPTURE_MARK, why);
	if (r == 0)
		r = gateway_listen(g, options->workers, why);
	if (r < 0)
		return r;
	fault_point("netd-listeners");
	return 0;
}

int gateway_open(const struct gateway_options *options, struct gateway **ret, struct failure *why)
{
	if (options->workers < 1 || options->workers > MESSAGE_WORKERS_MAX)
		return failure_set(
			why, -EINVAL, "%u workers: 1 to %d", options->workers, MESSAGE_WORKERS_MAX);
	struct gateway *g = calloc(1, sizeof(*g));
	if (g == NULL)
		return failure_errno(why, -ENOMEM, "gateway");
	g->namespace_fd = -1;
	g->ready_wanted = options->ready < GATEWAY_READY_MAX ? options->ready : GATEWAY_READY_MAX;
	for (size_t kind = 0; kind < LISTENER_KIND_COUNT; kind++) {
		for (size_t i = 0; i < MESSAGE_WORKERS_MAX; i++)
			g->listeners[kind][i] = -1;
	}
	int r = gateway_build(g, options, why);
	if (r < 0) {
		gateway_close(g);
		return r;
	}
	*ret = g;
	return 0;
}

void gateway_close(struct gateway *g)
{
	if (g == NULL)
		return;
	for (size_t kind = 0; kind < LISTENER_KIND_COUNT; kind++) {
		for (size_t i = 0; i < MESSAGE_WORKERS_MAX; i++)
			fd_close(&g->listeners[kind][i]);
	}
	for (unsigned i = 0; i < g->ready_count; i++)
		fd_close(&g->ready[i].fd);
	link_close(g->links);
	sample_close(g->samples);
	nft_close(g->nft);
	fd_close(&g->namespace_fd);
	free(g);
}

struct sample_source *gateway_samples(const struct gateway *g)
{
	return g->samples;
}

const int *gateway_listeners(const struct gateway *g, enum listener_kind kind, unsigned *ret_count)
{
	*ret_count = g->workers;
	return g->listeners[kind];
}

/**
 * A namespace with its settings made and nothing else in it but @ret_links' socket; the process is
 * back in the gateway.
 */
static int gateway_make_namespace(
	struct gateway *g, int *ret_fd, struct link **ret_links, struct failure *why)
{
	auto_fd fd = netns_create();
	if (fd < 0)
		return failure_errno(why, fd, "can't make the sandbox's network namespace");
	int r = sysctl_apply(SYSCTL_SANDBOX, why);
	if (r == 0)
		r = link_open(ret_links, why);
	int back = netns_enter(g->namespace_fd);
	if (r == 0 && back < 0)
		r = failure_errno(why, back, "can't return to the gateway's namespace");
	if (r < 0)
		return r;
	*ret_fd = fd_take(&fd);
	return 0;
}

/** Both ends: the gateway's first, since the sandbox's end is useless before it is up. */
static int gateway_connect(struct gateway *g, const struct address_slot *slot, int fd,
	struct link *inside, struct failure *why)
{
	int r = link_add_cable(g->links, slot, fd, why);
	if (r == 0)
		r = link_add_address(
			g->links, slot->gateway_index, &slot->gateway, &slot->sandbox, why);
	if (r == 0)
		r = link_add_neighbour(
			g->links, slot->gateway_index, &slot->sandbox, slot->sandbox_link, why);
	if (r == 0)
		r = link_set_up(inside, LINK_LOOPBACK_INDEX, why);
	if (r == 0)
		r = link_set_up(inside, LINK_SANDBOX_INDEX, why);
	if (r == 0)
		r = link_add_address(inside, LINK_SANDBOX_INDEX, &slot->sandbox, NULL, why);
	if (r == 0)
		r = link_add_neighbour(
			inside, LINK_SANDBOX_INDEX, &slot->gateway, slot->gateway_link, why);
	if (r == 0)
		r = link_add_default_route(inside, LINK_SANDBOX_INDEX, &slot->gateway, why);
	if (r == 0)
		r = link_await_carrier(g->links, slot->gateway_index, why);
	return r;
}

static struct nft_key gateway_key(const struct address_slot *slot)
{
	struct nft_key key = {.interface_index = (uint32_t)slot->gateway_index};
	memcpy(key.source, slot->sandbox.bytes, sizeof(key.source));
	return key;
}

/** A namespace and its cable; its packets are nobody's yet. */
static int gateway_make_sandbox(
	struct gateway *g, struct address_slot *ret_slot, int *ret_fd, struct failure *why)
{
	struct address_slot slot;
	int r = address_plan_take(&g->plan, &slot);
	if (r < 0)
		return failure_set(why, r, "the gateway has used up its addresses: restart it");
	auto_fd fd = -1;
	struct link *inside = NULL;
	r = gateway_make_namespace(g, &fd, &inside, why);
	if (r == 0) {
		fault_point("netd-namespace");
		r = gateway_connect(g, &slot, fd, inside, why);
	}
	link_close(inside);
	if (r < 0)
		return r;
	*ret_slot = slot;
	*ret_fd = fd_take(&fd);
	return 0;
}

bool gateway_lacks(const struct gateway *g)
{
	return g->ready_count < g->ready_wanted;
}

int gateway_fill(struct gateway *g, struct failure *why)
{
	unsigned at = g->ready_count;
	if (!gateway_lacks(g))
		return 0;
	int r = gateway_make_sandbox(g, &g->ready[at].slot, &g->ready[at].fd, why);
	if (r < 0)
		return r;
	g->ready_count++;
	return 1;
}

int gateway_add_sandbox(
	struct gateway *g, struct address_slot *ret_slot, int *ret_fd, struct failure *why)
{
	struct address_slot slot;
	auto_fd fd = -1;
	int r = 0;
	if (g->ready_count > 0) {
		g->ready_count--;
		slot = g->ready[g->ready_count].slot;
		fd = fd_take(&g->ready[g->ready_count].fd);
	} else {
		r = gateway_make_sandbox(g, &slot, &fd, why);
	}
	if (r < 0)
		return r;
	fault_point("netd-link");
	const struct nft_key key = gateway_key(&slot);
	r = ruleset_admit(g->nft, &key, why);
	if (r < 0)
		return r;
	fault_point("netd-element");
	*ret_slot = slot;
	*ret_fd = fd_take(&fd);
	return 0;
}

int gateway_remove_sandbox(struct gateway *g, const struct address_slot *slot, struct failure *why)
{
	const struct nft_key key = gateway_key(slot);
	return ruleset_evict(g->nft, &key, why);
}

int gateway_count_sandbox(struct gateway *g, const struct address_slot *slot,
	uint64_t ret_packets[static PACKET_CLASS_COUNT], struct failure *why)
{
	const struct nft_key key = gateway_key(slot);
	return ruleset_count(g->nft, &key, ret_packets, why);
}
