/*
 * See keeper.h. Requests come from workers, which parse hostile bytes: each is checked whole, and a worker that does not
 * read its answers waits alone.
 */
#include "proxy/keeper.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/clock.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/fault.h"
#include "proxy/attest.h"
#include "proxy/leaf.h"
#include "proxy/prepared.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>

static_assert(KEEPER_DER_BYTES == LEAF_DER_BYTES_MAX, "a leaf fits a reply");

#define KEEPER_CHANNELS_MAX 8
#define KEEPER_PEM_BYTES    32768 /* of a CA's certificate or key */

/** A worker's channel. */
struct keeper_peer {
	int fd;         /* -1: ended */
	bool has_reply; /* that found the channel full: sent before anything else is read */
	struct keeper_reply reply;
};

struct keeper {
	struct ca *ca;
	int super_fd; /* -1: ended */
	struct policy *policy;
	struct prepared prepared;
	unsigned count;
	struct keeper_peer peers[KEEPER_CHANNELS_MAX];
	struct attest attest;
};

/** Between the two steps of a change either policy counts: some worker may have taken the second one already. */
static bool keeper_admits(const struct keeper *k, const struct host *host, uint64_t now_ms)
{
	return policy_admits_name(k->policy, host, now_ms) ||
		(k->prepared.policy != NULL &&
			policy_admits_name(k->prepared.policy, host, now_ms));
}

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
	if (!keeper_admits(k, &host, now_ms)) {
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

static void keeper_step(struct keeper *k, struct message_policy_step *m, int bundle_fd)
{
	struct policy *policy = NULL;
	switch (m->header.kind) {
	case MESSAGE_POLICY_PREPARE:
		m->code = prepared_compile(&k->prepared, m, bundle_fd);
		m->header.kind = MESSAGE_POLICY_PREPARED;
		if (channel_send(k->super_fd, m, sizeof(*m), NULL, 0) < 0)
			fd_close(&k->super_fd);
		return;
	case MESSAGE_POLICY_COMMIT:
		policy = prepared_take(&k->prepared, m->version);
		if (policy != NULL) {
			policy_free(k->policy);
			k->policy = policy;
		}
		return;
	case MESSAGE_POLICY_DROP:
		prepared_drop(&k->prepared);
		return;
	}
}

static void keeper_hear_super(struct keeper *k)
{
	struct message_policy_step m;
	auto_fd bundle = -1;
	size_t count = 0;
	int got = channel_receive(k->super_fd, &m, sizeof(m), &bundle, 1, &count);
	if (got == -EAGAIN)
		return;
	if (got == (int)sizeof(m))
		keeper_step(k, &m, bundle);
	else
		fd_close(&k->super_fd);
}

/** One request of each worker in turn. @return whether any channel is open. */
static bool keeper_turn(struct keeper *k)
{
	struct pollfd waits[KEEPER_CHANNELS_MAX + 2];
	bool open = false;
	for (unsigned i = 0; i < k->count; i++) {
		short events = k->peers[i].has_reply ? POLLOUT : POLLIN;
		waits[i] = (struct pollfd){.fd = k->peers[i].fd, .events = events};
		open |= k->peers[i].fd >= 0;
	}
	waits[k->count] = (struct pollfd){.fd = k->super_fd, .events = POLLIN};
	waits[k->count + 1] = (struct pollfd){.fd = k->attest.fd, .events = POLLIN};
	open |= k->attest.fd >= 0;
	if (!open || poll(waits, k->count + 2, -1) <= 0)
		return open;
	if (waits[k->count].revents != 0)
		keeper_hear_super(k); /* first: who comes with a name may have the new policy */
	if (waits[k->count + 1].revents != 0)
		attest_hear(&k->attest, k->policy);
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

static int keeper_load_ca(
	struct keeper *k, const struct keeper_context *context, struct failure *why)
{
	char certificate[KEEPER_PEM_BYTES], key[KEEPER_PEM_BYTES];
	int certificate_len = file_read_short(context->ca_fd, certificate, sizeof(certificate));
	int key_len = file_read_short(context->ca_key_fd, key, sizeof(key));
	int r = certificate_len < 0 ? certificate_len : key_len;
	if (r < 0) {
		(void)failure_errno(why, r, "can't read the CA");
	} else {
		const struct ca_files files = {
			{certificate, (size_t)certificate_len}, {key, (size_t)key_len}};
		r = ca_load(&files, (int64_t)(clock_wall_ms() / 1000), &k->ca, why);
	}
	explicit_bzero(key, sizeof(key));
	return r < 0 ? r : 0;
}

static int keeper_announce(const struct keeper *k, struct failure *why)
{
	struct slice pem = ca_certificate_pem(k->ca);
	struct message_proxy_ready ready = {.header = {.kind = MESSAGE_PROXY_READY}};
	if (pem.len > sizeof(ready.ca_pem))
		return failure_set(why, -EFBIG, "the CA: its certificate is larger than %zu bytes",
			sizeof(ready.ca_pem));
	memcpy(ready.ca_pem, pem.ptr, pem.len);
	ready.ca_len = (uint32_t)pem.len;
	int r = channel_send(k->super_fd, &ready, sizeof(ready), NULL, 0);
	return r < 0 ? failure_errno(why, r, "super's channel") : 0;
}

static int keeper_start(struct keeper *k, const struct keeper_context *context, struct failure *why)
{
	if (context->worker_count > KEEPER_CHANNELS_MAX)
		return failure_set(why, -E2BIG, "too many workers");
	for (unsigned i = 0; i < k->count; i++) {
		k->peers[i].fd = context->worker_fds[i];
		if (fcntl(k->peers[i].fd, F_SETFL, O_NONBLOCK) < 0)
			return failure_errno(why, -errno, "a worker's channel");
	}
	uint32_t lifetime_s = context->ca_lifetime_s;
	int r = context->ca_fd >= 0
		? keeper_load_ca(k, context, why)
		: ca_new((int64_t)(clock_wall_ms() / 1000),
			  lifetime_s != 0 ? lifetime_s : CA_LIFETIME_SECONDS, &k->ca, why);
	if (r == 0)
		r = keeper_announce(k, why); /* the key after it: nobody waits for that one */
	return r < 0 ? r : attest_start(&k->attest, context->attest_fd, context->audit_key_fd, why);
}

int keeper_run(const struct keeper_context *context)
{
	struct keeper k = {.policy = context->policy,
		.super_fd = context->super_fd,
		.count = context->worker_count};
	struct failure why = {0};
	k.attest.profile = context->profile;
	int r = keeper_start(&k, context, &why);
	if (r < 0)
		message_send_failed(k.super_fd, why.code, why.text);
	while (r == 0 && keeper_turn(&k))
		continue;
	ca_free(k.ca);
	attest_fini(&k.attest);
	prepared_drop(&k.prepared);
	policy_free(k.policy);
	return r < 0 ? 1 : 0;
}
