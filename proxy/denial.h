/*
 * The response that explains a refusal or failure to the client: reason phrase, Proxy-Status (RFC
 * 9209), JSON body. Peer text in it is escaped here.
 */
#ifndef ECLUSA_PROXY_DENIAL_H
#define ECLUSA_PROXY_DENIAL_H

#include "common/buf.h"
#include "policy/policy.h"
#include "proxy/budget.h"

/** Borrowed; NULL, 0 and empty slices are left out. */
struct denial {
	enum reason reason;
	unsigned status;     /* 0: reason_status() */
	const char *error;   /* RFC 9209 error type such as dns_error; NULL: by the reason */
	const char *message; /* one sentence; NULL: reason_sentence() */
	struct slice host;   /* peer text where nothing better is known */
	uint16_t port;
	struct slice method;
	struct slice path;
	const struct rule *rule; /* NULL: no rule decided */
	const char *hint;        /* what to do about it */
	const char *allow;       /* the --allow text that would admit it */
	const char *request_id;
	const struct budget_denial
		*budget; /* the limit of the rule that was met, and how much was used */
	bool head;       /* HEAD was asked: no body */
};

/** Append the whole response, Connection: close included. @return 0, -ENOBUFS, -ENOMEM. */
int denial_write(const struct denial *d, struct buf *out);

#endif
