/*
 * See ring.h. The memory is shared with a process that parses hostile bytes: the consumer takes every number in it for a
 * peer's word, copies first and checks the copy.
 */
#include "audit/ring.h"

#include "common/cleanup.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define RING_MAGIC   UINT64_C(0x32676e6972617565) /* "euaring2" */
#define RING_MASK    (AUDIT_RING_BYTES - 1)
#define SLOTS_SPARE  1 /* kept free, so that a finished event finds a slot when the ring is full */
#define RECORD_ALIGN ((size_t)8)

static_assert((AUDIT_RING_BYTES & RING_MASK) == 0, "positions wrap by a mask");

enum slot_state { SLOT_FREE, SLOT_OPEN, SLOT_FINISHED };

/** A page, so that what is open keeps no other memory warm. */
struct ring_slot {
	uint32_t len;
	uint32_t unused;
	char packed[AUDIT_SLOT_BYTES_MAX];
};

static_assert(sizeof(struct ring_slot) == 4096, "a slot is a page");

/** In front of each event in the ring. */
struct ring_record {
	uint32_t len;
	uint32_t unused;
};

/** The file. What producer and consumer write lies on cache lines of its own. Positions only grow. */
struct ring_file {
	uint64_t magic;
	_Alignas(64) _Atomic uint64_t head; /* producer */
	_Atomic uint64_t lost;
	_Atomic uint32_t spilled;           /* finished events that wait in slots */
	_Atomic uint64_t awaited;           /* events before it have to be on the disk */
	_Alignas(64) _Atomic uint64_t tail; /* consumer */
	_Atomic uint32_t sleeping;
	_Atomic uint32_t stalled;
	_Atomic uint64_t durable; /* events before it are on the disk */
	_Alignas(64) _Atomic uint8_t states[AUDIT_RING_SLOTS_MAX];
	_Alignas(4096) char bytes[AUDIT_RING_BYTES];
	struct ring_slot slots[]; /* as many as the file has room for */
};

struct audit_ring {
	struct ring_file *file;
	size_t file_bytes;
	int slots;
	uint64_t peeked_next; /* consumer: the tail after the peeked event */
	int peeked_slot;      /* or the slot that it was in; -1 */
	int free_count; /* producer: of the free slots below; the last one that was freed is used first */
	uint16_t free[AUDIT_RING_SLOTS_MAX];
};

int audit_ring_create(int folder_fd, const char *id, unsigned slots, struct failure *why)
{
	off_t file_bytes = (off_t)(sizeof(struct ring_file) + slots * sizeof(struct ring_slot));
	assert(slots >= AUDIT_RING_SLOTS_MIN && slots <= AUDIT_RING_SLOTS_MAX);
	char name[256], temporary[sizeof(name) + 4];
	int len = snprintf(name, sizeof(name), "open/%s.ring", id);
	if (len < 0 || (size_t)len >= sizeof(name) || strchr(id, '/') != NULL)
		return failure_set(why, -EINVAL, "audit: bad ring id");
	(void)snprintf(temporary, sizeof(temporary), "%s.new", name);
	if (mkdirat(folder_fd, "open", 0700) < 0 && errno != EEXIST)
		return failure_errno(why, -errno, "audit folder: can't create open/");
	auto_fd fd = openat(
		folder_fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return failure_errno(why, -errno, "audit folder: can't create %s", temporary);
	int r = 0;
	uint64_t magic = RING_MAGIC;
	/* Reserved, since a full disk must not kill the worker that writes to the mapping. */
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || fallocate(fd, 0, 0, file_bytes) < 0 ||
		pwrite(fd, &magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
		renameat(folder_fd, temporary, folder_fd, name) < 0)
		r = failure_errno(why, -errno, "audit folder: can't make %s", name);
	if (r < 0) {
		(void)unlinkat(folder_fd, temporary, 0); /* as well as can be */
		return r;
	}
	return fd_take(&fd);
}

/** How many slots a file of this size has; 0: it is no ring. */
static int ring_slots(off_t bytes)
{
	off_t rest = bytes - (off_t)sizeof(struct ring_file);
	off_t slots = rest / (off_t)sizeof(struct ring_slot);
	bool is_one = rest > 0 && rest % (off_t)sizeof(struct ring_slot) == 0 &&
		slots >= AUDIT_RING_SLOTS_MIN && slots <= AUDIT_RING_SLOTS_MAX;
	return is_one ? (int)slots : 0;
}

struct audit_ring *audit_ring_map(int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || ring_slots(st.st_size) == 0)
		return NULL;
	auto_free struct audit_ring *ring = calloc(1, sizeof(*ring));
	if (ring == NULL)
		return NULL;
	ring->file_bytes = (size_t)st.st_size;
	ring->slots = ring_slots(st.st_size);
	ring->peeked_slot = -1;
	void *file = mmap(NULL, ring->file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return NULL;
	ring->file = file;
	if (ring->file->magic != RING_MAGIC) {
		(void)munmap(file, ring->file_bytes); /* can't fail on what was mapped */
		return NULL;
	}
	return ptr_take(ring);
}

void audit_ring_free(struct audit_ring *ring)
{
	if (ring == NULL)
		return;
	(void)munmap(ring->file, ring->file_bytes); /* can't fail on what was mapped */
	free(ring);
}

bool audit_ring_wants_wake(struct audit_ring *ring)
{
	/* Pairs with will_sleep(): either this sees the flag or the consumer's last peek sees the line. */
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&ring->file->sleeping, memory_order_relaxed) != 0 &&
		atomic_exchange(&ring->file->sleeping, 0) != 0;
}

