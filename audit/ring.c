/*
 * See ring.h. The memory is shared with a process that parses hostile bytes: the consumer takes every number in it for a
 * peer's word, copies first and checks the copy.
 */
#include "audit/ring.h"

#include "audit/event.h"
#include "common/cleanup.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define RING_MAGIC   UINT64_C(0x31676e6972617565) /* "euaring1" */
#define RING_MASK    (AUDIT_RING_BYTES - 1)
#define SLOTS_SPARE  1 /* kept free, so that a finished line finds a slot when the ring is full */
#define RECORD_ALIGN ((size_t)8)

static_assert((AUDIT_RING_BYTES & RING_MASK) == 0, "positions wrap by a mask");

enum slot_state { SLOT_FREE, SLOT_OPEN, SLOT_FINISHED };

struct ring_slot {
	uint32_t len;
	uint32_t metadata_end;
	char line[AUDIT_LINE_BYTES_MAX];
};

/** In front of each line in the ring. */
struct ring_record {
	uint32_t len;
	uint32_t metadata_end;
};

/** The file. What producer and consumer write lies on cache lines of its own. Positions only grow. */
struct ring_file {
	uint64_t magic;
	_Alignas(64) _Atomic uint64_t head; /* producer */
	_Atomic uint64_t lost;
	_Atomic uint32_t spilled;           /* finished lines that wait in slots */
	_Atomic uint64_t awaited;           /* lines before it have to be on the disk */
	_Alignas(64) _Atomic uint64_t tail; /* consumer */
	_Atomic uint32_t sleeping;
	_Atomic uint32_t stalled;
	_Atomic uint64_t durable; /* lines before it are on the disk */
	/* together, and on the first page with the rest: searched without a page fault */
	_Alignas(64) _Atomic uint8_t states[AUDIT_RING_SLOTS];
	_Alignas(4096) struct ring_slot slots[AUDIT_RING_SLOTS];
	_Alignas(4096) char bytes[AUDIT_RING_BYTES];
};

static_assert(offsetof(struct ring_file, slots) == 4096, "all that is searched is one page");

struct audit_ring {
	struct ring_file *file;
	unsigned hint;        /* producer: where the search for a free slot begins */
	uint64_t peeked_next; /* consumer: the tail after the peeked line */
	int peeked_slot;      /* or the slot that it was in; -1 */
};

int audit_ring_create(int folder_fd, const char *id, struct failure *why)
{
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
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 ||
		fallocate(fd, 0, 0, (off_t)sizeof(struct ring_file)) < 0 ||
		pwrite(fd, &magic, sizeof(magic), 0) != (ssize_t)sizeof(magic) ||
		renameat(folder_fd, temporary, folder_fd, name) < 0)
		r = failure_errno(why, -errno, "audit folder: can't make %s", name);
	if (r < 0) {
		(void)unlinkat(folder_fd, temporary, 0); /* as well as can be */
		return r;
	}
	return fd_take(&fd);
}

