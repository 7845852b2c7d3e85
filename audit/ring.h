/*
 * A worker's memory that survives the worker: a shared mapping of a file in the audit folder. It holds a
 * table of open decisions (a slot each) and a byte ring of finished events, both packed (packed.h). The decision is in its slot
 * before the first upstream byte; the finished event enters the ring before the slot is cleared; the
 * recorder moves its cursor only after write(). So the death of either loses nothing; an event may come twice
 * with the same metadata.uid. One producer, one consumer.
 */
#ifndef ECLUSA_AUDIT_RING_H
#define ECLUSA_AUDIT_RING_H

#include "audit/packed.h"
#include "common/failure.h"
#include "common/slice.h"

#define AUDIT_RING_BYTES ((size_t)4 << 20)
#define AUDIT_RING_RESERVE_BYTES                                                                   \
	(AUDIT_RING_BYTES / 8) /* kept for events that deny when the room runs out */

#define AUDIT_RING_SLOTS       1024  /* open decisions of a run */
#define AUDIT_RING_SLOTS_ALONE 8192  /* of a worker of a proxy alone, unless told otherwise */
#define AUDIT_RING_SLOTS_MIN   64    /* that can be asked for */
#define AUDIT_RING_SLOTS_MAX   32768 /* the same */
#define AUDIT_SLOT_BYTES_MAX   ((size_t)4088) /* of a decision in a slot */

/**
 * Whoever holds so many slots for each that is free gets no more: one sandbox may take 8 of 9, two together 16 of 17, and there is
 * always one for the next.
 */
#define AUDIT_RING_SHARE 8

struct audit_ring;

/**
 * Create the file with @slots in an audit folder, open/<id>.ring, its space reserved, locked (flock) by this open file description for as long as any
 * duplicate or mapping of it lives. @id: the segment's id, with several workers <segment id>.<n>. @return descriptor or negative errno.
 */
int audit_ring_create(int folder_fd, const char *id, unsigned slots, struct failure *why);
/** Map an existing ring file. @return NULL when it is not one. The mapping outlives @fd. */
struct audit_ring *audit_ring_map(int fd);
void audit_ring_free(struct audit_ring *ring);

/** Producer, after finish(): true if the consumer sleeps and must be told (by any byte on its channel). True once a sleep. */
bool audit_ring_wants_wake(struct audit_ring *ring);
/** Consumer: announce a sleep; then peek once more before sleeping, since a line may have come just before. */
void audit_ring_will_sleep(struct audit_ring *ring);

/** Producer: put a decision of at most AUDIT_SLOT_BYTES_MAX into a free slot. @return slot index, or -ENOSPC: then deny.audit-full. */
int audit_ring_open(struct audit_ring *ring, struct slice packed);
/**
 * Producer: enter a finished event and clear the slot (slot -1: none was open). With a slot it always finds room: a full ring's event waits
 * in a slot of its own, when it has at most AUDIT_SLOT_BYTES_MAX; -EMSGSIZE: it has more. Without a slot -ENOSPC when the ring is full; the loss is counted and recorded (audit.lost) once there is room.
 */
int audit_ring_finish(struct audit_ring *ring, int slot, struct slice packed);
/**
 * Producer: ask for all lines that were entered so far to be on the disk. @return what audit_ring_durable() is asked with. The consumer must
 * be woken, if it sleeps.
 */
uint64_t audit_ring_await(struct audit_ring *ring);
/** Producer: whether the disk has them. */
bool audit_ring_durable(const struct audit_ring *ring, uint64_t ticket);
/** Consumer: whether the producer waits for that; up to where it has moved what is in the ring; and that all up to there is on the disk. */
bool audit_ring_is_awaited(const struct audit_ring *ring);
uint64_t audit_ring_moved(const struct audit_ring *ring);
void audit_ring_set_durable(struct audit_ring *ring, uint64_t moved);
/**
 * Producer: whether one more decision may allow: slots and room are left and the recorder can write. Else deny.audit-full. @held: slots
 * that its sandbox has already.
 */
bool audit_ring_has_room(struct audit_ring *ring, unsigned held);

/**
 * Consumer: the oldest event, copied out to @storage of AUDIT_PACKED_BYTES_MAX. @return 1, 0 when empty, -EBADMSG when what is there is
 * none; audit_ring_advance() then leaves it behind.
 */
int audit_ring_peek(struct audit_ring *ring, char *storage, struct slice *ret);
void audit_ring_advance(struct audit_ring *ring);
/** After a peek that gave an event: the one behind it, which the next advance() then leaves behind as well. @return 1, or 0: none that can be had so. */
int audit_ring_peek_more(struct audit_ring *ring, char *storage, struct slice *ret);
/** Consumer, once the producer is dead: the next open decision, removed from its slot. @return 1 or 0. */
int audit_ring_take_open(struct audit_ring *ring, char *storage, struct slice *ret);
/** The same in two steps, so that it is removed only after it was written: the slot from @from up, or -1. */
int audit_ring_peek_open(struct audit_ring *ring, int from, char *storage, struct slice *ret);
void audit_ring_clear(struct audit_ring *ring, int slot);
/** Consumer: lines can't be written (anymore, again); has_room() then says no. */
void audit_ring_set_stalled(struct audit_ring *ring, bool stalled);
/** Producer: whether the consumer said so last; then it has raised the alarm. */
bool audit_ring_stalled(const struct audit_ring *ring);
/** What may be known of a ring from outside, without a part in it. */
struct audit_ring_gauge {
	uint64_t
		waiting_bytes; /* finished events that the recorder has not written yet; of AUDIT_RING_BYTES */
	unsigned open, slots; /* decisions whose end is not known yet, and room for them */
	uint64_t lost;
	bool stalled;
};
/** Look at open/<id>.ring, which is not held by this. @return 0, -ENOENT, -EBADMSG: no ring; another negative errno. */
int audit_ring_look(int folder_fd, const char *id, struct audit_ring_gauge *ret);

/** Consumer: how many lines were lost; and that so many of them are on record now. */
uint64_t audit_ring_lost(struct audit_ring *ring);
void audit_ring_clear_lost(struct audit_ring *ring, uint64_t count);

#endif
