/*
 * From a ring into a segment: finished lines many at a time, open decisions of who died one by one. What is in a ring is a
 * worker's word. See segment.h.
 */
#include "audit/segment_state.h"

#include "common/cleanup.h"

#include <limits.h>

/** Whether lines must wait: the run has its size, or what is left of the disk is for its end. */
static int segment_full(const struct audit_segment *s)
{
	if (s->end >= AUDIT_SEGMENT_BYTES_MAX)
		return -EDQUOT;
	return s->starved && s->reserved - s->end < AUDIT_SEGMENT_RESERVE_END_BYTES ? -ENOSPC : 0;
}

static int segment_put_loss(struct audit_segment *s, uint64_t count)
{
	struct audit_event lost = {.class = AUDIT_LIFECYCLE,
		.activity = 99,
		.reason = REASON_AUDIT_LOST,
		.count = count};
	return segment_put_event(s, &lost);
}

/** An event's line goes into the batch, and the chain on behind it. @return 0, -EBADMSG, -ENOBUFS: the batch is as it was. */
static int batch_add(struct audit_segment *s, struct slice packed)
{
	struct audit_unpacked u;
	char hash[DIGEST_TEXT_BYTES];
	size_t before = buf_len(&s->batch);
	int r = audit_event_unpack(packed, &u);
	if (r == 0)
		r = segment_compose(s, &u.event, &s->batch, hash);
	if (r == 0 && buf_len(&s->batch) - before > AUDIT_LINE_BYTES_MAX)
		r = -ENOBUFS;
	if (r == 0)
		segment_advance(s, hash);
	else
		buf_drop_end(&s->batch, buf_len(&s->batch) - before);
	return r;
}

/**
 * From the oldest finished line on, at most @most and as many as one write() takes: all of them or none are written. *ret_error: what is wrong
 * with the oldest one, when it is no line. @return lines or negative errno.
 */
static int drain_batch(
	struct audit_segment *s, struct audit_ring *ring, char *storage, int most, int *ret_error)
{
	struct chain before = s->chain;
	struct slice packed;
	int lines = 0;
	buf_clear(&s->batch);
	int r = audit_ring_peek(ring, storage, &packed);
	*ret_error = r < 0 ? r : 0;
	while (r > 0) {
		*ret_error = batch_add(s, packed);
		if (*ret_error < 0)
			break;
		lines++;
		r = lines == most || buf_len(&s->batch) >= SEGMENT_BATCH_BYTES
			? 0
			: audit_ring_peek_more(ring, storage, &packed);
	}
	if (lines > 0 && *ret_error < 0) { /* once more without it: then it is the oldest */
		s->chain = before;
		return drain_batch(s, ring, storage, lines, ret_error);
	}
	r = lines == 0 ? 0 : segment_write(s, buf_slice(&s->batch));
	if (r < 0) {
		s->chain = before;
		return r;
	}
	if (lines > 0)
		audit_ring_advance(ring);
	return lines;
}

/** Finished lines, oldest first. @return lines or negative errno. */
static int drain_finished(struct audit_segment *s, struct audit_ring *ring, char *storage)
{
	int lines = 0;
	for (;;) {
		int error;
		int r = drain_batch(s, ring, storage, INT_MAX, &error);
		if (r < 0)
			return r;
		lines += r;
		if (error < 0) { /* what can't be a line is left behind, and said */
			r = segment_put_loss(s, 1);
			if (r < 0)
				return r;
			audit_ring_advance(ring);
			lines++;
		} else if (r == 0) {
			return lines;
		}
	}
}

/** An open decision, as its end. */
static int put_recovered(struct audit_segment *s, struct slice packed)
{
	struct audit_unpacked u;
	if (audit_event_unpack(packed, &u) < 0)
		return segment_put_loss(s, 1);
	u.event.recovered = true;
	return segment_put_event(s, &u.event);
}

static int drain_open(struct audit_segment *s, struct audit_ring *ring, char *storage)
{
	int lines = 0;
	struct slice packed;
	for (int slot = audit_ring_peek_open(ring, 0, storage, &packed); slot >= 0;
		slot = audit_ring_peek_open(ring, slot + 1, storage, &packed)) {
		int r = put_recovered(s, packed);
		if (r < 0)
			return r;
		audit_ring_clear(ring, slot);
		lines++;
	}
	return lines;
}

/** Under the lock. */
static int segment_drain(
	struct audit_segment *s, struct audit_ring *ring, bool orphaned, char *storage)
{
	int lines = drain_finished(s, ring, storage);
	if (lines >= 0 && orphaned) {
		int more = drain_open(s, ring, storage);
		lines = more < 0 ? more : lines + more;
	}
	uint64_t lost = lines < 0 ? 0 : audit_ring_lost(ring);
	if (lost > 0) {
		int r = segment_put_loss(s, lost);
		if (r < 0)
			return r;
		audit_ring_clear_lost(ring, lost);
	}
	return lines;
}

int audit_segment_drain(struct audit_segment *s, struct audit_ring *ring, bool orphaned)
{
	auto_free char *storage = malloc(AUDIT_PACKED_BYTES_MAX);
	if (storage == NULL)
		return -ENOMEM;
	int r = segment_begin(s);
	if (r < 0)
		return r;
	r = orphaned ? 0 : segment_full(s);
	if (r == 0)
		r = segment_drain(s, ring, orphaned, storage);
	segment_unlock(s);
	return r;
}
