/* See worker.h. Builds what flows share, listens to super, ends in order. */
#include "proxy/worker_state.h"

#include "audit/event.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "proxy/dns.h"
#include "proxy/flow.h"
#include "proxy/renew.h"
#include "proxy/tls_tickets.h"

#include <fcntl.h>
#include <signal.h>

static void sandbox_end(struct worker *w, struct sandbox *s)
{
	if (s == NULL)
		return;
	flow_cut_all(s);
	dns_forget(w, s);
	pool_clear(s);
	tls_tickets_free(s->tickets); /* after the last session that uses it */
	free(s);
}

/** It ended for good, and what it used of rules is forgotten. */
static void sandbox_forget(struct worker *w, struct sandbox *s)
{
	if (s == NULL)
		return;
	unsigned budget = s->budget;
	sandbox_end(w, s);
	budget_remove_sandbox(w->context->budget, budget);
	synthetic_remove_sandbox(w->context->synthetic, budget);
}

/** @return 0 with its predecessor at this address, unlinked, in *ret_old. */
static int sandbox_place(struct worker *w, const struct message_sandbox *message,
	const struct profile *profile, struct sandbox **ret_old)
{
	unsigned budget;
	int r = budget_add_sandbox(w->context->budget, message->sandbox_id, &budget);
	if (r == 0)
		r = ident_add(&w->ident, message, profile, ret_old);
	if (r < 0)
		return r;
	struct sandbox *s = ident_find(&w->ident, &message->address);
	s->budget = budget;
	s->tickets = tls_tickets_new(w->limits.ticket_ms);
	synthetic_add_sandbox(w->context->synthetic, budget, message->sandbox_id);
	return 0;
}

static void sandbox_add(struct worker *w, struct message_sandbox *message)
{
	const struct profile *profile;
	struct sandbox *old = NULL;
	struct failure why = {0};
	message->profile[sizeof(message->profile) - 1] = '\0';
	message->sandbox_id[sizeof(message->sandbox_id) - 1] = '\0';
	int r = policy_profile(w->policy->policy, message->profile, &profile, &why);
	if (r == 0 && w->prepared.policy != NULL) { /* in a moment it has to be there as well */
		const struct profile *next;
		r = policy_profile(w->prepared.policy, message->profile, &next, &why);
	}
	if (r == 0)
		r = sandbox_place(w, message, profile, &old);
	if (r < 0) {
		message_send_failed(w->context->channel_fd, r,
			why.text[0] != '\0' ? why.text : "the worker can't add the sandbox");
		return;
	}
	if (old != NULL && strcmp(old->id, message->sandbox_id) != 0)
		sandbox_forget(w, old);
	else
		sandbox_end(w, old);
	message->header.kind = MESSAGE_SANDBOX_ADDED;
	r = channel_send(w->context->channel_fd, message, sizeof(*message), NULL, 0);
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "super-channel", "worker=%u error=%d", w->context->index,
			-r);
}

/** Nothing of it is left, and what there was to say is in the ring. */
static void sandbox_remove(struct worker *w, struct message_sandbox *message)
{
	sandbox_forget(w, ident_remove(&w->ident, &message->address));
	message->header.kind = MESSAGE_SANDBOX_REMOVED;
	int r = channel_send(w->context->channel_fd, message, sizeof(*message), NULL, 0);
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "super-channel", "worker=%u error=%d", w->context->index,
			-r);
}

void worker_stop(struct worker *w)
{
	w->stopping = true;
}

static void worker_serve(struct worker *w)
{
	listener_serve(w);
	dns_serve(w);
}

static void leave_sandbox(struct sandbox *s, void *arg)
{
	(void)arg;
	flow_leave_all(s);
}

static void worker_leave(struct worker *w)
{
	w->leaving = true;
	listener_stop(w);
	dns_stop(w);
	ident_each(&w->ident, leave_sandbox, NULL);
	if (w->flows == 0)
		worker_stop(w);
}

