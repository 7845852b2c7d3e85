/*
 * Connections to hosts between two requests. One belongs to the flow that had it, which takes it again without being asked, until
 * another flow of the same sandbox needs it for the same host, port and scheme; it outlives its flow. No other sandbox ever sees it.
 * Who takes one was allowed by policy just now, and the guard has judged the address for that rule.
 */
#ifndef ECLUSA_PROXY_POOL_H
#define ECLUSA_PROXY_POOL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct address;
struct flow;
struct pooled;
struct sandbox;
struct worker;

/** Of a worker: all that wait, the one that has waited longest first. */
struct pool {
	struct pooled *oldest;
	struct pooled *newest;
	uint32_t count;
	uv_timer_t timer;
};

void pool_init(struct pool *p, uv_loop_t *loop);
/** f->upstream has nothing to do: it waits, and still is f's. It is dropped where that can't be, or when it is over. */
void pool_park(struct flow *f);
/**
 * Make a waiting connection f->upstream, with f->destination and f->tls_info of it: f's own, or one of another flow that the guard
 * lets f's rule use. @return false: there is none.
 */
bool pool_take(struct flow *f);
/** f goes on without its waiting connection, which others may use. What does not wait stays f's. */
void pool_leave(struct flow *f);
/** Where one for f's host and port is connected to, whatever it speaks. @return NULL: there is none. */
const struct address *pool_address(const struct flow *f);
/** Drop those that no flow has, when the policy changes: a flow's own ends with it, or is judged with its next request. */
void pool_drop_unowned(struct sandbox *s);
/** Drop all of a sandbox. */
void pool_clear(struct sandbox *s);

#endif
