/*
 * A hash chain over the exact bytes of lines. A sealed line ends in the members chain, prev and hash: prev is the hash of the
 * chain's line before it (zeros in the first one), hash is SHA-256 over every byte of the line before `,"hash":"`, which
 * include prev. So one changed byte, a missing line or two that changed places show, with no need to parse JSON.
 */
#ifndef ECLUSA_AUDIT_CHAIN_H
#define ECLUSA_AUDIT_CHAIN_H

#include "common/buf.h"
#include "common/digest.h"

#define CHAIN_NAME_BYTES 64
/** The most that sealing adds to a line, closing braces and newline included. */
#define CHAIN_SEAL_BYTES_MAX 256
/** What closes a line after its hash: an event's three objects; the one of an index entry. */
#define CHAIN_EVENT_CLOSING "}}}"
#define CHAIN_INDEX_CLOSING "}"

/** Where a chain is: its name, the hash of its last line, the next line's number. */
struct chain {
	char name[CHAIN_NAME_BYTES];
	char head[DIGEST_TEXT_BYTES];
	uint64_t sequence;
};

/** The sealed end of a line, as parts of it. */
struct chain_link {
	struct slice body; /* what the hash is over */
	struct slice bare; /* the line before it was sealed, without closing */
	struct slice chain, prev, hash;
};

/** A new chain: zeros as its head, 1 as the next number. @return 0; -EINVAL: no name ([A-Za-z0-9._-], at most 63). */
int chain_start(struct chain *c, const char *name);
/**
 * Append chain, prev, hash and @closing to a line that lacks just that and begins @from bytes into the buffer. @ret_hash is the new head once the line is
 * written. @return 0, -ENOBUFS, -ENOMEM.
 */
int chain_seal(const struct chain *c, const char *closing, struct buf *line, size_t from,
	char ret_hash[static DIGEST_TEXT_BYTES]);
/** Take a line's end apart, without newline. False: it is not sealed so. What the hash says is not checked. */
bool chain_read(struct slice line, const char *closing, struct chain_link *ret);
/** Whether the hash is that of the body. */
bool chain_link_holds(const struct chain_link *link);
/** The member "sequence" of a line of ours, anywhere in it; 0 when there is none. Peers can't write one: their quotes are escaped. */
uint64_t chain_sequence(struct slice line);

#endif
