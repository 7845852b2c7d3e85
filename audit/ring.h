/*
 * A worker's memory that survives the worker: a shared mapping of a file in the audit folder. It holds a
 * table of open decisions (a slot each) and a byte ring of finished lines. The decision is in its slot
 * before the first upstream byte; the final line enters the ring before the slot is cleared; the
 * recorder moves its cursor only after write(). So the death of either loses nothing; a line may come twice
 * with the same metadata.uid. One producer, one consumer.
 */
#ifndef ECLUSA_AUDIT_RING_H
#define ECLUSA_AUDIT_RING_H

#include "common/failure.h"
#include "common/slice.h"

#define AUDIT_RING_BYTES ((size_t)4 << 20)
#define AUDIT_RING_SLOTS 1024

struct audit_ring;

/** An entry: line bytes and where metadata ends (see event.h). */
struct audit_entry {
	struct slice line;
	size_t metadata_end;
};

/**
 * Create the file in an audit folder, open/<id>.ring, its space reserved, locked (flock) by this open file description for as long as any
 * duplicate or mapping of it lives. @id: the segment's id, with several workers <segment id>.<n>. @return descriptor or negative errno.
 */
int audit_ring_create(int folder_fd, const char *id, struct failure *why);
/** Map an existing ring file. @return NULL when it is not one. The mapping outlives @fd. */
struct audit_ring *audit_ring_map(int fd);
void audit_ring_free(struct audit_ring *ring);
/** eventfd-free wake-up: true if the consumer sleeps and must be told (by any byte on its channel). */
bool audit_ring_wants_wake(struct audit_ring *ring);
void audit_ring_will_sleep(struct audit_ring *ring);

/** Producer: put a decision into a free slot. @return slot index, or -ENOSPC: then deny.audit-full. */
int audit_ring_open(struct audit_ring *ring, struct audit_entry entry);
/** Producer: enter a finished line and clear the slot (slot -1: none was open). -ENOSPC when the ring is full. */
int audit_ring_finish(struct audit_ring *ring, int slot, struct audit_entry entry);
/** Producer: whether a finished line of the largest size would fit; asked before a decision allows. */
bool audit_ring_has_room(struct audit_ring *ring);

/** Consumer: the oldest line, copied out to @storage. @return 1, 0 when empty, -EBADMSG when torn. */
int audit_ring_peek(struct audit_ring *ring, char *storage, size_t capacity, struct audit_entry *ret);
void audit_ring_advance(struct audit_ring *ring);
/** Consumer, once the producer is dead: the next open decision, removed from its slot. @return 1 or 0. */
int audit_ring_take_open(struct audit_ring *ring, char *storage, size_t capacity, struct audit_entry *ret);

#endif
