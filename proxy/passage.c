/*
 * A connection that is passed on as bytes, both ways, once what may be judged of it was: spliced TLS, raw TCP, and
 * WebSocket after its 101. A reset of one side is a reset of the other. See flow_state.h.
 */
#include "proxy/flow_state.h"

#include <assert.h>

bool flow_tunnel_allowed(struct flow *f, struct budget_denial *ret)
{
	struct record *r = &f->connect_record;
	f->transport = r->rule->transport;
	if (f->transport == POLICY_INSPECT)
		return true;
	if (f->transport == POLICY_SPLICE && r->reason == REASON_ALLOW_RULE)
		r->reason = REASON_ALLOW_SPLICE;
	return flow_use_begin(f, r, 0, ret);
}

void flow_passage_init(struct flow *f)
{
	struct passage *p = &f->passage;
	p->up.from = p->down.to = f->client;
	p->up.to = p->down.from = f->upstream;
	p->opening_seen = !f->tunnel || f->transport != POLICY_TCP;
	p->up.fed = !p->opening_seen;
}

enum flow_progress flow_passage_begin(struct flow *f)
{
	flow_passage_init(f);
	return flow_move(f, FLOW_PASSAGE);
}

/** A client of a tcp rule begins: raw bytes, or what another kind of rule is for? @return what refuses it, or NULL. */
static const char *judge_opening(struct passage *p)
{
	(void)stream_fill(p->up.from); /* what it says shows in the stream */
	switch (opening_feed(&p->opening, buf_slice(&p->up.from->in))) {
	case OPENING_UNDECIDED:
		return NULL;
	case OPENING_OTHER:
		break;
	case OPENING_TLS:
		return "TLS on a tcp rule, which is for other protocols: https takes a rule without tcp";
	case OPENING_HTTP:
		return "HTTP on a tcp rule, which is for other protocols: requests take a rule without tcp";
	case OPENING_PROXY:
		return "a PROXY header on a tcp rule, behind which TLS or HTTP could follow unseen";
	}
	p->opening_seen = true;
	p->up.fed = false;
	return NULL;
}

/** One direction, once, up to @room bytes. @return how many went on their way. */
static size_t lane_turn(struct flow *f, struct lane *l, uint64_t room, bool *progress)
{
	*progress |= lane_send(l);
	size_t len = lane_take(l, &f->worker->pipes, room);
	if (len > 0)
		(void)lane_send(l); /* what is left shows */
	if (l->pipe.open && l->pipe.len == 0)
		pipe_put(&f->worker->pipes, &l->pipe);
	*progress |= lane_end(l) || len > 0;
	return len;
}

/** The rule's bytes are used up, and there are more. */
static bool is_spent(struct lane *l, uint64_t room)
{
	if (room > 0 || l->over || lane_waiting(l) > 0)
		return false;
	(void)stream_fill(l->from); /* what it says shows in the stream */
	return buf_len(&l->from->in) > 0;
}

static uint64_t up_room(struct flow *f)
{
	return budget_up_room(&f->use, uv_now(&f->worker->loop));
}

static uint64_t down_room(struct flow *f)
{
	return budget_down_room(&f->use, uv_now(&f->worker->loop));
}

/** Both directions, once. @return whether something happened. */
static bool passage_turn(struct flow *f)
{
	struct record *r = flow_record(f);
	bool progress = false;
	assert(r != NULL); /* nothing passes without a decision */
	size_t up = lane_turn(f, &f->passage.up, up_room(f), &progress);
	size_t down = lane_turn(f, &f->passage.down, down_room(f), &progress);
	budget_spend(&f->use, up, down);
	r->bytes_out += up;
	r->bytes_in += down;
	return progress;
}

static enum flow_progress passage_end(struct flow *f)
{
	struct passage *p = &f->passage;
	f->cut = p->up.cut || p->down.cut;
	if (!f->cut)
		return flow_over(f, NULL);
	bool client = f->client->broken || f->client->mute;
	return flow_over(f, client ? "the client went away" : "the host ended the connection");
}

/** Whether nothing more can pass, or what is left of a cut connection is through. */
static bool passage_is_over(const struct passage *p, bool progress)
{
	/* Of a stream that is broken nothing more comes, and nothing more gets to it. */
	bool dead = (p->up.cut && p->up.from->broken) || (p->down.cut && p->down.from->broken);
	bool drained = p->ending && !progress && lane_waiting(p->up.cut ? &p->down : &p->up) == 0;
	return dead || drained || (p->up.over && p->down.over);
}

enum flow_progress flow_step_passage(struct flow *f)
{
	struct passage *p = &f->passage;
	if (!p->opening_seen && lane_waiting(&p->up) == 0) {
		const char *refused = judge_opening(p);
		if (refused != NULL)
			return flow_reset(f, REASON_DENY_PROTOCOL, refused);
	}
	if (is_spent(&p->up, up_room(f)))
		return flow_use_spent(f, BUDGET_UP);
	if (is_spent(&p->down, down_room(f)))
		return flow_use_spent(f, BUDGET_DOWN);
	bool progress = passage_turn(f);
	if (!p->ending && (p->up.cut || p->down.cut)) {
		p->ending = true;
		flow_deadline(f, f->worker->limits.linger_ms);
	}
	if (passage_is_over(p, progress))
		return passage_end(f);
	lane_watch(&p->up);
	lane_watch(&p->down);
	if (!progress)
		return FLOW_WAIT;
	if (!p->ending)
		flow_deadline(f, f->worker->limits.idle_ms);
	return FLOW_AGAIN;
}

void flow_passage_drop(struct flow *f)
{
	struct record *r = flow_record(f);
	size_t up = lane_drop(&f->passage.up, &f->worker->pipes);
	size_t down = lane_drop(&f->passage.down, &f->worker->pipes);
	if (r != NULL) {
		r->bytes_out -= up;
		r->bytes_in -= down;
	}
}

enum flow_progress flow_passage_expired(struct flow *f)
{
	if (f->passage.ending)
		return passage_end(f);
	return flow_reset(
		f, REASON_ERROR_TIMEOUT, "cut: nothing passed in either direction for too long");
}