union super_message {
	struct message_header header;
	struct message_sandbox sandbox;
	struct message_policy_step policy;
};

static void message_handle(struct worker *w, union super_message *m, int len, int fd)
{
	bool sandbox = len == (int)sizeof(m->sandbox);
	bool policy = len == (int)sizeof(m->policy);
	if (len < (int)sizeof(m->header))
		return;
	if (m->header.kind == MESSAGE_SANDBOX_ADD && sandbox)
		sandbox_add(w, &m->sandbox);
	else if (m->header.kind == MESSAGE_SANDBOX_REMOVE && sandbox)
		sandbox_remove(w, &m->sandbox);
	else if (m->header.kind >= MESSAGE_POLICY_PREPARE && policy)
		renew_step(w, &m->policy, fd);
	else if (m->header.kind == MESSAGE_PROXY_SERVE && !w->leaving)
		worker_serve(w);
	else if (m->header.kind == MESSAGE_PROXY_LEAVE && !w->leaving)
		worker_leave(w);
	else if (m->header.kind == MESSAGE_PROXY_FINISH)
		worker_stop(w);
}

static void on_super(uv_poll_t *poll, int status, int events)
{
	struct worker *w = poll->data;
	(void)status; /* receiving says it, too */
	(void)events;
	while (!w->stopping) {
		union super_message m;
		auto_fd fd = -1; /* a policy's bundle */
		size_t count = 0;
		int r = channel_receive(w->context->channel_fd, &m, sizeof(m), &fd, 1, &count);
		if (r == -EAGAIN)
			return;
		if (r <= 0)
			worker_stop(w);
		else
			message_handle(w, &m, r, fd);
	}
}

