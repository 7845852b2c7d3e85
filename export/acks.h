/*
 * Acknowledgements of a Splunk HTTP Event Collector that are waited for: which events a number stands for. A receiver
 * says a number once for each request, and says "true" for it once, when its events are safe. Its answers are not trusted: a number
 * that was not asked for is none.
 */
#ifndef ECLUSA_EXPORT_ACKS_H
#define ECLUSA_EXPORT_ACKS_H

#include "common/buf.h"

#define ACKS_MAX 256 /* requests that wait at once */

struct ack {
	uint64_t id;
	uint64_t tag;      /* of the batch */
	size_t first, end; /* its lines [first, end) that were sent */
	uint64_t sent_ns;  /* monotonic */
	bool done;
};

/** In the order of sending. Zero-initialise. */
struct acks {
	struct ack waiting[ACKS_MAX];
	size_t count;
};

/** @return 0; -ENOSPC when ACKS_MAX wait. */
int acks_add(struct acks *a, const struct ack *ack);
/** Append the body of a question: {"acks":[1,2]}. */
void acks_ask(const struct acks *a, struct buf *to);
/** Mark what the answer, {"acks":{"1":true,"2":false}}, says is done. @return 0; -EBADMSG: no such answer. */
int acks_answer(struct acks *a, struct slice body);
/** Remove one that is done. @return false when there is none. */
bool acks_take(struct acks *a, struct ack *ret);

#endif