void audit_ring_will_sleep(struct audit_ring *ring)
{
	atomic_store(&ring->file->sleeping, 1);
	atomic_thread_fence(memory_order_seq_cst);
}

/** Find out what is free: at first, and when the consumer may have cleared what had waited in slots. */
static void ring_find_free(struct audit_ring *ring)
{
	ring->free_count = 0;
	for (int i = ring->slots - 1; i >= 0; i--) {
		if (atomic_load_explicit(&ring->file->states[i], memory_order_acquire) == SLOT_FREE)
			ring->free[ring->free_count++] = (uint16_t)i;
	}
}

/** How many slots are free, the spare one included. */
static int ring_free_slots(struct audit_ring *ring)
{
	if (ring->free_count <= SLOTS_SPARE)
		ring_find_free(ring);
	return ring->free_count;
}

static void ring_fill_slot(
	struct audit_ring *ring, int slot, struct slice packed, enum slot_state state)
{
	struct ring_slot *to = &ring->file->slots[slot];
	to->len = (uint32_t)packed.len;
	memcpy(to->packed, packed.ptr, packed.len);
	/* Whoever sees the state sees the event. */
	atomic_store_explicit(&ring->file->states[slot], (uint8_t)state, memory_order_release);
}

static size_t ring_room(const struct audit_ring *ring)
{
	uint64_t head = atomic_load_explicit(&ring->file->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&ring->file->tail, memory_order_acquire);
	uint64_t used = head - tail;
	return used > AUDIT_RING_BYTES ? 0 : (size_t)(AUDIT_RING_BYTES - used);
}

static bool length_valid(size_t len, size_t most)
{
	return len > 0 && len <= most;
}

int audit_ring_open(struct audit_ring *ring, struct slice packed)
{
	assert(length_valid(packed.len, AUDIT_SLOT_BYTES_MAX));
	if (ring_free_slots(ring) <= SLOTS_SPARE)
		return -ENOSPC;
	int slot = ring->free[--ring->free_count];
	ring_fill_slot(ring, slot, packed, SLOT_OPEN);
	return slot;
}

/** Copy into the ring at a position, around its end. */
static void ring_copy_in(struct ring_file *file, uint64_t at, const void *from, size_t len)
{
	size_t start = (size_t)(at & RING_MASK);
	size_t first = len < AUDIT_RING_BYTES - start ? len : AUDIT_RING_BYTES - start;
	memcpy(file->bytes + start, from, first);
	memcpy(file->bytes, (const char *)from + first, len - first);
}

static void ring_copy_out(const struct ring_file *file, uint64_t at, void *to, size_t len)
{
	size_t start = (size_t)(at & RING_MASK);
	size_t first = len < AUDIT_RING_BYTES - start ? len : AUDIT_RING_BYTES - start;
	memcpy(to, file->bytes + start, first);
	memcpy((char *)to + first, file->bytes, len - first);
}

static size_t record_size(size_t len)
{
	return (sizeof(struct ring_record) + len + RECORD_ALIGN - 1) & ~(RECORD_ALIGN - 1);
}

static int ring_append(struct audit_ring *ring, struct slice packed)
{
	if (ring_room(ring) < record_size(packed.len))
		return -ENOSPC;
	uint64_t head = atomic_load_explicit(&ring->file->head, memory_order_relaxed);
	struct ring_record record = {.len = (uint32_t)packed.len};
	ring_copy_in(ring->file, head, &record, sizeof(record));
	ring_copy_in(ring->file, head + sizeof(record), packed.ptr, packed.len);
	atomic_store_explicit(
		&ring->file->head, head + record_size(packed.len), memory_order_release);
	return 0;
}

