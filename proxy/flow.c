/* See flow.h. The order of steps, their deadlines, and the life of a flow. */
#include "proxy/flow_state.h"

#include "common/cleanup.h"

#include <assert.h>
#include <stdio.h>

#define NO_DEADLINE SIZE_MAX
#define BIT(state)  (1u << (state))

/** What a state does, which come next, and when it has lasted too long. */
struct flow_table {
	enum flow_progress (*step)(struct flow *f);
	enum flow_progress (*expired)(struct flow *f);
	size_t limit; /* offset in struct limits; NO_DEADLINE: the step sets its own */
	bool reads_client;
	bool reads_upstream;
	uint32_t next;
};

static enum flow_progress head_expired(struct flow *f);
static enum flow_progress hello_expired(struct flow *f);
static enum flow_progress dial_expired(struct flow *f);
static enum flow_progress silently_expired(struct flow *f);
static enum flow_progress client_tls_expired(struct flow *f);
static enum flow_progress over_expired(struct flow *f);

#define LIMIT(member) offsetof(struct limits, member)
#define ENDS          (BIT(FLOW_REFUSE) | BIT(FLOW_LINGER) | BIT(FLOW_OVER))

static const struct flow_table table[] = {
	[FLOW_HEAD] = {flow_step_head, head_expired, NO_DEADLINE, true, true,
		BIT(FLOW_COMMIT) | BIT(FLOW_RESOLVE) | BIT(FLOW_DIAL) | BIT(FLOW_EXCHANGE) |
			BIT(FLOW_ESTABLISH) | BIT(FLOW_SOCKS) | ENDS},
	[FLOW_SOCKS] = {flow_step_socks, flow_socks_expired, LIMIT(header_ms), true, false,
		BIT(FLOW_COMMIT) | BIT(FLOW_RESOLVE) | ENDS},
	[FLOW_CAPTURE] = {flow_step_capture, flow_capture_expired, LIMIT(header_ms), true, false,
		BIT(FLOW_HELLO) | BIT(FLOW_SPLICE_HELLO) | BIT(FLOW_REQUEST) | BIT(FLOW_COMMIT) |
			BIT(FLOW_RESOLVE) | ENDS},
	[FLOW_COMMIT] = {flow_step_commit, flow_commit_expired, LIMIT(commit_ms), false, false,
		BIT(FLOW_RESOLVE) | BIT(FLOW_EXCHANGE) | BIT(FLOW_LEAF) | ENDS},
	[FLOW_RESOLVE] = {flow_step_resolve, over_expired, NO_DEADLINE, false, false,
		BIT(FLOW_ESTABLISH) | BIT(FLOW_DIAL) | BIT(FLOW_LEAF) | ENDS},
	[FLOW_ESTABLISH] = {flow_step_establish, over_expired, LIMIT(handshake_ms), false, false,
		BIT(FLOW_HELLO) | BIT(FLOW_SPLICE_HELLO) | BIT(FLOW_PASSAGE) | ENDS},
	[FLOW_HELLO] = {flow_step_hello, hello_expired, LIMIT(handshake_ms), true, false,
		BIT(FLOW_DIAL) | BIT(FLOW_REQUEST) | BIT(FLOW_COMMIT) | BIT(FLOW_RESOLVE) | ENDS},
	[FLOW_SPLICE_HELLO] = {flow_step_splice_hello, hello_expired, LIMIT(handshake_ms), true,
		false, BIT(FLOW_DIAL) | BIT(FLOW_COMMIT) | BIT(FLOW_RESOLVE) | ENDS},
	[FLOW_DIAL] = {flow_step_dial, dial_expired, LIMIT(dial_ms), false, false,
		BIT(FLOW_UPSTREAM_TLS) | BIT(FLOW_EXCHANGE) | BIT(FLOW_LEAF) |
			BIT(FLOW_SPLICE_ANSWER) | BIT(FLOW_PASSAGE) | BIT(FLOW_ESTABLISH) |
			BIT(FLOW_REQUEST) | BIT(FLOW_VIA) | ENDS},
	[FLOW_VIA] = {flow_step_via, dial_expired, LIMIT(dial_ms), false, true,
		BIT(FLOW_DIAL) | BIT(FLOW_UPSTREAM_TLS) | BIT(FLOW_EXCHANGE) | BIT(FLOW_LEAF) |
			BIT(FLOW_SPLICE_ANSWER) | BIT(FLOW_PASSAGE) | BIT(FLOW_ESTABLISH) |
			BIT(FLOW_REQUEST) | ENDS},
	[FLOW_UPSTREAM_TLS] = {flow_step_upstream_tls, dial_expired, LIMIT(handshake_ms), false,
		true, BIT(FLOW_LEAF) | BIT(FLOW_EXCHANGE) | ENDS},
	[FLOW_LEAF] = {flow_step_leaf, silently_expired, LIMIT(keeper_ms), false, false,
		BIT(FLOW_CLIENT_TLS) | ENDS},
	[FLOW_CLIENT_TLS] = {flow_step_client_tls, client_tls_expired, LIMIT(handshake_ms), true,
		false, BIT(FLOW_REQUEST) | ENDS},
	[FLOW_REQUEST] = {flow_step_request, head_expired, NO_DEADLINE, true, true,
		BIT(FLOW_COMMIT) | BIT(FLOW_RESOLVE) | BIT(FLOW_DIAL) | BIT(FLOW_EXCHANGE) | ENDS},
	[FLOW_EXCHANGE] = {flow_step_exchange, flow_exchange_expired, LIMIT(idle_ms), true, true,
		BIT(FLOW_REQUEST) | BIT(FLOW_RESOLVE) | BIT(FLOW_HEAD) | BIT(FLOW_PASSAGE) | ENDS},
	[FLOW_SPLICE_ANSWER] = {flow_step_splice_answer, flow_splice_expired, LIMIT(handshake_ms),
		true, true, BIT(FLOW_PASSAGE) | ENDS},
	[FLOW_PASSAGE] = {flow_step_passage, flow_passage_expired, LIMIT(idle_ms), true, true,
		ENDS},
	[FLOW_REFUSE] = {flow_step_refuse, over_expired, LIMIT(linger_ms), false, false,
		BIT(FLOW_LINGER) | BIT(FLOW_OVER)},
	[FLOW_LINGER] = {flow_step_linger, over_expired, LIMIT(linger_ms), true, false,
		BIT(FLOW_OVER)},
	[FLOW_OVER] = {NULL, NULL, NO_DEADLINE, false, false, 0},
};

