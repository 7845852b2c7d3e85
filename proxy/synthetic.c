/*
 * See synthetic.h. Flat arrays without links: no moment is a bad one to die in. A worker is one that parses hostile bytes, so
 * what a dead one left is checked as it is read: the worst it can do is to mix up its own sandboxes' names, and each name is
 * judged by policy again when somebody connects.
 */
#include "proxy/synthetic.h"

#include "common/cleanup.h"
#include "proxy/limits.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define NUMBER_LAST 131070 /* of 198.18.0.1 to 198.19.255.254 */

static const struct cidr range = {.base = {.family = 4, .bytes = {198, 18}}, .bits = 15};

static_assert(SYNTHETIC_NAMES_MAX < NUMBER_LAST / 2, "an address is not soon given again");

/** What is searched, all together. */
struct synthetic_slot {
	_Atomic uint32_t number; /* of the address; 0: free */
	uint32_t hash;           /* of the name */
	uint64_t used;           /* turn of the last use */
};

struct synthetic_name {
	char name[HOST_NAME_BYTES];
	char request_id[SYNTHETIC_REQUEST_BYTES];
};

/** A sandbox's part. All zero: nobody's. */
struct synthetic_part {
	char owner[SANDBOX_ID_BYTES];
	uint32_t last; /* number that was given last */
	uint64_t turn; /* counts uses: the age of names */
	struct synthetic_slot slots[SYNTHETIC_NAMES_MAX];
	struct synthetic_name names[SYNTHETIC_NAMES_MAX];
};

/** Mostly memory that nobody ever touches, and which therefore is not there. */
struct synthetic_file {
	struct synthetic_part parts[BUDGET_SANDBOXES_MAX];
};

struct synthetic {
	struct synthetic_file *file;
	struct host found;
};