/** Beside the full ring: open() keeps a slot for it. */
static int ring_spill(struct audit_ring *ring, struct slice packed)
{
	if (packed.len > AUDIT_SLOT_BYTES_MAX)
		return -EMSGSIZE;
	if (ring_free_slots(ring) == 0)
		return -ENOSPC; /* a corrupt file */
	/* Counted first: death in between costs a search, the other way round an event. */
	atomic_fetch_add_explicit(&ring->file->spilled, 1, memory_order_relaxed);
	ring_fill_slot(ring, ring->free[--ring->free_count], packed, SLOT_FINISHED);
	return 0;
}

int audit_ring_finish(struct audit_ring *ring, int slot, struct slice packed)
{
	assert(length_valid(packed.len, AUDIT_PACKED_BYTES_MAX) && slot < ring->slots);
	int r = ring_append(ring, packed);
	if (slot < 0) {
		if (r < 0)
			atomic_fetch_add_explicit(&ring->file->lost, 1, memory_order_relaxed);
		return r;
	}
	r = r < 0 ? ring_spill(ring, packed) : 0;
	if (r < 0)
		return r;
	audit_ring_clear(ring, slot);
	if (ring->free_count < ring->slots)
		ring->free[ring->free_count++] = (uint16_t)slot;
	return 0;
}

bool audit_ring_has_room(struct audit_ring *ring, unsigned held)
{
	if (atomic_load_explicit(&ring->file->stalled, memory_order_relaxed) != 0 ||
		ring_room(ring) < AUDIT_RING_RESERVE_BYTES)
		return false;
	int left = ring_free_slots(ring) - SLOTS_SPARE;
	return left > 0 && held < AUDIT_RING_SHARE * (unsigned)left;
}

uint64_t audit_ring_await(struct audit_ring *ring)
{
	uint64_t head = atomic_load_explicit(&ring->file->head, memory_order_relaxed);
	atomic_store(&ring->file->awaited, head); /* seen by who was not told to wake up */
	return head;
}

/** Positions only grow, and are far less than half of what they may be apart. */
static bool reaches(uint64_t at, uint64_t position)
{
	return at - position <= INT64_MAX;
}

bool audit_ring_durable(const struct audit_ring *ring, uint64_t ticket)
{
	return reaches(atomic_load_explicit(&ring->file->durable, memory_order_acquire), ticket);
}

bool audit_ring_is_awaited(const struct audit_ring *ring)
{
	uint64_t durable = atomic_load_explicit(&ring->file->durable, memory_order_relaxed);
	return !reaches(durable, atomic_load(&ring->file->awaited));
}

uint64_t audit_ring_moved(const struct audit_ring *ring)
{
	return atomic_load_explicit(&ring->file->tail, memory_order_relaxed);
}

void audit_ring_set_durable(struct audit_ring *ring, uint64_t moved)
{
	atomic_store_explicit(&ring->file->durable, moved, memory_order_release);
}

/** What is in a slot; false when the number in it can't be. */
static bool slot_copy(struct audit_ring *ring, int slot, char *storage, struct slice *ret)
{
	const struct ring_slot *from = &ring->file->slots[slot];
	size_t len = *(const volatile uint32_t *)&from->len;
	if (!length_valid(len, AUDIT_SLOT_BYTES_MAX))
		return false;
	memcpy(storage, from->packed, len);
	*ret = (struct slice){storage, len};
	return true;
}

/** The first slot from @from up in this state, or -1. */
static int ring_slot_in(struct audit_ring *ring, int from, enum slot_state state)
{
	for (int i = from; i < ring->slots; i++) {
		if (atomic_load_explicit(&ring->file->states[i], memory_order_acquire) ==
			(uint8_t)state)
			return i;
	}
	return -1;
}

/** A finished event that found the ring full. */
static int ring_peek_spilled(struct audit_ring *ring, char *storage, struct slice *ret)
{
	if (atomic_load_explicit(&ring->file->spilled, memory_order_acquire) == 0)
		return 0;
	int slot = ring_slot_in(ring, 0, SLOT_FINISHED);
	if (slot < 0)
		return 0;
	ring->peeked_slot = slot;
	return slot_copy(ring, slot, storage, ret) ? 1 : -EBADMSG;
}

/** The event at a position below the head; *ret_next: where the one behind it is. @return 1 or -EBADMSG. */
static int ring_read(const struct audit_ring *ring, uint64_t tail, char *storage, struct slice *ret,
	uint64_t *ret_next)
{
	struct ring_record record;
	uint64_t head = atomic_load_explicit(&ring->file->head, memory_order_acquire);
	if (head - tail > AUDIT_RING_BYTES || head - tail < sizeof(record))
		return -EBADMSG;
	ring_copy_out(ring->file, tail, &record, sizeof(record));
	size_t len = record.len;
	if (!length_valid(len, AUDIT_PACKED_BYTES_MAX) || record_size(len) > head - tail)
		return -EBADMSG;
	ring_copy_out(ring->file, tail + sizeof(record), storage, len);
	*ret_next = tail + record_size(len);
	*ret = (struct slice){storage, len};
	return 1;
}