static_assert(array_size(table) == FLOW_STATE_COUNT, "a line for every state");

static uint32_t limit_at(const struct flow *f, size_t offset)
{
	uint32_t ms;
	memcpy(&ms, (const char *)&f->worker->limits + offset, sizeof(ms));
	return ms;
}

void flow_deadline(struct flow *f, uint32_t ms)
{
	f->deadline_ms = uv_now(&f->worker->loop) + ms;
	if (f->use.deadline_ms != 0 && f->use.deadline_ms < f->deadline_ms)
		f->deadline_ms = f->use.deadline_ms; /* time= of the rule */
}

enum flow_progress flow_move(struct flow *f, enum flow_state next)
{
	assert((table[f->state].next & BIT(next)) != 0);
	f->state = next;
	if (table[next].limit != NO_DEADLINE)
		flow_deadline(f, limit_at(f, table[next].limit));
	else if (next == FLOW_HEAD || next == FLOW_REQUEST)
		flow_deadline(f, f->worker->limits.idle_ms);
	else /* the resolver has its own deadline */
		flow_deadline(f, 2 * f->worker->limits.dns_ms);
	return FLOW_AGAIN;
}

struct record *flow_record(struct flow *f)
{
	if (f->request_record.live)
		return &f->request_record;
	return f->connect_record.live ? &f->connect_record : NULL;
}

void flow_adopt(struct flow *f)
{
	struct snapshot *now = f->worker->policy;
	if (f->policy == now)
		return;
	snapshot_put(f->policy);
	f->policy = snapshot_get(now);
	f->rule = f->destination_rule = NULL;
}