static int channel_start(struct worker *w, struct failure *why)
{
	int flags = fcntl(w->context->channel_fd, F_GETFL);
	if (flags < 0 || fcntl(w->context->channel_fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return failure_errno(why, -errno, "super's channel");
	int r = uv_poll_init(&w->loop, &w->channel, w->context->channel_fd);
	w->channel.data = w;
	if (r == 0)
		r = uv_poll_start(&w->channel, UV_READABLE, on_super);
	return r < 0 ? failure_set(why, r, "super's channel can't be watched") : 0;
}

static int resolver_start(struct worker *w, struct failure *why)
{
	const struct message_proxy_start *start = w->context->start;
	struct resolve_server servers[MESSAGE_RESOLVERS_MAX];
	size_t count = start->resolver_count < MESSAGE_RESOLVERS_MAX ? start->resolver_count
								     : MESSAGE_RESOLVERS_MAX;
	for (size_t i = 0; i < count; i++)
		servers[i] = (struct resolve_server){
			.address = start->resolvers[i].address, .port = start->resolvers[i].port};
	struct resolve_options options = {.loop = &w->loop,
		.servers = servers,
		.server_count = count,
		.hosts = w->context->hosts,
		.limits = &w->limits};
	return resolve_channel_new(&options, &w->resolve, why);
}

static int tls_start(struct worker *w, struct failure *why)
{
	const struct worker_context *c = w->context;
	int r = leaf_key_new(&w->leaf_key, why);
	if (r == 0)
		r = tls_server_context_new(w->leaf_key, &w->tls_sandbox, why);
	if (r == 0)
		r = tls_upstream_context_new(
			c->ca_bundle_fd, c->upstream_ca_fd, &w->tls_world, why);
	if (r == 0)
		r = keeper_client_new(&w->loop, c->keeper_fd, w->leaf_key, &w->keeper, why);
	return r;
}

static int limits_start(struct worker *w, struct failure *why)
{
	w->limits = w->context->limits != NULL ? *w->context->limits : limits_default();
	return limits_of_environment(&w->limits, why);
}

static int worker_start(struct worker *w, struct failure *why)
{
	/* Peers that go away are errors of a write, not the end of the process. */
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	if (sigaction(SIGPIPE, &ignore, NULL) < 0)
		return failure_errno(why, -errno, "signals");
	int r = poller_open(&w->poller, &w->loop);
	if (r < 0)
		return failure_errno(why, r, "waiting for sockets");
	r = limits_start(w, why);
	if (r == 0)
		r = guard_open(&w->guard, why);
	if (r == 0)
		r = resolver_start(w, why);
	if (w->context->upstream_proxy != NULL)
		w->guard.by_name = w->context->upstream_proxy->by_name;
	if (r == 0)
		r = tls_start(w, why);
	if (r == 0)
		r = listener_start(w, why);
	if (r == 0)
		r = dns_start(w, why);
	if (r == 0)
		r = channel_start(w, why);
	if (r == 0)
		r = commit_start(w, why);
	return r;
}

static void close_handle(uv_handle_t *handle, void *arg)
{
	(void)arg;
	if (!uv_is_closing(handle))
		uv_close(handle, NULL);
}

/** Cut every flow, finish every record, release everything. */
static void worker_end(struct worker *w)
{
	for (struct sandbox *s = ident_take(&w->ident); s != NULL; s = ident_take(&w->ident))
		sandbox_end(w, s);
	(void)uv_run(&w->loop, UV_RUN_NOWAIT); /* handles of flows are released here */
	resolve_channel_free(w->resolve);
	keeper_client_free(w->keeper);
	uv_walk(&w->loop, close_handle, NULL); /* what is ours: listener, channel, turns */
	(void)uv_run(&w->loop, UV_RUN_DEFAULT);
	(void)uv_loop_close(&w->loop); /* nothing is left in it */
	dns_end(w);
	tls_upstream_context_free(w->tls_world);
	tls_server_context_free(w->tls_sandbox);
	leaf_key_free(w->leaf_key);
	pipe_pool_close(&w->pipes);
	guard_close(&w->guard);
	poller_close(&w->poller);
	fd_close(&w->spare_fd);
	prepared_drop(&w->prepared);
	snapshot_put(ptr_take(w->policy));
	buf_fini(&w->line);
}

static void tell_finished(const struct worker_context *context)
{
	struct message_header finished = {.kind = MESSAGE_PROXY_FINISHED};
	/* If super is gone, nobody waits for it. */
	(void)channel_send(context->channel_fd, &finished, sizeof(finished), NULL, 0);
}

int worker_run(const struct worker_context *context)
{
	struct failure why = {0};
	struct worker *w = calloc(1, sizeof(*w));
	if (w != NULL)
		w->policy = snapshot_new(
			context->policy, (enum message_policy_origin)context->policy_origin);
	if (w != NULL)
		w->metrics = context->metrics != NULL ? context->metrics : metrics_open(-1);
	if (w == NULL || w->policy == NULL || w->metrics == NULL || uv_loop_init(&w->loop) < 0) {
		free(w);
		return EXIT_FAILURE;
	}
	w->context = context;
	metrics_begin(w->metrics);
	w->spare_fd = -1;
	w->guard.netlink_fd = w->guard.changes_fd = w->poller.fd = -1;
	w->ready_end = &w->ready;
	buf_init(&w->line, 4 * AUDIT_LINE_BYTES_MAX);
	(void)uv_idle_init(&w->loop, &w->turns); /* can't fail */
	w->turns.data = w;
	pool_init(&w->pool, &w->loop);
	(void)uv_timer_init(&w->loop, &w->expiry); /* can't fail */
	w->expiry.data = w;
	renew_watch_expiry(w);
	int r = worker_start(w, &why);
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "worker-start", "worker=%u error=\"%s\"", context->index,
			why.text);
	else
		poller_run(&w->poller, &w->stopping);
	worker_end(w);
	if (r == 0)
		tell_finished(context);
	free(w);
	return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
