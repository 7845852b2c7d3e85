/*
 * See budget_table.h. The memory holds flat arrays and no links, so that no moment is a bad one to die in; what finds its
 * counters again is made anew by each process. A worker is one that parses hostile bytes, so what a dead one left is checked as
 * it is read: the worst it can do is to miscount its own sandboxes.
 */
#include "proxy/budget_table.h"

#include "common/cleanup.h"
#include "common/id.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define BUCKETS (2 * BUDGET_COUNTERS_MAX)
#define NONE    UINT32_MAX

struct budget_file {
	uint32_t used; /* counters from here on were never used: untouched memory */
	char sandboxes[BUDGET_SANDBOXES_MAX][SANDBOX_ID_BYTES]; /* ids; "": free */
	_Alignas(64) struct budget_counter counters[BUDGET_COUNTERS_MAX];
};

/** Beside each counter, in this process only. */
struct budget_link {
	uint32_t next; /* index + 1 in the same bucket, or of the next free one; 0: the last */
	uint32_t in_flight;
};

struct budget {
	struct budget_file *file;
	uint32_t used;             /* as in the file, checked */
	uint32_t live;             /* counters that are not free */
	uint32_t free_first;       /* index + 1 */
	uint32_t buckets[BUCKETS]; /* index + 1 */
	struct budget_link links[BUDGET_COUNTERS_MAX];
	uint32_t counts[BUDGET_SANDBOXES_MAX];
	bool claimed
		[BUDGET_SANDBOXES_MAX]; /* announced to this process; others may have ended unseen */
};