void flow_drop_upstream(struct flow *f)
{
	pool_leave(f);
	stream_free(ptr_take(f->upstream));
	tls_info_put(ptr_take(f->tls_info));
}

void flow_uncount_unsent(struct flow *f)
{
	struct record *r = flow_record(f);
	if (r == NULL)
		return;
	flow_passage_drop(f);
	uint64_t in = f->client == NULL ? 0 : buf_len(&f->client->out);
	uint64_t out = f->upstream == NULL ? 0 : buf_len(&f->upstream->out);
	r->bytes_in -= in < r->bytes_in ? in : r->bytes_in;
	r->bytes_out -= out < r->bytes_out ? out : r->bytes_out;
}

enum flow_progress flow_over(struct flow *f, const char *detail)
{
	flow_uncount_unsent(f);
	/* Open slots always find room; what has none was recorded when it was refused. */
	if (f->request_record.live)
		(void)record_close(f, &f->request_record, detail, NULL);
	if (f->connect_record.live)
		(void)record_close(f, &f->connect_record, detail, NULL);
	f->state = FLOW_OVER;
	return FLOW_AGAIN;
}

enum flow_progress flow_reset(struct flow *f, enum reason reason, const char *detail)
{
	struct record *r = flow_record(f);
	if (r != NULL)
		r->reason = reason;
	f->cut = true;
	return flow_over(f, detail);
}

static enum flow_progress head_expired(struct flow *f)
{
	if (buf_len(&f->client->in) == 0)
		return flow_over(f, NULL);
	const struct http_fault late = {.status = 408,
		.reason = REASON_DENY_LIMIT,
		.detail = "the request's head was not complete in time"};
	return flow_refuse_head(f, &late);
}

static enum flow_progress hello_expired(struct flow *f)
{
	return flow_refuse_silently(
		f, REASON_DENY_NOT_TLS, "no complete TLS ClientHello came in time");
}

static enum flow_progress dial_expired(struct flow *f)
{
	struct flow_fault fault = {
		.reason = REASON_ERROR_TIMEOUT, .status = 504, .error = "connection_timeout"};
	const char *what = "the host did not accept the connection in time";
	if (f->state == FLOW_UPSTREAM_TLS)
		what = "the host did not complete the TLS handshake in time";
	else if (flow_has_via(f))
		what = "the upstream proxy did not open the way to the host in time";
	(void)slice_copy(slice_of(what), fault.detail, sizeof(fault.detail)); /* they fit */
	return flow_upstream_failed(f, &fault);
}

static enum flow_progress silently_expired(struct flow *f)
{
	return flow_refuse_silently(
		f, REASON_ERROR_INTERNAL, "no certificate for this host could be made in time");
}

static enum flow_progress client_tls_expired(struct flow *f)
{
	return flow_refuse_silently(
		f, REASON_DENY_LIMIT, "the client did not complete the TLS handshake in time");
}

static enum flow_progress over_expired(struct flow *f)
{
	return flow_over(f, NULL);
}

static void on_timer_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void ready_remove(struct flow *f)
{
	struct worker *w = f->worker;
	struct flow **at = &w->ready;
	while (*at != NULL && *at != f)
		at = &(*at)->next_ready;
	if (*at == NULL)
		return;
	*at = f->next_ready;
	if (*at == NULL)
		w->ready_end = at;
	f->is_ready = false;
}

/** Release everything; the memory itself once the loop has let go of the timer. */
static void flow_free(struct flow *f)
{
	*f->at = f->next;
	if (f->next != NULL)
		f->next->at = f->at;
	f->sandbox->connections--;
	f->worker->flows--;
	metrics_add(f->worker->metrics, METRICS_ENDED, 1);
	if (f->is_ready)
		ready_remove(f);
	flow_commit_drop(f);
	resolve_drop(ptr_take(f->query));
	dial_free(ptr_take(f->dial));
	keeper_wait_end(&f->leaf);
	pool_leave(f);
	if (f->cut) {
		stream_reset(ptr_take(f->client));
		stream_reset(ptr_take(f->upstream));
	}
	stream_free(ptr_take(f->client));
	flow_drop_upstream(f);
	free(f->admitted);
	free(f->fault);
	free(f->connect_record.observed);
	free(f->connect_record.text);
	free(f->request_record.observed);
	free(f->request_record.text);
	buf_fini(&f->head);
	snapshot_put(ptr_take(f->policy));
	uv_close((uv_handle_t *)&f->timer, on_timer_closed);
	if (f->worker->leaving && f->worker->flows == 0 && !f->worker->stopping)
		worker_stop(f->worker);
}

