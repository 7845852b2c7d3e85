/*
 * Connecting to the first of several admitted addresses that answers (RFC 8305): one attempt after
 * another, the next one beside when the last is slow. Takes only what guard.h admitted.
 */
#ifndef ECLUSA_PROXY_DIAL_H
#define ECLUSA_PROXY_DIAL_H

#include "proxy/guard.h"
#include "proxy/limits.h"

#include <uv.h>

#define DIAL_ADDRESSES_MAX 16 /* tried at most */

struct dial;

enum dial_status {
	DIAL_WAIT,
	DIAL_CONNECTED,
	DIAL_FAILED, /* every address refused, or is unreachable */
};

/** Called once, when what was DIAL_WAIT has been decided. */
typedef void dial_wake(void *arg);

/**
 * Start connecting; families take turns, in the order given otherwise. The deadline is the
 * caller's. @count at least 1; what is beyond DIAL_ADDRESSES_MAX is not tried. @return NULL when
 * out of memory.
 */
struct dial *dial_start(uv_loop_t *loop, const struct limits *limits,
	const struct admitted_address *addresses, size_t count);
/** From now on @wake is told. Not called from inside. */
void dial_notify(struct dial *d, dial_wake *wake, void *arg);
/** *ret_address: the connected one, or with DIAL_FAILED the last that failed; *ret_error its errno. */
enum dial_status dial_result(const struct dial *d, struct address *ret_address, int *ret_error);
/** The connected descriptor, once; now the caller's. */
int dial_take(struct dial *d);
/** Ends all attempts and closes what was not taken. Accepts NULL. */
void dial_free(struct dial *d);

#endif