int audit_ring_peek(struct audit_ring *ring, char *storage, struct slice *ret)
{
	uint64_t tail = atomic_load_explicit(&ring->file->tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&ring->file->head, memory_order_acquire);
	ring->peeked_slot = -1;
	if (head == tail)
		return ring_peek_spilled(ring, storage, ret);
	ring->peeked_next = head; /* left behind as a whole if it is no event */
	return ring_read(ring, tail, storage, ret, &ring->peeked_next);
}

int audit_ring_peek_more(struct audit_ring *ring, char *storage, struct slice *ret)
{
	uint64_t tail = ring->peeked_next;
	uint64_t head = atomic_load_explicit(&ring->file->head, memory_order_acquire);
	bool more = ring->peeked_slot < 0 && head != tail &&
		ring_read(ring, tail, storage, ret, &ring->peeked_next) == 1;
	return more ? 1 : 0; /* what is no event is found by the next peek */
}

void audit_ring_advance(struct audit_ring *ring)
{
	if (ring->peeked_slot < 0) {
		atomic_store_explicit(&ring->file->tail, ring->peeked_next, memory_order_release);
		return;
	}
	audit_ring_clear(ring, ring->peeked_slot);
	atomic_fetch_sub_explicit(&ring->file->spilled, 1, memory_order_relaxed);
	ring->peeked_slot = -1;
}

int audit_ring_peek_open(struct audit_ring *ring, int from, char *storage, struct slice *ret)
{
	for (int slot = ring_slot_in(ring, from, SLOT_OPEN); slot >= 0;
		slot = ring_slot_in(ring, slot + 1, SLOT_OPEN)) {
		if (slot_copy(ring, slot, storage, ret))
			return slot;
		audit_ring_clear(ring, slot);
		atomic_fetch_add_explicit(&ring->file->lost, 1, memory_order_relaxed);
	}
	return -1;
}

void audit_ring_clear(struct audit_ring *ring, int slot)
{
	atomic_store_explicit(&ring->file->states[slot], SLOT_FREE, memory_order_release);
}

int audit_ring_take_open(struct audit_ring *ring, char *storage, struct slice *ret)
{
	int slot = audit_ring_peek_open(ring, 0, storage, ret);
	if (slot >= 0)
		audit_ring_clear(ring, slot);
	return slot >= 0;
}

void audit_ring_set_stalled(struct audit_ring *ring, bool stalled)
{
	atomic_store_explicit(&ring->file->stalled, stalled, memory_order_relaxed);
}

bool audit_ring_stalled(const struct audit_ring *ring)
{
	return atomic_load_explicit(&ring->file->stalled, memory_order_relaxed) != 0;
}

uint64_t audit_ring_lost(struct audit_ring *ring)
{
	return atomic_load_explicit(&ring->file->lost, memory_order_relaxed);
}

void audit_ring_clear_lost(struct audit_ring *ring, uint64_t count)
{
	atomic_fetch_sub_explicit(&ring->file->lost, count, memory_order_relaxed);
}

int audit_ring_look(int folder_fd, const char *id, struct audit_ring_gauge *ret)
{
	char head[offsetof(struct ring_file, bytes)];
	char name[256];
	struct stat st;
	int len = snprintf(name, sizeof(name), "open/%s.ring", id);
	if (len < 0 || (size_t)len >= sizeof(name))
		return -ENAMETOOLONG;
	auto_fd fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	ssize_t got = pread(fd, head, sizeof(head), 0);
	uint64_t magic, from, to;
	uint32_t stalled;
	int slots = ring_slots(st.st_size);
	if (got != (ssize_t)sizeof(head) || slots == 0)
		return got < 0 ? -errno : -EBADMSG;
	memcpy(&magic, head, sizeof(magic));
	memcpy(&to, head + offsetof(struct ring_file, head), sizeof(to));
	memcpy(&from, head + offsetof(struct ring_file, tail), sizeof(from));
	memcpy(&stalled, head + offsetof(struct ring_file, stalled), sizeof(stalled));
	if (magic != RING_MAGIC)
		return -EBADMSG;
	*ret = (struct audit_ring_gauge){.stalled = stalled != 0, .slots = (unsigned)slots};
	memcpy(&ret->lost, head + offsetof(struct ring_file, lost), sizeof(ret->lost));
	/* Two moments, or a lie of who writes it: never more than there is. */
	ret->waiting_bytes = to - from <= AUDIT_RING_BYTES ? to - from : AUDIT_RING_BYTES;
	for (int i = 0; i < slots; i++)
		ret->open += head[offsetof(struct ring_file, states) + (size_t)i] == SLOT_OPEN;
	return 0;
}
