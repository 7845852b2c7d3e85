/*
 * One request as people write it, a method and a URL, judged in the order in which the proxy judges it:
 * first what no request may be, then the tunnel's host, then the request. Without a client or a network.
 */
#ifndef ECLUSA_POLICY_ASK_H
#define ECLUSA_POLICY_ASK_H

#include "policy/policy.h"

/** Holds what its question points at: it stays where it was made. */
struct policy_ask {
	struct policy_question question;
	struct host host;
	struct target target;
	bool tunnel;              /* https and CONNECT: host and port are judged before the rest */
	bool connect;             /* nothing follows the tunnel's host and port */
	enum reason refused;      /* REASON_ALLOW_RULE: rules are asked */
	enum reason path_refused; /* likewise, once a tunnel is open */
	const char *why;          /* one sentence for either refusal, or NULL */
};

/**
 * Take a request apart. @url is an http or https URL, or host:port when the method is CONNECT; both are a
 * stranger's bytes and have to stay. What is malformed is an answer, not an error.
 */
void policy_ask_init(
	struct policy_ask *ret, struct slice method, struct slice url, uint64_t now_ms);

/** The verdict that the proxy gives, up to the host's addresses, which are not looked up. */
void policy_ask_decide(
	const struct profile *p, const struct policy_ask *ask, struct policy_verdict *ret);

/** The same as if nothing was observed. */
void policy_ask_enforce(
	const struct profile *p, const struct policy_ask *ask, struct policy_verdict *ret);

#endif