static void on_timer(uv_timer_t *timer);

/** When the next event is due that something is under way; UINT64_MAX: none is. */
static uint64_t note_due_ms(const struct flow *f)
{
	const struct record *records[] = {&f->connect_record, &f->request_record};
	uint64_t due = UINT64_MAX;
	for (size_t i = 0; i < array_size(records); i++) {
		if (records[i]->live && records[i]->open_ms != 0 && records[i]->open_ms < due)
			due = records[i]->open_ms;
	}
	return due;
}

static void flow_note(struct flow *f)
{
	record_note(f, &f->connect_record);
	record_note(f, &f->request_record);
}

/** Ask the loop for what the state waits for. */
static void flow_watch(struct flow *f)
{
	const struct flow_table *state = &table[f->state];
	stream_watch(f->client, state->reads_client);
	if (f->upstream != NULL && f->parked == NULL)
		stream_watch(f->upstream, state->reads_upstream);
	uint64_t due = note_due_ms(f);
	if (due > f->deadline_ms)
		due = f->deadline_ms;
	if (f->armed_ms != 0 && f->armed_ms <= due)
		return; /* it will look again when it fires */
	uint64_t now = uv_now(&f->worker->loop);
	uint64_t left = due > now ? due - now : 0;
	(void)uv_timer_start(&f->timer, on_timer, left, 0); /* has a callback, so can't fail */
	f->armed_ms = now + left;
}

static void on_turns(uv_idle_t *idle)
{
	struct worker *w = idle->data;
	size_t count = 0;
	for (struct flow *f = w->ready; f != NULL; f = f->next_ready)
		count++;
	/* One by one, since a turn may end other flows; those that yield again come next time. */
	while (count-- > 0 && w->ready != NULL) {
		struct flow *f = w->ready;
		ready_remove(f);
		flow_run(f);
	}
	if (w->ready == NULL)
		(void)uv_idle_stop(idle); /* can't fail */
}

/** It could go on at once, but others have waited. */
static void flow_yield(struct flow *f)
{
	struct worker *w = f->worker;
	if (f->is_ready)
		return;
	f->is_ready = true;
	f->next_ready = NULL;
	*w->ready_end = f;
	w->ready_end = &f->next_ready;
	(void)uv_idle_start(&w->turns, on_turns); /* has a callback, so can't fail */
}

/** It waits for a request, of which nothing has come, and the answer to the one before has gone out. */
static bool is_idle(const struct flow *f)
{
	return (f->state == FLOW_HEAD || f->state == FLOW_REQUEST) && !f->head_begun &&
		buf_len(&f->client->in) == 0 && buf_len(&f->client->out) == 0;
}

/** It may be about to ask policy for the first time, or anew. */
static bool asks(const struct flow *f)
{
	return f->state == FLOW_HEAD || f->state == FLOW_SOCKS || f->state == FLOW_CAPTURE ||
		f->state == FLOW_REQUEST;
}

static void flow_turn(struct flow *f, enum flow_progress progress)
{
	unsigned steps = 0;
	while (f->state != FLOW_OVER && (progress == FLOW_AGAIN || f->again) &&
		steps++ < FLOW_TURN_STEPS) {
		f->again = false;
		if (asks(f))
			flow_adopt(f); /* a request has one policy, a connection may have more */
		progress = table[f->state].step(f);
	}
	if (f->worker->leaving && is_idle(f)) {
		stream_end(f->client);
		(void)flow_over(f, NULL); /* the state says so */
	}
	f->running = false;
	if (f->state == FLOW_OVER) {
		flow_free(f);
		return;
	}
	if (progress == FLOW_AGAIN || f->again)
		flow_yield(f);
	flow_note(f);
	flow_watch(f);
}

