/*
 * Synthetic addresses: what the proxy's DNS answers instead of a host's own. Each stands for one name in one sandbox; nothing
 * is ever dialled by it. A sandbox has room for SYNTHETIC_NAMES_MAX names, whatever others do: a new one takes the place of the name
 * that was used least recently, and an address that stood for a name stands for no other one until all of 198.18.0.0/15 have
 * been given. Lies in memory that super made, as budgets do, so that a worker that replaces a dead one knows every address.
 */
#ifndef ECLUSA_PROXY_SYNTHETIC_H
#define ECLUSA_PROXY_SYNTHETIC_H

#include "common/id.h"
#include "policy/host.h"

#define SYNTHETIC_REQUEST_BYTES 24 /* of a correlation id, NUL included */

struct synthetic; /* one worker's table */

/** The memory of an empty table. @return descriptor or negative errno. */
int synthetic_create(void);
/** Map it. The mapping outlives @fd. @return NULL: no memory, or no table. */
struct synthetic *synthetic_open(int fd);
void synthetic_close(struct synthetic *t);

/** Sandboxes by their numbers of budget_add_sandbox(). One that had names before a worker's death keeps them; another one's at this number are forgotten. */
void synthetic_add_sandbox(
	struct synthetic *t, unsigned sandbox, const char id[static SANDBOX_ID_BYTES]);
void synthetic_remove_sandbox(struct synthetic *t, unsigned sandbox);

/** The sandbox's address for the name, which must be a HOST_NAME; given now if it has none. @return whether it was given now. */
bool synthetic_give(struct synthetic *t, unsigned sandbox, const struct host *host,
	struct address *ret_address);
/** Whether the sandbox has an address for the name. */
bool synthetic_has(struct synthetic *t, unsigned sandbox, const struct host *host);
/** What the address stands for in this sandbox; valid until the next call with @t. NULL: nothing, or nothing anymore. */
const struct host *synthetic_find(
	struct synthetic *t, unsigned sandbox, const struct address *address);

/** Whether it is one of 198.18.0.0/15, given or not. */
bool synthetic_is(const struct address *address);

/**
 * The correlation id under which the address was asked for, so that the connection that follows has the same: kept by
 * synthetic_set_request(), and taken once. @return false: there is none, or not anymore.
 */
void synthetic_set_request(struct synthetic *t, unsigned sandbox, const struct address *address,
	const char *request_id);
bool synthetic_take_request(struct synthetic *t, unsigned sandbox, const struct address *address,
	char ret_request_id[static SYNTHETIC_REQUEST_BYTES]);

#endif
