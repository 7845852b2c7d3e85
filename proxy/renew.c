/* See renew.h. */
#include "proxy/renew.h"

#include "common/clock.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/fault.h"
#include "proxy/flow.h"
#include "proxy/worker_state.h"

#include <assert.h>

#define EXPIRY_LOOK_MS                                                                             \
	(60 * 1000) /* the wall clock may be set meanwhile, so it is looked at this often */

/** What has to be found for each sandbox. */
struct search {
	const struct policy *policy;
	int error; /* the first */
};

static void find_profile(struct sandbox *s, void *arg)
{
	struct search *search = arg;
	const struct profile *profile;
	int r = policy_profile(search->policy, profile_name(s->profile), &profile, NULL);
	if (r < 0 && search->error == 0)
		search->error = r;
}

static void renew_prepare(struct worker *w, struct message_policy_step *m, int bundle_fd)
{
	m->code = prepared_compile(&w->prepared, m, bundle_fd);
	if (m->code == 0) {
		struct search search = {.policy = w->prepared.policy};
		ident_each(&w->ident, find_profile, &search);
		m->code = search.error;
	}
	m->header.kind = MESSAGE_POLICY_PREPARED;
	fault_point("worker-prepared");
	int r = channel_send(w->context->channel_fd, m, sizeof(*m), NULL, 0);
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "super-channel", "worker=%u error=%d", w->context->index,
			-r);
}

/** Its profile was there when the policy was prepared, and has been asked for in that policy for sandboxes that came since. */
static void renew_sandbox(struct sandbox *s, void *arg)
{
	struct worker *w = arg;
	int r = policy_profile(w->policy->policy, profile_name(s->profile), &s->profile, NULL);
	assert(r == 0);
	flow_revoke_all(s);
}

static void revoke_sandbox(struct sandbox *s, void *arg)
{
	(void)arg;
	flow_revoke_all(s);
}

static void on_expiry(uv_timer_t *timer)
{
	struct worker *w = timer->data;
	ident_each(&w->ident, revoke_sandbox, NULL);
	renew_watch_expiry(w);
}

void renew_watch_expiry(struct worker *w)
{
	uint64_t now = clock_wall_ms();
	uint64_t next = policy_next_expiry(w->policy->policy, now);
	uint64_t left = next - now < EXPIRY_LOOK_MS ? next - now : EXPIRY_LOOK_MS;
	(void)uv_timer_stop(&w->expiry); /* can't fail; nor can the other, which has a callback */
	if (next != UINT64_MAX)
		(void)uv_timer_start(&w->expiry, on_expiry, left, 0);
}

static void renew_commit(struct worker *w, uint32_t version)
{
	uint32_t origin = w->prepared.origin;
	struct policy *policy = prepared_take(&w->prepared, version);
	struct snapshot *now =
		policy == NULL ? NULL : snapshot_new(policy, (enum message_policy_origin)origin);
	if (now == NULL) {
		w->stopping = true; /* a worker of another policy than all others must not go on */
		uv_stop(&w->loop);
		return;
	}
	struct snapshot *before = w->policy;
	w->policy = now;
	ident_each(&w->ident, renew_sandbox, w);
	renew_watch_expiry(w);
	snapshot_put(before);
}

void renew_step(struct worker *w, struct message_policy_step *m, int bundle_fd)
{
	switch (m->header.kind) {
	case MESSAGE_POLICY_PREPARE:
		renew_prepare(w, m, bundle_fd);
		return;
	case MESSAGE_POLICY_COMMIT:
		renew_commit(w, m->version);
		return;
	case MESSAGE_POLICY_DROP:
		prepared_drop(&w->prepared);
		return;
	}
}
