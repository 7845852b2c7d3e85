/*
 * Who a connection is from: sandboxes by source address. The gateway lets an address in by its own
 * interface only, so the address is the identity (design, invariant 2).
 */
#ifndef ECLUSA_PROXY_IDENT_H
#define ECLUSA_PROXY_IDENT_H

#include "common/id.h"
#include "ipc/message.h"
#include "policy/policy.h"
#include "proxy/stream.h"

#define IDENT_BUCKETS 1024

struct flow;
struct pooled;
struct tls_tickets;

/** A sandbox that has a lease. */
struct sandbox {
	struct sandbox *next;
	struct address address;
	char id[SANDBOX_ID_BYTES];
	struct stream_account buffered;
	uint64_t handshakes_ns;        /* when all handshakes that it began have been paid for */
	unsigned budget;               /* its number there */
	const struct profile *profile; /* of the policy in force */
	struct flow *flows;            /* of this sandbox; flow.c's */
	struct dns_client *dns;        /* likewise dns.c's; NULL: it never asked */
	uint32_t connections;
	uint32_t decisions;    /* in slots of the worker's ring */
	struct pooled *pooled; /* connections to hosts that wait; pool.c's */
	struct pooled *pooled_last;
	uint32_t pooled_count;
	struct tls_tickets *tickets; /* NULL: nothing is resumed */
};

/** Zero-initialise. */
struct ident {
	struct sandbox *buckets[IDENT_BUCKETS];
};

/** Add a sandbox; one that is there with this address is first given to *ret_old, unlinked. @return 0, -ENOMEM, -EINVAL. */
int ident_add(struct ident *i, const struct message_sandbox *message, const struct profile *profile,
	struct sandbox **ret_old);
/** By its address, else the one whose address is family 0: whoever comes. NULL: unknown. */
struct sandbox *ident_find(const struct ident *i, const struct address *address);
/**
 * TLS with a sandbox is about to begin: as many in a second as @limit, and as many at once. @return false: it has to be refused.
 * Where all clients are one sandbox there is nobody to be fair to.
 */
bool sandbox_may_handshake(struct sandbox *s, uint32_t limit, uint64_t now_ns);
/** Unlink; the caller ends its flows and frees it. NULL: unknown. */
struct sandbox *ident_remove(struct ident *i, const struct address *address);
/** Call @visit for each; it may not add or remove any. */
void ident_each(const struct ident *i, void (*visit)(struct sandbox *s, void *arg), void *arg);
/** Any one sandbox, unlinked; NULL when there is none. */
struct sandbox *ident_take(struct ident *i);

#endif
