/*
 * What rules grant beyond single messages, and how much of it each sandbox has used: bytes, uses in a window and in
 * a life, a rate, uses at once. Counters go by (sandbox, rule's key), so that a new version of the policy keeps them, and lie in
 * memory that super made, so that a worker that replaces a dead one finds them as they were; a sandbox belongs to one
 * worker, so one process writes. Knows no flows and no clock: @now_ms is monotonic, such as uv_now().
 */
#ifndef ECLUSA_PROXY_BUDGET_H
#define ECLUSA_PROXY_BUDGET_H

#include "policy/policy.h"

struct budget;         /* one worker's table */
struct budget_counter; /* what one sandbox used of one rule */

/** The memory of an empty table. @return descriptor or negative errno. */
int budget_create(void);
/** Map it; what was in flight in a process before is not anymore. The mapping outlives @fd. @return NULL: no memory, or no table. */
struct budget *budget_open(int fd);
void budget_close(struct budget *b);

/** A sandbox may use rules from now on; one that has counters of before keeps them. @return 0 with its number in *ret_sandbox; -ENOSPC, -EINVAL. */
int budget_add_sandbox(struct budget *b, const char *id, unsigned *ret_sandbox);
/** It ended, and none of its uses is in flight: its counters are free. */
void budget_remove_sandbox(struct budget *b, unsigned sandbox);

enum budget_kind {
	BUDGET_UP,
	BUDGET_DOWN,
	BUDGET_REQUESTS,
	BUDGET_USES,
	BUDGET_RATE,
	BUDGET_CONNECTIONS,
	BUDGET_TIME,
	BUDGET_TABLE, /* there is no room to count */
	BUDGET_KIND_COUNT
};

/** Which limit said no, for client and audit. */
struct budget_denial {
	enum budget_kind kind;
	enum reason reason;     /* deny.budget, deny.rate, deny.limit or deny.quota */
	uint64_t allowed, used; /* bytes, uses or ms; used: up to now, without what was asked for */
	uint64_t window_ms;     /* what the limit is for; 0: the sandbox's life */
	uint64_t resets_ms;     /* until it begins anew; 0: it does not */
	char detail[POLICY_DETAIL_BYTES]; /* one sentence */
};

/**
 * One use in flight: a request, or a connection where no requests are seen. Zero-initialise: none, which has no
 * room. Keeps the limits it began with, whatever becomes of the rule, until it is given others.
 */
struct budget_use {
	struct budget *budget;
	struct budget_counter *counter; /* NULL: nothing is counted */
	struct rule_budget limits;
	uint64_t began_ms;
	uint64_t deadline_ms; /* of time=, on @now_ms's clock; 0: none */
	bool observe;         /* nothing is refused or cut; what would have been is in @would */
	enum reason would;    /* REASON_ALLOW_RULE: nothing */
};

/** What begins. */
struct budget_ask {
	unsigned sandbox;
	const struct rule *rule;
	uint64_t now_ms;
	uint64_t up_bytes; /* that it is known to send: the head, and a body of known length */
};

/**
 * Begin a use, counting it. @return REASON_ALLOW_RULE; REASON_OBSERVE_WOULD_DENY, begun all the same, with what enforcing has in
 * *ret_denial and use->would; else the reason, and nothing was counted or begun.
 */
enum reason budget_begin(struct budget *b, const struct budget_ask *ask, struct budget_use *use,
	struct budget_denial *ret_denial);
/** From now on within the limits of this rule, counted as before; one that never began stays so. */
void budget_renew(struct budget_use *use, const struct rule *rule);
/** It is over: not in flight anymore. Also on a use that never began; leaves it zero. */
void budget_end(struct budget_use *use);

/** Bytes that may still pass towards the host, from it; POLICY_UNLIMITED. A window that has passed begins anew. */
uint64_t budget_up_room(struct budget_use *use, uint64_t now_ms);
uint64_t budget_down_room(struct budget_use *use, uint64_t now_ms);
/** These bytes passed: count them. More than the room is counted as well, and under observe noted in use->would. */
void budget_spend(struct budget_use *use, uint64_t up_bytes, uint64_t down_bytes);
/** Why it is cut now, by its BUDGET_UP, BUDGET_DOWN or BUDGET_TIME. */
void budget_explain(const struct budget_use *use, enum budget_kind kind, uint64_t now_ms,
	struct budget_denial *ret);
/** Under observe: what enforcing would have said up to now; REASON_ALLOW_RULE: nothing. */
enum reason budget_would(const struct budget_use *use, uint64_t now_ms);

/** The attribute that sets the limit, such as "up"; what would help, as a hint for people. */
const char *budget_kind_name(enum budget_kind kind);
const char *budget_kind_hint(enum budget_kind kind);

#endif
