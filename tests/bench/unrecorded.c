/*
 * proxy/record.c without what it writes: a record lives and ends, and no event is made of it. Linked before the proxy's library it takes
 * that file's place in a program of the benchmark's own, so that the row on recording has something to compare with. Never installed:
 * what is built for use has no such switch.
 */
#include "proxy/flow_state.h"

#include "common/clock.h"

void record_start(struct flow *f, struct record *r, bool connect)
{
	(void)f;
	*r = (struct record){.live = true, .connect = connect, .slot = -1};
	r->start_ms = clock_wall_ms();
}

void record_verdict(struct record *r, const struct policy_verdict *v)
{
	r->rule = v->rule;
	r->reason = v->reason;
}

bool record_observe(struct record *r, enum reason would)
{
	(void)r;
	(void)would;
	return false;
}

void record_describe(struct record *r, const struct record_words *words)
{
	(void)r;
	(void)words;
}

void record_note(struct flow *f, struct record *r)
{
	(void)f;
	(void)r;
}

int record_open(struct flow *f, struct record *r)
{
	r->profile = f->sandbox->profile;
	r->policy = snapshot_get(f->worker->policy);
	return 0;
}

void record_answered(struct flow *f, struct record *r)
{
	(void)f;
	(void)r;
}

int record_close(struct flow *f, struct record *r, const char *detail, const char *suggestion)
{
	(void)detail;
	(void)suggestion;
	flow_use_end(f, r);
	snapshot_put(r->policy);
	r->policy = NULL;
	r->rule = NULL;
	r->live = false;
	return 0;
}

void record_continue(struct flow *f, struct record *r)
{
	(void)f;
	(void)r;
}
