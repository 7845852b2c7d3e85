/* Reason codes: the stable vocabulary of verdicts, shared by policy, proxy, audit and result. */
#ifndef ECLUSA_COMMON_REASON_H
#define ECLUSA_COMMON_REASON_H

#include <stdbool.h>

enum reason {
	REASON_ALLOW_RULE,
	REASON_ALLOW_SPLICE,
	REASON_OBSERVE_WOULD_DENY,
	REASON_DENY_DEFAULT,
	REASON_DENY_RULE,
	REASON_DENY_EXPIRED,
	REASON_DENY_NAME,
	REASON_DENY_NAME_INVALID,
	REASON_DENY_PATH,
	REASON_DENY_METHOD,
	REASON_DENY_QUERY,
	REASON_DENY_PORT,
	REASON_DENY_SCHEME,
	REASON_DENY_SIZE,
	REASON_DENY_RATE,
	REASON_DENY_BUDGET,
	REASON_DENY_ADDRESS_PRIVATE,
	REASON_DENY_ADDRESS_METADATA,
	REASON_DENY_ADDRESS_MISMATCH,
	REASON_DENY_SNI_MISMATCH,
	REASON_DENY_HOST_MISMATCH,
	REASON_DENY_NO_SNI,
	REASON_DENY_ECH,
	REASON_DENY_NOT_TLS,
	REASON_DENY_PROTOCOL,
	REASON_DENY_SMUGGLING,
	REASON_DENY_LIMIT,
	REASON_DENY_UPSTREAM_CERT,
	REASON_DENY_QUIC,
	REASON_DENY_PACKET,
	REASON_DENY_DNS_TYPE,
	REASON_DENY_DNS_NAME,
	REASON_DENY_POLICY_STALE,
	REASON_DENY_REVOKED,
	REASON_DENY_AUDIT_FULL,
	REASON_DENY_QUOTA,
	REASON_ERROR_UPSTREAM,
	REASON_ERROR_TIMEOUT,
	REASON_ERROR_INTERNAL,
	REASON_AUDIT_LOST,
	REASON_AUDIT_RECOVERED,
	REASON_AUDIT_CHECKPOINT,
	REASON_POLICY_LOADED,
	REASON_POLICY_REJECTED,
	REASON_SANDBOX_START,
	REASON_SANDBOX_EXIT,
	REASON_SANDBOX_VIOLATION,
	REASON_COUNT
};

/** The code as logs, clients and SIEMs see it, such as "deny.path". */
const char *reason_code(enum reason reason);
/** OCSF severity_id: 1 informational, 3 medium, 4 high, 5 critical. */
int reason_severity(enum reason reason);
/** HTTP status that a client gets for this refusal; 0 for reasons that refuse nothing. */
int reason_status(enum reason reason);
/** One sentence on what the code means, for people. */
const char *reason_sentence(enum reason reason);
static inline bool reason_allows(enum reason reason)
{
	return reason <= REASON_OBSERVE_WOULD_DENY;
}

#endif
