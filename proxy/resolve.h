/*
 * Names to addresses: one absolute question for A and one for AAAA, to configured servers only. No
 * search list, no system files, no environment, no cache. A text of "ADDR NAME..." lines comes
 * first, for labs. Answers are a stranger's: they are judged by guard.h before use.
 */
#ifndef ECLUSA_PROXY_RESOLVE_H
#define ECLUSA_PROXY_RESOLVE_H

#include "common/failure.h"
#include "policy/host.h"
#include "proxy/limits.h"

#include <uv.h>

struct resolve_channel; /* one a worker */
struct resolve_query;   /* one look-up */

struct resolve_server {
	struct address address;
	uint16_t port;
};

struct resolve_options {
	uv_loop_t *loop;
	const struct resolve_server *servers;
	size_t server_count;
	struct slice hosts;          /* borrowed */
	const struct limits *limits; /* borrowed */
};

enum resolve_status {
	RESOLVE_WAIT,
	RESOLVE_FOUND,
	RESOLVE_NONE,    /* the name or its addresses do not exist */
	RESOLVE_FAILED,  /* no server, or none that answers this question */
	RESOLVE_TIMEOUT, /* no answer within limits->dns_ms */
};

/** Called once, when an answer that was RESOLVE_WAIT has come. */
typedef void resolve_wake(void *arg);

int resolve_channel_new(
	const struct resolve_options *options, struct resolve_channel **ret, struct failure *why);
/** Ends every query without calling anyone; the loop has to run once more to release handles. */
void resolve_channel_free(struct resolve_channel *c);

/**
 * Ask for a name (HOST_NAME). The answer may be there at once. @return NULL when out of memory or
 * over RESOLVE_QUERIES_MAX.
 */
struct resolve_query *resolve_ask(
	struct resolve_channel *c, const struct host *host, resolve_wake *wake, void *arg);
/** The answer; with RESOLVE_FOUND the addresses, borrowed from the query: first AAAA, then A. */
enum resolve_status resolve_answer(
	const struct resolve_query *q, const struct address **ret_addresses, size_t *ret_count);
/** Forget a query, answered or not. Accepts NULL. */
void resolve_drop(struct resolve_query *q);

#endif