int synthetic_create(void)
{
	auto_fd fd = memfd_create("eclusa-synthetic", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	/* Of fixed size: otherwise a shorter one would kill who reads it. */
	if (fd < 0 || ftruncate(fd, (off_t)sizeof(struct synthetic_file)) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
		return -errno;
	return fd_take(&fd);
}

struct synthetic *synthetic_open(int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || st.st_size != (off_t)sizeof(struct synthetic_file))
		return NULL;
	auto_free struct synthetic *t = calloc(1, sizeof(*t));
	if (t == NULL)
		return NULL;
	void *file = mmap(
		NULL, sizeof(struct synthetic_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return NULL;
	t->file = file;
	return ptr_take(t);
}

void synthetic_close(struct synthetic *t)
{
	if (t == NULL)
		return;
	(void)munmap(t->file, sizeof(*t->file)); /* can't fail on what was mapped */
	free(t);
}

static struct synthetic_part *part_of(struct synthetic *t, unsigned sandbox)
{
	assert(sandbox < BUDGET_SANDBOXES_MAX);
	return &t->file->parts[sandbox];
}

void synthetic_remove_sandbox(struct synthetic *t, unsigned sandbox)
{
	struct synthetic_part *p = part_of(t, sandbox);
	memset(p->owner, 0, sizeof(p->owner)); /* first: from here on it is nobody's */
	memset(p->slots, 0, sizeof(p->slots));
	p->last = 0;
	p->turn = 0;
}

void synthetic_add_sandbox(
	struct synthetic *t, unsigned sandbox, const char id[static SANDBOX_ID_BYTES])
{
	struct synthetic_part *p = part_of(t, sandbox);
	if (strncmp(p->owner, id, SANDBOX_ID_BYTES) == 0)
		return;
	synthetic_remove_sandbox(t, sandbox);
	memcpy(p->owner, id, SANDBOX_ID_BYTES);
}

static uint32_t number_of(const struct address *a)
{
	if (!synthetic_is(a))
		return 0;
	return (uint32_t)(a->bytes[1] & 1) << 16 | (uint32_t)a->bytes[2] << 8 | a->bytes[3];
}

static struct address address_of(uint32_t number)
{
	return (struct address){.family = 4,
		.bytes = {198, (uint8_t)(18 | number >> 16), (uint8_t)(number >> 8),
			(uint8_t)number}};
}

bool synthetic_is(const struct address *address)
{
	return cidr_contains(&range, address);
}

/** FNV-1a: says where to look, and the name itself is compared. */
static uint32_t hash_of(const char *name)
{
	uint32_t hash = 2166136261u;
	for (; *name != '\0'; name++)
		hash = (hash ^ (uint8_t)*name) * 16777619u;
	return hash;
}

static struct synthetic_slot *slot_of_number(struct synthetic_part *p, uint32_t number)
{
	for (size_t i = 0; i < SYNTHETIC_NAMES_MAX; i++) {
		if (p->slots[i].number == number)
			return &p->slots[i];
	}
	return NULL;
}

static struct synthetic_slot *slot_of_name(struct synthetic_part *p, const char *name)
{
	uint32_t hash = hash_of(name);
	for (size_t i = 0; i < SYNTHETIC_NAMES_MAX; i++) {
		const struct synthetic_slot *s = &p->slots[i];
		if (s->hash == hash && s->number != 0 && s->number <= NUMBER_LAST &&
			strncmp(p->names[i].name, name, HOST_NAME_BYTES) == 0)
			return &p->slots[i];
	}
	return NULL;
}

/** A free one, else the one whose last use is longest ago. */
static size_t oldest(const struct synthetic_part *p)
{
	size_t found = 0;
	for (size_t i = 0; i < SYNTHETIC_NAMES_MAX; i++) {
		if (p->slots[i].number == 0)
			return i;
		if (p->slots[i].used < p->slots[found].used)
			found = i;
	}
	return found;
}

/** The next that stands for nothing; there is one, since there are more than slots. */
static uint32_t next_number(struct synthetic_part *p)
{
	uint32_t number = p->last;
	do
		number = number >= NUMBER_LAST ? 1 : number + 1;
	while (slot_of_number(p, number) != NULL);
	p->last = number;
	return number;
}

static struct synthetic_slot *slot_new(struct synthetic_part *p, const char *name)
{
	size_t at = oldest(p);
	struct synthetic_slot *s = &p->slots[at];
	s->number = 0;
	memset(&p->names[at], 0, sizeof(p->names[at]));
	memcpy(p->names[at].name, name, strlen(name) + 1);
	s->hash = hash_of(name);
	/* It stands for the name once it has a number. */
	atomic_store_explicit(&s->number, next_number(p), memory_order_release);
	return s;
}

bool synthetic_give(
	struct synthetic *t, unsigned sandbox, const struct host *host, struct address *ret_address)
{
	struct synthetic_part *p = part_of(t, sandbox);
	assert(host->kind == HOST_NAME);
	struct synthetic_slot *s = slot_of_name(p, host->name);
	bool given = s == NULL;
	if (given)
		s = slot_new(p, host->name);
	s->used = ++p->turn;
	*ret_address = address_of(s->number);
	return given;
}

bool synthetic_has(struct synthetic *t, unsigned sandbox, const struct host *host)
{
	return slot_of_name(part_of(t, sandbox), host->name) != NULL;
}

/** @return its index, or -1. */
static ptrdiff_t find(struct synthetic_part *p, const struct address *address)
{
	uint32_t number = number_of(address);
	const struct synthetic_slot *s = number != 0 ? slot_of_number(p, number) : NULL;
	return s != NULL ? s - p->slots : -1;
}

const struct host *synthetic_find(
	struct synthetic *t, unsigned sandbox, const struct address *address)
{
	struct synthetic_part *p = part_of(t, sandbox);
	ptrdiff_t at = find(p, address);
	if (at < 0)
		return NULL;
	const char *name = p->names[at].name;
	struct slice text = {name, strnlen(name, HOST_NAME_BYTES)};
	if (host_parse(text, &t->found) < 0 || t->found.kind != HOST_NAME)
		return NULL;
	p->slots[at].used = ++p->turn;
	return &t->found;
}

void synthetic_set_request(struct synthetic *t, unsigned sandbox, const struct address *address,
	const char *request_id)
{
	struct synthetic_part *p = part_of(t, sandbox);
	ptrdiff_t at = find(p, address);
	if (at >= 0)
		(void)slice_copy(slice_of(request_id), p->names[at].request_id,
			SYNTHETIC_REQUEST_BYTES); /* one that is too long is none */
}

bool synthetic_take_request(struct synthetic *t, unsigned sandbox, const struct address *address,
	char ret_request_id[static SYNTHETIC_REQUEST_BYTES])
{
	struct synthetic_part *p = part_of(t, sandbox);
	ptrdiff_t at = find(p, address);
	if (at < 0 || p->names[at].request_id[0] == '\0')
		return false;
	char *id = p->names[at].request_id;
	size_t len = strnlen(id, SYNTHETIC_REQUEST_BYTES - 1);
	memcpy(ret_request_id, id, len);
	ret_request_id[len] = '\0';
	id[0] = '\0';
	return true;
}
