/* The sandboxes that the proxy serves, as netd announced them: what a restarted worker must be told again. */
#ifndef ECLUSA_PROXY_ROSTER_H
#define ECLUSA_PROXY_ROSTER_H

#include "ipc/message.h"

#define ROSTER_SANDBOXES_MAX 4096

struct roster_entry {
	struct message_sandbox sandbox;
	unsigned worker;
	bool acknowledged; /* its worker knows it, and netd was told */
	bool asked;        /* this worker process was told */
};

/** Zero-initialise. */
struct roster {
	struct roster_entry *entries;
	size_t count;
	size_t capacity;
};

void roster_fini(struct roster *r);
/** Which worker serves an address: host order, halved (pairs share a slot), modulo workers; netd steers by the same. */
unsigned roster_worker(const struct address *address, unsigned workers);
/** @return the new entry, borrowed until the next call; NULL: -EEXIST, -ENOSPC or -ENOMEM in *ret_error. */
struct roster_entry *roster_add(
	struct roster *r, const struct message_sandbox *sandbox, unsigned workers, int *ret_error);
/** By id; NULL when there is none. */
struct roster_entry *roster_find(const struct roster *r, const char *sandbox_id);
/** The oldest one that this worker was asked about and has not answered; NULL when there is none. */
struct roster_entry *roster_pending(const struct roster *r, unsigned worker);
void roster_remove(struct roster *r, struct roster_entry *entry);

#endif
