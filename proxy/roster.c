/* See roster.h. */
#include "proxy/roster.h"

#include <errno.h>
#include <stdlib.h>

#define ROSTER_CAPACITY_FIRST 16

void roster_fini(struct roster *r)
{
	free(r->entries);
	*r = (struct roster){0};
}

unsigned roster_worker(const struct address *address, unsigned workers)
{
	const uint8_t *last = address->bytes + (address->family == 6 ? 12 : 0);
	uint32_t number = (uint32_t)last[0] << 24 | (uint32_t)last[1] << 16 |
		(uint32_t)last[2] << 8 | last[3];
	return (number >> 1) % workers;
}

static int roster_grow(struct roster *r)
{
	if (r->count < r->capacity)
		return 0;
	if (r->count == ROSTER_SANDBOXES_MAX)
		return -ENOSPC;
	size_t capacity = r->capacity == 0 ? ROSTER_CAPACITY_FIRST : 2 * r->capacity;
	struct roster_entry *entries = realloc(r->entries, capacity * sizeof(*entries));
	if (entries == NULL)
		return -ENOMEM;
	r->entries = entries;
	r->capacity = capacity;
	return 0;
}

struct roster_entry *roster_add(
	struct roster *r, const struct message_sandbox *sandbox, unsigned workers, int *ret_error)
{
	int error = roster_find(r, sandbox->sandbox_id) != NULL ? -EEXIST : roster_grow(r);
	if (error < 0) {
		*ret_error = error;
		return NULL;
	}
	struct roster_entry *entry = &r->entries[r->count++];
	*entry = (struct roster_entry){
		.sandbox = *sandbox, .worker = roster_worker(&sandbox->address, workers)};
	return entry;
}

struct roster_entry *roster_find(const struct roster *r, const char *sandbox_id)
{
	for (size_t i = 0; i < r->count; i++) {
		if (strcmp(r->entries[i].sandbox.sandbox_id, sandbox_id) == 0)
			return &r->entries[i];
	}
	return NULL;
}

struct roster_entry *roster_pending(const struct roster *r, unsigned worker)
{
	for (size_t i = 0; i < r->count; i++) {
		struct roster_entry *entry = &r->entries[i];
		if (entry->worker == worker && entry->asked && !entry->acknowledged)
			return entry;
	}
	return NULL;
}

void roster_remove(struct roster *r, struct roster_entry *entry)
{
	size_t at = (size_t)(entry - r->entries);
	memmove(entry, entry + 1, (r->count - at - 1) * sizeof(*entry));
	r->count--;
}
