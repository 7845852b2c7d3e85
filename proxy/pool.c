/* See pool.h. */
#include "proxy/flow_state.h"

#include "common/cleanup.h"

#include <assert.h>

/** One that waits. In two lists: its sandbox's, the last one first, and the worker's, by age. */
struct pooled {
	struct pooled *next, *before; /* in the sandbox's */
	uint16_t port;
	enum policy_scheme scheme;
	struct host host;
	struct worker *worker;
	struct sandbox *sandbox;
	struct pooled *older, *newer; /* in the worker's */
	struct flow *owner;           /* NULL: its flow has ended, or gone elsewhere */
	struct stream *stream;
	struct tls_info *tls_info; /* of stream; NULL: without TLS */
	struct address destination;
	bool served; /* a request */
	uint64_t since_ms;
};

static void unlink_entry(struct pooled *e)
{
	struct pool *p = &e->worker->pool;
	struct sandbox *s = e->sandbox;
	*(e->before != NULL ? &e->before->next : &s->pooled) = e->next;
	*(e->next != NULL ? &e->next->before : &s->pooled_last) = e->before;
	*(e->older != NULL ? &e->older->newer : &p->oldest) = e->newer;
	*(e->newer != NULL ? &e->newer->older : &p->newest) = e->older;
	s->pooled_count--;
	metrics_set(e->worker->metrics, METRICS_POOLED, --p->count);
	if (e->owner != NULL)
		e->owner->parked = NULL;
}

/** The connection ends, and its flow has none. */
static void drop(struct pooled *e)
{
	unlink_entry(e);
	if (e->owner != NULL)
		e->owner->upstream = NULL;
	tls_info_put(e->tls_info);
	stream_free(e->stream);
	free(e);
}

static void on_ready(void *pooled)
{
	struct pooled *e = pooled;
	if (!stream_is_silent(e->stream)) { /* nothing was asked */
		drop(e);
		return;
	}
	stream_trim(e->stream);
	stream_watch(e->stream, true);
	if (e->stream->broken) /* it can't be watched */
		drop(e);
}

static void on_timer(uv_timer_t *timer)
{
	struct pool *p = timer->data;
	uint64_t now = uv_now(timer->loop);
	while (p->oldest != NULL) {
		uint64_t due = p->oldest->since_ms + p->oldest->worker->limits.pool_idle_ms;
		if (due > now) {
			(void)uv_timer_start(timer, on_timer, due - now, 0); /* can't fail */
			return;
		}
		drop(p->oldest);
	}
}

void pool_init(struct pool *p, uv_loop_t *loop)
{
	(void)uv_timer_init(loop, &p->timer); /* can't fail */
	p->timer.data = p;
}

static void link_entry(struct pooled *e)
{
	struct pool *p = &e->worker->pool;
	struct sandbox *s = e->sandbox;
	e->next = s->pooled;
	*(e->next != NULL ? &e->next->before : &s->pooled_last) = e;
	s->pooled = e;
	e->older = p->newest;
	*(e->older != NULL ? &e->older->newer : &p->oldest) = e;
	p->newest = e;
	s->pooled_count++;
	metrics_set(e->worker->metrics, METRICS_POOLED, ++p->count);
	if (!uv_is_active((uv_handle_t *)&p->timer))
		(void)uv_timer_start(&p->timer, on_timer, e->worker->limits.pool_idle_ms,
			0); /* has a callback, so can't fail */
}

void pool_park(struct flow *f)
{
	struct worker *w = f->worker;
	struct stream *u = f->upstream;
	if (u == NULL || f->parked != NULL)
		return;
	struct pooled *e = malloc(sizeof(*e));
	if (e == NULL) {
		flow_drop_upstream(f);
		return;
	}
	*e = (struct pooled){.worker = w,
		.sandbox = f->sandbox,
		.owner = f,
		.stream = u,
		.tls_info = tls_info_get(f->tls_info),
		.host = f->host,
		.port = f->port,
		.scheme = f->scheme,
		.destination = f->destination,
		.served = f->served,
		.since_ms = uv_now(&w->loop)};
	f->parked = e;
	link_entry(e);
	u->wake = on_ready;
	u->arg = e;
	if (f->sandbox->pooled_count > w->limits.pool_connections)
		drop(f->sandbox->pooled_last);
	else if (w->pool.count > POOL_CONNECTIONS_MAX)
		drop(w->pool.oldest);
	if (f->parked != e)
		return;
	stream_trim(u);
	stream_watch(u, true);
	if (u->broken) /* it can't be watched */
		drop(e);
}

