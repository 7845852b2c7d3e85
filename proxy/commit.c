/*
 * What `set commit before` waits for: the decision on the disk, before anything that it lets pass leaves. The recorder asks the disk
 * for all who wait at once and says so. See flow_state.h.
 */
#include "proxy/flow_state.h"

#include <errno.h>
#include <unistd.h>

static void leave(struct flow *f)
{
	if (f->commit_at == NULL)
		return;
	*f->commit_at = f->commit_next;
	if (f->commit_next != NULL)
		f->commit_next->commit_at = f->commit_at;
	f->commit_at = NULL;
	f->commit_next = NULL;
}

enum flow_progress flow_commit(struct flow *f, const struct record *r)
{
	struct worker *w = f->worker;
	if (!r->awaits_disk)
		return flow_connect(f);
	f->commit_next = w->committing;
	f->commit_at = &w->committing;
	if (f->commit_next != NULL)
		f->commit_next->commit_at = &f->commit_next;
	w->committing = f;
	return flow_move(f, FLOW_COMMIT);
}

void flow_commit_drop(struct flow *f)
{
	leave(f);
}

enum flow_progress flow_step_commit(struct flow *f)
{
	const struct record *r = flow_record(f);
	if (r == NULL || !audit_ring_durable(f->worker->context->ring, r->ticket))
		return FLOW_WAIT;
	leave(f);
	return flow_connect(f);
}

enum flow_progress flow_commit_expired(struct flow *f)
{
	const struct refusal late = {.reason = REASON_DENY_AUDIT_FULL,
		.message = "the decision was not on the disk in time (set commit before)",
		.rule = f->rule};
	leave(f);
	return flow_refuse(f, &late);
}

static void on_commit(uv_poll_t *poll, int status, int events)
{
	struct worker *w = poll->data;
	uint64_t count;
	(void)status; /* the mark in the ring says what there is */
	(void)events;
	(void)!read(w->context->commit_fd, &count, sizeof(count)); /* only the wake-up counts */
	struct flow *next;
	for (struct flow *f = w->committing; f != NULL; f = next) {
		next = f->commit_next; /* a step that goes on leaves the list, and ends no other flow */
		flow_run(f);
	}
}

int commit_start(struct worker *w, struct failure *why)
{
	int r = uv_poll_init(&w->loop, &w->commits, w->context->commit_fd);
	w->commits.data = w;
	if (r == 0)
		r = uv_poll_start(&w->commits, UV_READABLE, on_commit);
	return r < 0 ? failure_set(why, r, "the recorder's word can't be watched") : 0;
}
