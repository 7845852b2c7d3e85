/*
 * See keeper.h. Requests come from workers, which parse hostile bytes: each is checked whole, and a worker that does not
 * read its answers waits alone.
 */
#include "proxy/keeper.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/fault.h"
#include "proxy/leaf.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>

static_assert(KEEPER_DER_BYTES == LEAF_DER_BYTES_MAX, "a leaf fits a reply");

#define KEEPER_CHANNELS_MAX 8

/** A worker's channel. */
struct keeper_peer {
	int fd;         /* -1: ended */
	bool has_reply; /* that found the channel full: sent before anything else is read */
	struct keeper_reply reply;
};

struct keeper {
	struct ca *ca;
	const struct policy *policy;
	unsigned count;
	struct keeper_peer peers[KEEPER_CHANNELS_MAX];
};

/** The leaf for a request; stays empty when it is refused. */
static void keeper_mint(
	struct keeper *k, const struct keeper_request *request, struct keeper_reply *reply)
{
	uint64_t now_ms = clock_wall_ms();
	size_t len = strnlen(request->name, sizeof(request->name));
	struct host host;
	*reply = (struct keeper_reply){.id = request->id};
	if (len == sizeof(request->name) || request->public_key_len > sizeof(request->public_key) ||
		leaf_name_parse((struct slice){request->name, len}, &host) < 0)
		return;
	if (!policy_admits_name(k->policy, &host, now_ms)) {
		char shown[128];
		log_event(LOG_LEVEL_WARN, "keeper-refused", "name=%s",
			slice_escape(slice_of(host.name), shown, sizeof(shown)));
		return;
	}
	struct leaf_request leaf = {.host = &host,
		.public_key = {(const char *)request->public_key, request->public_key_len},
		.now_s = (int64_t)(now_ms / 1000)};
	int minted = leaf_mint(k->ca, &leaf, reply->der);
	if (minted > 0)
		reply->der_len = (uint16_t)minted;
	fault_point("keeper-minted");
}

static void peer_send(struct keeper_peer *peer)
{
	int r = channel_send(peer->fd, &peer->reply, sizeof(peer->reply), NULL, 0);
	peer->has_reply = r == -EAGAIN;
	if (r < 0 && r != -EAGAIN)
		fd_close(&peer->fd);
}

static void peer_hear(struct keeper *k, struct keeper_peer *peer)
{
	struct keeper_request request;
	int got = channel_receive(peer->fd, &request, sizeof(request), NULL, 0, NULL);
	if (got == -EAGAIN)
		return;
	if (got != (int)sizeof(request)) {
		fd_close(&peer->fd); /* its end, or no worker of ours */
		return;
	}
	keeper_mint(k, &request, &peer->reply);
	peer_send(peer);
}

/** One request of each worker in turn. @return whether any channel is open. */
static bool keeper_turn(struct keeper *k)
{
	struct pollfd waits[KEEPER_CHANNELS_MAX];
	bool open = false;
	for (unsigned i = 0; i < k->count; i++) {
		short events = k->peers[i].has_reply ? POLLOUT : POLLIN;
		waits[i] = (struct pollfd){.fd = k->peers[i].fd, .events = events};
		open |= k->peers[i].fd >= 0;
	}
	if (!open || poll(waits, k->count, -1) <= 0)
		return open;
	for (unsigned i = 0; i < k->count; i++) {
		struct keeper_peer *peer = &k->peers[i];
		if (waits[i].revents == 0)
			continue;
		if (peer->has_reply)
			peer_send(peer);
		else
			peer_hear(k, peer);
	}
	return true;
}

static int keeper_announce(const struct keeper *k, int ready_fd)
{
	struct slice pem = ca_certificate_pem(k->ca);
	return channel_send(ready_fd, pem.ptr, pem.len, NULL, 0);
}

int keeper_run(const struct keeper_context *context)
{
	struct keeper k = {.policy = context->policy, .count = context->worker_count};
	struct failure why = {0};
	if (context->worker_count > KEEPER_CHANNELS_MAX)
		return 1;
	for (unsigned i = 0; i < k.count; i++) {
		k.peers[i].fd = context->worker_fds[i];
		if (fcntl(k.peers[i].fd, F_SETFL, O_NONBLOCK) < 0)
			return 1;
	}
	int r = ca_new((int64_t)(clock_wall_ms() / 1000), &k.ca, &why);
	if (r == 0)
		r = keeper_announce(&k, context->ready_fd);
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "keeper-failed", "%s", why.text);
	while (r == 0 && keeper_turn(&k))
		continue;
	ca_free(k.ca);
	return r < 0 ? 1 : 0;
}
