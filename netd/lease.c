/*
 * See lease.h. The launcher is trusted with its own sandbox and no other's; its messages are still
 * checked whole.
 */
#include "netd/lease.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/fault.h"

struct lease *lease_new(int channel_fd)
{
	struct lease *lease = calloc(1, sizeof(*lease));
	if (lease == NULL) {
		fd_close(&channel_fd);
		return NULL;
	}
	lease->channel_fd = channel_fd;
	lease->namespace_fd = -1;
	return lease;
}

void lease_free(struct lease *lease, struct gateway *g)
{
	struct failure why = {0};
	if (lease->state != LEASE_IDLE && gateway_remove_sandbox(g, &lease->slot, &why) < 0)
		log_event(LOG_LEVEL_ERROR, "evict", "sandbox=%s error=%s", lease->sandbox_id,
			why.text);
	fd_close(&lease->namespace_fd);
	fd_close(&lease->channel_fd);
	free(lease);
}

static struct message_sandbox lease_announcement(const struct lease *lease, enum message_kind kind)
{
	struct message_sandbox message = {.header = {.kind = kind}, .address = lease->slot.sandbox};
	memcpy(message.sandbox_id, lease->sandbox_id, sizeof(message.sandbox_id));
	memcpy(message.profile, lease->profile, sizeof(message.profile));
	return message;
}

static int lease_send(const struct lease *lease, enum message_kind kind, struct failure *why)
{
	const struct message_lease_granted granted = {
		.header = {.kind = kind},
		.sandbox = lease->slot.sandbox,
		.service = address_plan_service(),
		.explicit_port = ADDRESS_PLAN_EXPLICIT_PORT,
	};
	int r = channel_send(lease->channel_fd, &granted, sizeof(granted), &lease->namespace_fd, 1);
	return r < 0 ? failure_errno(why, r, "can't hand over the sandbox's network namespace") : 0;
}

int lease_request(struct lease *lease, struct gateway *g, const struct message_lease *message,
	int proxy_fd, struct failure *why)
{
	if (lease->state != LEASE_IDLE)
		return failure_set(why, -EALREADY, "a connection has one lease");
	if (memchr(message->sandbox_id, '\0', sizeof(message->sandbox_id)) == NULL ||
		memchr(message->profile, '\0', sizeof(message->profile)) == NULL)
		return failure_set(why, -EINVAL, "malformed lease request");
	memcpy(lease->sandbox_id, message->sandbox_id, sizeof(lease->sandbox_id));
	memcpy(lease->profile, message->profile, sizeof(lease->profile));
	int r = gateway_add_sandbox(g, &lease->slot, &lease->namespace_fd, why);
	if (r < 0)
		return r;
	lease->state = LEASE_WAITING;
	struct message_sandbox add = lease_announcement(lease, MESSAGE_SANDBOX_ADD);
	r = channel_send(proxy_fd, &add, sizeof(add), NULL, 0);
	if (r < 0)
		return failure_errno(why, r, "can't tell the proxy of the sandbox");
	return lease_send(lease, MESSAGE_LEASE_PLACED, why);
}

int lease_grant(struct lease *lease, struct failure *why)
{
	if (lease->state != LEASE_WAITING)
		return failure_set(why, -EPROTO, "the proxy acknowledged a sandbox twice");
	int r = lease_send(lease, MESSAGE_LEASE_GRANTED, why);
	if (r < 0)
		return r;
	lease->state = LEASE_GRANTED;
	fd_close(&lease->namespace_fd);
	fault_point("netd-granted");
	return 0;
}

int lease_count(struct lease *lease, struct gateway *g, struct failure *why)
{
	if (lease->state == LEASE_IDLE)
		return failure_set(why, -EPROTO, "counters without a lease");
	struct message_counters_read read = {.header = {.kind = MESSAGE_COUNTERS_READ}};
	int r = gateway_count_sandbox(g, &lease->slot, read.packets, why);
	if (r < 0)
		return r;
	read.samples = lease->samples;
	r = channel_send(lease->channel_fd, &read, sizeof(read), NULL, 0);
	return r < 0 ? failure_errno(why, r, "can't send counters") : 0;
}

void lease_withdraw(const struct lease *lease, int proxy_fd)
{
	if (lease->state == LEASE_IDLE)
		return;
	const struct message_sandbox gone = lease_announcement(lease, MESSAGE_SANDBOX_REMOVE);
	/* a proxy that can't be told has died, and with it every flow */
	(void)channel_send(proxy_fd, &gone, sizeof(gone), NULL, 0);
}
