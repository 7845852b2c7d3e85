/*
 * What the audit will know of one decision: opened in the ring before anything leaves, finished
 * with how it ended. A CONNECT has one, and each request inside has its own.
 */
#ifndef ECLUSA_PROXY_RECORD_H
#define ECLUSA_PROXY_RECORD_H

#include "common/id.h"
#include "proxy/http1.h"

#define RECORD_REQUEST_ID_BYTES 20
#define RECORD_TYPE_BYTES       64
#define RECORD_SUGGESTION_BYTES 1024

struct flow;
struct snapshot;

/** Zero-initialise; record_start() begins. @reason, @rule, @status and the counts are set by the steps. */
struct record {
	bool live;
	bool connect;
	int slot;         /* in the ring; -1 */
	bool awaits_disk; /* nothing may leave before audit_ring_durable(ticket) */
	uint64_t ticket;
	uint64_t
		open_ms; /* of the loop's clock: when an event says that it is under way; 0: one did */
	enum reason reason;
	const struct rule *rule;
	struct snapshot
		*policy; /* that it was decided by; its own reference, as soon as it is written */
	const struct profile *profile;
	enum reason would; /* of what only observe mode let pass; else REASON_ALLOW_RULE */
	unsigned status;
	uint64_t bytes_in, bytes_out;
	uint64_t request_body_bytes, response_body_bytes; /* without framing */
	uint64_t start_ms;
	uint64_t began_ns, decided_ns; /* monotonic; decided_ns 0: not, or the answer has begun */
	char uid[UUID_TEXT_BYTES];
	char request_id[RECORD_REQUEST_ID_BYTES];
	char content_type[RECORD_TYPE_BYTES];
	bool reused; /* by a connection that had served another request */
	bool has_query;
	size_t query_bytes;
	bool encoded_slash;
	char *observed; /* heap: the sentence of a verdict that only observe mode let pass */
	char *text;     /* what the slices point into */
	struct slice method, path, user_agent;
	struct slice host;   /* as the peer wrote it, where it is no host */
	struct slice claims; /* another host that SNI or Host named */
};

/** A new record of a flow, with ids, reason allow.rule and no slot. */
void record_start(struct flow *f, struct record *r, bool connect);
/** The first record of a connection goes on under the id of the question for its name, and so does the first request inside. */
void record_continue(struct flow *f, struct record *r);
/** What a peer said, copied by record_describe(). */
struct record_words {
	struct slice method, path, user_agent, host, claims;
};
/** Copy what the peer said. Without memory the record has no words. */
void record_describe(struct record *r, const struct record_words *words);
/** A verdict that lets it pass: its rule and its reasons. */
void record_verdict(struct record *r, const struct policy_verdict *v);
/**
 * A limit of the record's rule was met. Where that rule only observes, this is written down, unless it would have been
 * denied before for another reason. @return whether it may go on
 */
bool record_observe(struct record *r, enum reason would);
/** An event that says that it is under way, once, if it has lasted long or much has passed. */
void record_note(struct flow *f, struct record *r);
/** The decision enters the ring. @return 0, -ENOSPC: what can't be recorded must not be done. */
int record_open(struct flow *f, struct record *r);
/** The host's answer has begun: how long that took, for the metrics; once a record. */
void record_answered(struct flow *f, struct record *r);
/**
 * Finish with what the record says now. @detail one sentence or NULL. @suggestion --allow text or
 * NULL. @return 0; -ENOSPC: nothing was recorded (only without a slot).
 */
int record_close(struct flow *f, struct record *r, const char *detail, const char *suggestion);

#endif