struct audit_ring *audit_ring_map(int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || st.st_size != (off_t)sizeof(struct ring_file))
		return NULL;
	auto_free struct audit_ring *ring = malloc(sizeof(*ring));
	if (ring == NULL)
		return NULL;
	void *file =
		mmap(NULL, sizeof(struct ring_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return NULL;
	*ring = (struct audit_ring){.file = file, .peeked_slot = -1};
	if (ring->file->magic != RING_MAGIC) {
		(void)munmap(file, sizeof(struct ring_file)); /* can't fail on what was mapped */
		return NULL;
	}
	return ptr_take(ring);
}

void audit_ring_free(struct audit_ring *ring)
{
	if (ring == NULL)
		return;
	(void)munmap(ring->file, sizeof(struct ring_file)); /* can't fail on what was mapped */
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

/** The first free slot at or after the hint, with @spare others; -1. */
static int ring_free_slot(struct audit_ring *ring, unsigned spare)
{
	int found = -1;
	for (unsigned i = 0; i < AUDIT_RING_SLOTS; i++) {
		unsigned at = (ring->hint + i) % AUDIT_RING_SLOTS;
		if (atomic_load_explicit(&ring->file->states[at], memory_order_acquire) !=
			SLOT_FREE)
			continue;
		if (found < 0)
			found = (int)at;
		if (spare-- == 0)
			return found;
	}
	return -1;
}

static void ring_fill_slot(
	struct audit_ring *ring, int slot, struct audit_entry entry, enum slot_state state)
{
	struct ring_slot *to = &ring->file->slots[slot];
	to->len = (uint32_t)entry.line.len;
	to->metadata_end = (uint32_t)entry.metadata_end;
	memcpy(to->line, entry.line.ptr, entry.line.len);
	/* Whoever sees the state sees the line. */
	atomic_store_explicit(&ring->file->states[slot], (uint8_t)state, memory_order_release);
	ring->hint = ((unsigned)slot + 1) % AUDIT_RING_SLOTS;
}

static size_t ring_room(const struct audit_ring *ring)
{
	uint64_t head = atomic_load_explicit(&ring->file->head, memory_order_relaxed);
	uint64_t tail = atomic_load_explicit(&ring->file->tail, memory_order_acquire);
	uint64_t used = head - tail;
	return used > AUDIT_RING_BYTES ? 0 : (size_t)(AUDIT_RING_BYTES - used);
}

static bool entry_valid(struct audit_entry entry)
{
	return entry.line.len > 0 && entry.line.len <= AUDIT_LINE_BYTES_MAX &&
		entry.metadata_end < entry.line.len;
}

int audit_ring_open(struct audit_ring *ring, struct audit_entry entry)
{
	assert(entry_valid(entry));
	int slot = ring_free_slot(ring, SLOTS_SPARE);
	if (slot < 0)
		return -ENOSPC;
	ring_fill_slot(ring, slot, entry, SLOT_OPEN);
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

static size_t record_size(size_t line_len)
{
	return (sizeof(struct ring_record) + line_len + RECORD_ALIGN - 1) & ~(RECORD_ALIGN - 1);
}

static int ring_append(struct audit_ring *ring, struct audit_entry entry)
{
	if (ring_room(ring) < record_size(entry.line.len))
		return -ENOSPC;
	uint64_t head = atomic_load_explicit(&ring->file->head, memory_order_relaxed);
	struct ring_record record = {
		.len = (uint32_t)entry.line.len, .metadata_end = (uint32_t)entry.metadata_end};
	ring_copy_in(ring->file, head, &record, sizeof(record));
	ring_copy_in(ring->file, head + sizeof(record), entry.line.ptr, entry.line.len);
	atomic_store_explicit(
		&ring->file->head, head + record_size(entry.line.len), memory_order_release);
	return 0;
}

int audit_ring_finish(struct audit_ring *ring, int slot, struct audit_entry entry)
{
	assert(entry_valid(entry) && slot < AUDIT_RING_SLOTS);
	int r = ring_append(ring, entry);
	if (r < 0 && slot < 0) {
		atomic_fetch_add_explicit(&ring->file->lost, 1, memory_order_relaxed);
		return r;
	}
	if (r < 0) {
		int other = ring_free_slot(ring, 0);
		if (other < 0)
			return -ENOSPC; /* open() keeps one free, so this is a corrupt file */
		/* Counted first: death in between costs a search, the other way round a line. */
		atomic_fetch_add_explicit(&ring->file->spilled, 1, memory_order_relaxed);
		ring_fill_slot(ring, other, entry, SLOT_FINISHED);
	}
	if (slot >= 0)
		audit_ring_clear(ring, slot);
	return 0;
}

bool audit_ring_has_room(struct audit_ring *ring)
{
	return atomic_load_explicit(&ring->file->stalled, memory_order_relaxed) == 0 &&
		ring_room(ring) >= AUDIT_RING_RESERVE_BYTES &&
		ring_free_slot(ring, SLOTS_SPARE) >= 0;
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

void audit_ring_set_durable(struct audit_ring *ring)
{
	uint64_t tail = atomic_load_explicit(&ring->file->tail, memory_order_relaxed);
	atomic_store_explicit(&ring->file->durable, tail, memory_order_release);
}

/** A slot's line; false when the numbers in it can't be. */
static bool slot_copy(struct audit_ring *ring, int slot, char *storage, struct audit_entry *ret)
{
	const struct ring_slot *from = &ring->file->slots[slot];
	struct audit_entry entry = {.line = {storage, *(const volatile uint32_t *)&from->len},
		.metadata_end = *(const volatile uint32_t *)&from->metadata_end};
	if (!entry_valid(entry))
		return false;
	memcpy(storage, from->line, entry.line.len);
	*ret = entry;
	return true;
}

/** The first slot from @from up in this state, or -1. */
static int ring_slot_in(struct audit_ring *ring, int from, enum slot_state state)
{
	for (int i = from; i < AUDIT_RING_SLOTS; i++) {
		if (atomic_load_explicit(&ring->file->states[i], memory_order_acquire) ==
			(uint8_t)state)
			return i;
	}
	return -1;
}

/** A finished line that found the ring full. */
static int ring_peek_spilled(struct audit_ring *ring, char *storage, struct audit_entry *ret)
{
	if (atomic_load_explicit(&ring->file->spilled, memory_order_acquire) == 0)
		return 0;
	int slot = ring_slot_in(ring, 0, SLOT_FINISHED);
	if (slot < 0)
		return 0;
	ring->peeked_slot = slot;
	return slot_copy(ring, slot, storage, ret) ? 1 : -EBADMSG;
}

/** The line at a position below the head; *ret_next: where the one behind it is. @return 1 or -EBADMSG. */
static int ring_read(const struct audit_ring *ring, uint64_t tail, uint64_t head, char *storage,
	struct audit_entry *ret, uint64_t *ret_next)
{
	struct ring_record record;
	if (head - tail > AUDIT_RING_BYTES || head - tail < sizeof(record))
		return -EBADMSG;
	ring_copy_out(ring->file, tail, &record, sizeof(record));
	struct audit_entry entry = {
		.line = {storage, record.len}, .metadata_end = record.metadata_end};
	if (!entry_valid(entry) || record_size(record.len) > head - tail)
		return -EBADMSG;
	ring_copy_out(ring->file, tail + sizeof(record), storage, record.len);
	*ret_next = tail + record_size(record.len);
	*ret = entry;
	return 1;
}

int audit_ring_peek(
	struct audit_ring *ring, char *storage, size_t capacity, struct audit_entry *ret)
{
	assert(capacity >= AUDIT_LINE_BYTES_MAX);
	uint64_t tail = atomic_load_explicit(&ring->file->tail, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&ring->file->head, memory_order_acquire);
	ring->peeked_slot = -1;
	if (head == tail)
		return ring_peek_spilled(ring, storage, ret);
	ring->peeked_next = head; /* left behind as a whole if it is no line */
	return ring_read(ring, tail, head, storage, ret, &ring->peeked_next);
}

int audit_ring_peek_more(
	struct audit_ring *ring, char *storage, size_t capacity, struct audit_entry *ret)
{
	assert(capacity >= AUDIT_LINE_BYTES_MAX);
	uint64_t tail = ring->peeked_next;
	uint64_t head = atomic_load_explicit(&ring->file->head, memory_order_acquire);
	bool more = ring->peeked_slot < 0 && head != tail &&
		ring_read(ring, tail, head, storage, ret, &ring->peeked_next) == 1;
	return more ? 1 : 0; /* what is no line is found by the next peek */
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

int audit_ring_peek_open(struct audit_ring *ring, int from, char *storage, struct audit_entry *ret)
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

int audit_ring_take_open(
	struct audit_ring *ring, char *storage, size_t capacity, struct audit_entry *ret)
{
	assert(capacity >= AUDIT_LINE_BYTES_MAX);
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
	char head[offsetof(struct ring_file, slots)];
	char name[256];
	int len = snprintf(name, sizeof(name), "open/%s.ring", id);
	if (len < 0 || (size_t)len >= sizeof(name))
		return -ENAMETOOLONG;
	auto_fd fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	ssize_t got = pread(fd, head, sizeof(head), 0);
	uint64_t magic, from, to;
	uint32_t stalled;
	if (got != (ssize_t)sizeof(head))
		return got < 0 ? -errno : -EBADMSG;
	memcpy(&magic, head, sizeof(magic));
	memcpy(&to, head + offsetof(struct ring_file, head), sizeof(to));
	memcpy(&from, head + offsetof(struct ring_file, tail), sizeof(from));
	memcpy(&stalled, head + offsetof(struct ring_file, stalled), sizeof(stalled));
	if (magic != RING_MAGIC)
		return -EBADMSG;
	*ret = (struct audit_ring_gauge){.stalled = stalled != 0};
	memcpy(&ret->lost, head + offsetof(struct ring_file, lost), sizeof(ret->lost));
	/* Two moments, or a lie of who writes it: never more than there is. */
	ret->waiting_bytes = to - from <= AUDIT_RING_BYTES ? to - from : AUDIT_RING_BYTES;
	for (size_t i = 0; i < AUDIT_RING_SLOTS; i++)
		ret->open += head[offsetof(struct ring_file, states) + i] == SLOT_OPEN;
	return 0;
}