void flow_run(void *flow)
{
	struct flow *f = flow;
	f->again = true;
	if (f->running)
		return;
	f->running = true;
	flow_turn(f, FLOW_AGAIN);
}

static void on_timer(uv_timer_t *timer)
{
	struct flow *f = timer->data;
	f->armed_ms = 0;
	if (uv_now(&f->worker->loop) < f->deadline_ms) {
		flow_note(f);
		flow_watch(f);
		return;
	}
	f->running = true;
	flow_turn(f,
		flow_use_expired(f) ? flow_use_spent(f, BUDGET_TIME) : table[f->state].expired(f));
}

/** @return NULL when out of memory; then @fd is closed. */
static struct flow *flow_new(
	struct worker *w, struct sandbox *s, int fd, const struct flow_ends *ends)
{
	struct flow *f = calloc(1, sizeof(*f));
	if (f == NULL) {
		fd_close(&fd);
		return NULL;
	}
	f->client = stream_new(&w->poller, fd, flow_run, f);
	if (f->client == NULL) {
		free(f);
		return NULL;
	}
	f->worker = w;
	f->scan.limits = f->x.scan.limits = &w->limits;
	f->sandbox = s;
	s->buffered.limit = w->limits.buffer_bytes;
	f->client->account = &s->buffered;
	f->policy = snapshot_get(w->policy);
	f->ends = *ends;
	f->connect_record.slot = f->request_record.slot = -1;
	(void)uv_timer_init(&w->loop, &f->timer); /* can't fail */
	f->timer.data = f;
	(void)snprintf(f->id, sizeof(f->id), "%.32s-%u-%llu", w->context->instance,
		w->context->index, (unsigned long long)++w->connections);
	buf_init(&f->head, 2 * HTTP1_HEAD_BYTES_MAX);
	f->next = s->flows;
	f->at = &s->flows;
	if (f->next != NULL)
		f->next->at = &f->next;
	s->flows = f;
	s->connections++;
	w->flows++;
	metrics_add(w->metrics, METRICS_ACCEPTED, 1);
	flow_deadline(f, w->limits.header_ms);
	f->door = ends->door;
	if (f->door == FLOW_DOOR_TRANSPARENT) {
		f->state = FLOW_CAPTURE;
		flow_capture_aim(f);
	}
	return f;
}

void flow_start(struct worker *w, struct sandbox *s, int fd, const struct flow_ends *ends)
{
	struct flow *f = flow_new(w, s, fd, ends);
	if (f != NULL)
		flow_run(f);
}

void flow_start_refused(struct worker *w, struct sandbox *s, int fd, const struct flow_ends *ends)
{
	struct flow *f = flow_new(w, s, fd, ends);
	if (f == NULL)
		return;
	struct refusal r = {.reason = REASON_DENY_LIMIT,
		.message = "this sandbox has as many connections as it may have"};
	f->running = true;
	(void)stream_fill(f->client); /* what is left unread turns the end into a reset */
	if (f->door == FLOW_DOOR_EXPLICIT && flow_is_socks(f))
		f->door = FLOW_DOOR_SOCKS;
	(void)flow_refuse(f, &r);
	(void)stream_flush(f->client); /* all that is offered: no room is kept for it */
	stream_end(f->client);
	f->running = false;
	f->state = FLOW_OVER;
	flow_free(f);
}

void flow_revoke_all(struct sandbox *s)
{
	struct flow *next;
	for (struct flow *f = s->flows; f != NULL; f = next) {
		next = f->next;
		f->running = true;
		if (flow_revoke(f))
			flow_turn(f, FLOW_AGAIN);
		else
			f->running = false;
	}
	pool_drop_unowned(s);
}

void flow_leave_all(struct sandbox *s)
{
	struct flow *next;
	for (struct flow *f = s->flows; f != NULL; f = next) {
		next = f->next;
		f->x.client_close = true;
		flow_run(f);
	}
}

void flow_cut_all(struct sandbox *s)
{
	while (s->flows != NULL) {
		struct flow *f = s->flows;
		f->cut = true;
		(void)flow_over(f, "cut: the sandbox has ended");
		flow_free(f);
	}
}