int budget_create(void)
{
	auto_fd fd = memfd_create("eclusa-budget", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* Of fixed size: otherwise a shorter one would kill who reads it. */
	if (fd < 0 || ftruncate(fd, (off_t)sizeof(struct budget_file)) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return fd_take(&fd);
}

static uint32_t bucket_of(unsigned sandbox, uint64_t key)
{
	/* Keys come from policy, not from peers: mixing is enough. */
	uint64_t mixed = (key ^ ((uint64_t)sandbox << 32 | sandbox)) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(mixed >> 32) % BUCKETS;
}

static void link_counter(struct budget *b, uint32_t at, unsigned sandbox)
{
	uint32_t bucket = bucket_of(sandbox, b->file->counters[at].key);
	b->links[at] = (struct budget_link){.next = b->buckets[bucket]};
	b->buckets[bucket] = at + 1;
	b->counts[sandbox]++;
	b->live++;
}

static void free_counter(struct budget *b, uint32_t at)
{
	b->file->counters[at] = (struct budget_counter){0};
	b->links[at] = (struct budget_link){.next = b->free_first};
	b->free_first = at + 1;
}

/** Find what a process before this one left. */
static void index_counters(struct budget *b)
{
	b->used = b->file->used < BUDGET_COUNTERS_MAX ? b->file->used : BUDGET_COUNTERS_MAX;
	for (uint32_t at = b->used; at-- > 0;) {
		uint32_t owner = b->file->counters[at].owner;
		if (owner == 0 || owner > BUDGET_SANDBOXES_MAX)
			free_counter(b, at);
		else
			link_counter(b, at, owner - 1);
	}
}

struct budget *budget_open(int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || st.st_size != (off_t)sizeof(struct budget_file))
		return NULL;
	auto_free struct budget *b = calloc(1, sizeof(*b));
	if (b == NULL)
		return NULL;
	void *file =
		mmap(NULL, sizeof(struct budget_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return NULL;
	b->file = file;
	index_counters(b);
	return ptr_take(b);
}

void budget_close(struct budget *b)
{
	if (b == NULL)
		return;
	(void)munmap(b->file, sizeof(*b->file)); /* can't fail on what was mapped */
	free(b);
}

static bool owned(const struct budget *b, uint32_t at, unsigned sandbox)
{
	return b->file->counters[at].owner == sandbox + 1;
}

static void unlink_counter(struct budget *b, uint32_t at, unsigned sandbox)
{
	uint32_t *from = &b->buckets[bucket_of(sandbox, b->file->counters[at].key)];
	while (*from != 0 && *from != at + 1)
		from = &b->links[*from - 1].next;
	if (*from != 0)
		*from = b->links[at].next;
	b->counts[sandbox]--;
	b->live--;
}

void budget_remove_sandbox(struct budget *b, unsigned sandbox)
{
	assert(sandbox < BUDGET_SANDBOXES_MAX);
	for (uint32_t at = 0; at < b->used && b->counts[sandbox] > 0; at++) {
		if (!owned(b, at, sandbox))
			continue;
		unlink_counter(b, at, sandbox);
		free_counter(b, at);
	}
	b->claimed[sandbox] = false;
	memset(b->file->sandboxes[sandbox], 0, SANDBOX_ID_BYTES);
}

/** Sandboxes that ended while no worker was there to be told. super names all others before anything else. */
static void remove_unclaimed(struct budget *b)
{
	for (unsigned i = 0; i < BUDGET_SANDBOXES_MAX; i++) {
		if (!b->claimed[i] && b->file->sandboxes[i][0] != '\0')
			budget_remove_sandbox(b, i);
	}
}

/** By id; "": a free one. @return NONE when there is none. */
static uint32_t sandbox_find(const struct budget *b, const char *id)
{
	for (uint32_t i = 0; i < BUDGET_SANDBOXES_MAX; i++) {
		if (strncmp(b->file->sandboxes[i], id, SANDBOX_ID_BYTES) == 0)
			return i;
	}
	return NONE;
}

int budget_add_sandbox(struct budget *b, const char *id, unsigned *ret_sandbox)
{
	uint32_t at = sandbox_find(b, id);
	if (id[0] == '\0' || strlen(id) >= SANDBOX_ID_BYTES)
		return -EINVAL;
	if (at == NONE) {
		at = sandbox_find(b, "");
		if (at == NONE)
			remove_unclaimed(b);
		at = at == NONE ? sandbox_find(b, "") : at;
		if (at == NONE)
			return -ENOSPC;
		memcpy(b->file->sandboxes[at], id, strlen(id) + 1);
	}
	b->claimed[at] = true;
	*ret_sandbox = at;
	return 0;
}

/** Each may have as many as are still free: whoever comes later finds room, too. */
static bool has_share(const struct budget *b, unsigned sandbox)
{
	return b->counts[sandbox] < BUDGET_COUNTERS_MAX - b->live;
}

/** @return the index of a free counter. */
static uint32_t take_free(struct budget *b)
{
	if (b->free_first != 0) {
		uint32_t at = b->free_first - 1;
		b->free_first = b->links[at].next;
		return at;
	}
	b->file->used = b->used + 1;
	return b->used++;
}

static struct budget_counter *counter_new(
	struct budget *b, unsigned sandbox, uint64_t key, uint64_t now_ms)
{
	if (!has_share(b, sandbox))
		remove_unclaimed(b);
	if (!has_share(b, sandbox))
		return NULL;
	uint32_t at = take_free(b);
	struct budget_counter *c = &b->file->counters[at];
	*c = (struct budget_counter){.key = key, .window_start_ms = now_ms};
	/* It counts once it has an owner. */
	atomic_store_explicit(&c->owner, sandbox + 1, memory_order_release);
	link_counter(b, at, sandbox);
	return c;
}

struct budget_counter *budget_counter_get(
	struct budget *b, unsigned sandbox, uint64_t key, uint64_t now_ms)
{
	assert(sandbox < BUDGET_SANDBOXES_MAX);
	uint32_t at = b->buckets[bucket_of(sandbox, key)];
	for (; at != 0; at = b->links[at - 1].next) {
		if (b->file->counters[at - 1].key == key && owned(b, at - 1, sandbox))
			return &b->file->counters[at - 1];
	}
	return counter_new(b, sandbox, key, now_ms);
}

uint32_t *budget_counter_in_flight(struct budget *b, const struct budget_counter *c)
{
	return &b->links[c - b->file->counters].in_flight;
}
