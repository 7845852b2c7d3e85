/*
 * What a worker counts for whoever watches it: plain counters in memory that it shares with the process which answers questions
 * about them. One process writes, with no lock and no system call; readers see each number whole, and not all of one moment.
 * A worker is one that parses hostile bytes: what is in the memory is only ever shown as numbers.
 */
#ifndef ECLUSA_PROXY_METRICS_H
#define ECLUSA_PROXY_METRICS_H

#include "common/buf.h"
#include "common/reason.h"

#include <stdatomic.h>

#define METRICS_BOUNDS 16

enum metrics_count {
	METRICS_BYTES_OUT, /* left the clients */
	METRICS_BYTES_IN,
	METRICS_WOULD_DENY, /* decisions that only observe mode let pass */
	METRICS_ACCEPTED,   /* connections of clients */
	METRICS_ENDED,      /* of them */
	METRICS_DIALLED,    /* connections to hosts that stand */
	METRICS_REUSED,     /* requests that found one open */
	METRICS_POOLED,     /* connections to hosts that wait for a request: goes up and down */
	METRICS_CLIENT_TLS, /* handshakes that were completed, */
	METRICS_CLIENT_TLS_FAILED,
	METRICS_UPSTREAM_TLS, /* likewise towards hosts */
	METRICS_UPSTREAM_TLS_FAILED,
	METRICS_COUNTS
};

enum metrics_time {
	METRICS_FIRST_BYTE, /* from the decision to the first of the answer */
	METRICS_WHOLE,      /* from the request's head to the end of its record */
	METRICS_TIMES
};

struct metrics_histogram {
	_Atomic uint64_t counts[METRICS_BOUNDS + 1];
	_Atomic uint64_t sum_us;
};

struct metrics {
	_Atomic uint64_t decisions[REASON_COUNT];
	_Atomic uint64_t counts[METRICS_COUNTS];
	struct metrics_histogram times[METRICS_TIMES];
};

/** Memory of zeros. @return descriptor or negative errno. */
int metrics_create(void);
/** Map it, or with -1 memory that nobody else sees. The mapping outlives @fd. @return NULL: no memory, or not such a file. */
struct metrics *metrics_open(int fd);
void metrics_close(struct metrics *m);
/** A worker begins: connections of the one before it, if there was one, have ended, those to hosts too. */
void metrics_begin(struct metrics *m);

static inline void metrics_add_to(_Atomic uint64_t *to, uint64_t count)
{
	/* The only writer: nothing comes in between. */
	atomic_store_explicit(
		to, atomic_load_explicit(to, memory_order_relaxed) + count, memory_order_relaxed);
}

static inline void metrics_add(struct metrics *m, enum metrics_count what, uint64_t count)
{
	metrics_add_to(&m->counts[what], count);
}

/** Of what goes up and down. */
static inline void metrics_set(struct metrics *m, enum metrics_count what, uint64_t value)
{
	atomic_store_explicit(&m->counts[what], value, memory_order_relaxed);
}

static inline void metrics_decided(struct metrics *m, enum reason reason)
{
	metrics_add_to(&m->decisions[reason], 1);
}

void metrics_took(struct metrics *m, enum metrics_time what, uint64_t duration_ns);

/** Add what one worker has counted to memory that is nobody else's. */
void metrics_sum(struct metrics *to, const struct metrics *from);
/** All of it in Prometheus' text format; errors are sticky in the buf. */
void metrics_write(const struct metrics *m, struct buf *to);

#endif