/** It waits no longer. @return its connection. */
static struct stream *unpark(struct pooled *e)
{
	struct stream *s = e->stream;
	unlink_entry(e);
	tls_info_put(e->tls_info);
	free(e);
	return s;
}

static bool leads_to(const struct pooled *e, const struct flow *f)
{
	return e->port == f->port && host_equal(&e->host, &f->host);
}

/**
 * Hosts end connections that have waited, and a request that was on its way then may be sent again only if it is idempotent: one
 * that is not takes none that has waited for long.
 */
static bool is_fresh(const struct pooled *e, const struct flow *f)
{
	return !f->request_record.live || f->x.repeatable ||
		uv_now(&f->worker->loop) - e->since_ms < e->worker->limits.pool_fresh_ms;
}

/** Judged for the rule that asks now; for a new tunnel that was done with all addresses that it may have. */
static bool is_admitted(const struct pooled *e, struct flow *f)
{
	for (size_t i = 0; f->admitted != NULL && i < f->admitted_count; i++) {
		if (address_equal(&f->admitted[i].checked.address, &e->destination))
			return true;
	}
	struct guard_target target = {.address = &e->destination, .port = e->port};
	struct admitted_address admitted;
	enum reason reason;
	return guard_admit(&f->worker->guard, flow_rule_for(f, &e->destination), &target, &admitted,
		       &reason) == GUARD_ADMITTED;
}

/** It has no flow anymore, or one that has rested for a while: those that are at work keep theirs. */
static bool is_lent(const struct pooled *e)
{
	return e->owner == NULL ||
		uv_now(&e->worker->loop) - e->since_ms >= e->worker->limits.pool_lend_ms;
}

/** f's own was judged with the request; of the others one whose flow has ended, else the one that has waited longest. */
static struct pooled *find(struct flow *f)
{
	struct pooled *found = NULL;
	if (f->parked != NULL && leads_to(f->parked, f) && f->parked->scheme == f->scheme &&
		is_fresh(f->parked, f))
		return f->parked;
	for (struct pooled *e = f->sandbox->pooled; e != NULL; e = e->next) {
		if (e->scheme != f->scheme || !leads_to(e, f) || !is_fresh(e, f) || !is_lent(e))
			continue;
		found = e;
		if (e->owner == NULL)
			break;
	}
	return found != NULL && is_admitted(found, f) ? found : NULL;
}

static void use(struct flow *f, struct pooled *e)
{
	if (e->owner != f) {
		pool_leave(f);
		if (e->owner != NULL)
			e->owner->upstream = NULL;
		f->destination = e->destination;
		f->destination_rule = flow_rule_for(f, &e->destination);
		tls_info_put(f->tls_info);
		f->tls_info = tls_info_get(e->tls_info);
	}
	f->served = e->served;
	f->upstream = unpark(e);
	f->upstream->wake = flow_run;
	f->upstream->arg = f;
}

bool pool_take(struct flow *f)
{
	struct pooled *e;
	if (f->upstream != NULL && f->parked == NULL)
		return false; /* no one's but its own, and in use */
	while ((e = find(f)) != NULL) {
		if (stream_is_silent(e->stream)) {
			use(f, e);
			return true;
		}
		drop(e);
	}
	return false;
}

void pool_leave(struct flow *f)
{
	struct pooled *e = f->parked;
	if (e == NULL)
		return;
	e->owner = NULL;
	f->parked = NULL;
	f->upstream = NULL;
}

const struct address *pool_address(const struct flow *f)
{
	for (const struct pooled *e = f->sandbox->pooled; e != NULL; e = e->next) {
		if (leads_to(e, f))
			return &e->destination;
	}
	return NULL;
}

void pool_drop_unowned(struct sandbox *s)
{
	struct pooled *next;
	for (struct pooled *e = s->pooled; e != NULL; e = next) {
		next = e->next;
		if (e->owner == NULL)
			drop(e);
	}
}

void pool_clear(struct sandbox *s)
{
	while (s->pooled != NULL)
		drop(s->pooled);
}
