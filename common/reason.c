/* See reason.h. */
#include "common/reason.h"

#include <stddef.h>

struct reason_entry {
	const char *code;
	const char *sentence;
	int severity;
	int status;
};

static const struct reason_entry entries[] = {
	[REASON_ALLOW_RULE] = {"allow.rule", "a rule allows it", 1, 0},
	[REASON_ALLOW_SPLICE] = {"allow.splice", "a rule passes it untouched", 1, 0},
	[REASON_OBSERVE_WOULD_DENY] = {"observe.would-deny", "it would be denied when enforced", 3,
		0},
	[REASON_DENY_DEFAULT] = {"deny.default", "no rule names this host", 3, 403},
	[REASON_DENY_RULE] = {"deny.rule", "a deny rule names it", 3, 403},
	[REASON_DENY_EXPIRED] = {"deny.expired", "the rule that would allow it has expired", 3,
		403},
	[REASON_DENY_NAME] = {"deny.name", "this name is not allowed", 3, 403},
	[REASON_DENY_NAME_INVALID] = {"deny.name-invalid", "this is not a valid host or target", 3,
		400},
	[REASON_DENY_PATH] = {"deny.path", "no rule for this host allows the path", 3, 403},
	[REASON_DENY_METHOD] = {"deny.method", "no rule for this host allows the method", 3, 403},
	[REASON_DENY_QUERY] = {"deny.query", "the rule allows no query", 3, 403},
	[REASON_DENY_PORT] = {"deny.port", "no rule for this host allows the port", 3, 403},
	[REASON_DENY_SCHEME] = {"deny.scheme", "no rule for this host allows the scheme", 3, 403},
	[REASON_DENY_SIZE] = {"deny.size", "the body is larger than the rule allows", 3, 413},
	[REASON_DENY_RATE] = {"deny.rate", "too many requests for the rule", 3, 429},
	[REASON_DENY_BUDGET] = {"deny.budget", "the rule's budget is spent", 3, 403},
	[REASON_DENY_ADDRESS_PRIVATE] = {"deny.address-private",
		"the address is private, special or the host's own", 4, 403},
	[REASON_DENY_ADDRESS_METADATA] = {"deny.address-metadata",
		"the address is a cloud metadata or platform endpoint", 4, 403},
	[REASON_DENY_ADDRESS_MISMATCH] = {"deny.address-mismatch",
		"the address was handed out for another name", 4, 403},
	[REASON_DENY_SNI_MISMATCH] = {"deny.sni-mismatch", "TLS names another host than the tunnel",
		4, 403},
	[REASON_DENY_HOST_MISMATCH] = {"deny.host-mismatch",
		"the request names another host than the tunnel", 4, 421},
	[REASON_DENY_NO_SNI] = {"deny.no-sni", "TLS without a server name", 3, 403},
	[REASON_DENY_ECH] = {"deny.ech", "an encrypted server name can't be checked", 3, 403},
	[REASON_DENY_NOT_TLS] = {"deny.not-tls", "the tunnel carries no TLS", 3, 403},
	[REASON_DENY_PROTOCOL] = {"deny.protocol", "the protocol is not supported here", 3, 400},
	[REASON_DENY_SMUGGLING] = {"deny.smuggling", "the message is malformed or ambiguous", 4,
		400},
	[REASON_DENY_LIMIT] = {"deny.limit", "a limit was reached", 3, 503},
	[REASON_DENY_UPSTREAM_CERT] = {"deny.upstream-cert", "the host's certificate is not valid",
		4, 502},
	[REASON_DENY_QUIC] = {"deny.quic", "QUIC is refused", 3, 403},
	[REASON_DENY_PACKET] = {"deny.packet", "the packet was refused at the gateway", 3, 403},
	[REASON_DENY_DNS_TYPE] = {"deny.dns-type", "the record type is not answered", 3, 403},
	[REASON_DENY_DNS_NAME] = {"deny.dns-name", "the name is not answered", 3, 403},
	[REASON_DENY_POLICY_STALE] = {"deny.policy-stale", "no valid policy is loaded", 3, 503},
	[REASON_DENY_REVOKED] = {"deny.revoked", "the policy changed and no longer allows it", 3,
		403},
	[REASON_DENY_AUDIT_FULL] = {"deny.audit-full", "the audit log can't be written", 5, 503},
	[REASON_DENY_QUOTA] = {"deny.quota", "the sandbox's quota is used up", 3, 503},
	[REASON_ERROR_UPSTREAM] = {"error.upstream",
		"the host can't be reached or answered wrongly", 2, 502},
	[REASON_ERROR_TIMEOUT] = {"error.timeout", "a deadline passed", 2, 504},
	[REASON_ERROR_INTERNAL] = {"error.internal", "an internal error, so it is refused", 4, 503},
	[REASON_AUDIT_LOST] = {"audit.lost", "events were lost", 5, 0},
	[REASON_AUDIT_RECOVERED] = {"audit.recovered", "completed after a crash", 3, 0},
	[REASON_AUDIT_CHECKPOINT] = {"audit.checkpoint", "signed checkpoint", 1, 0},
	[REASON_AUDIT_ROTATED] = {"audit.rotated", "the log goes on in another file", 1, 0},
	[REASON_AUDIT_CLOCK] = {"audit.clock", "the clock of this host was set", 3, 0},
	[REASON_POLICY_LOADED] = {"policy.loaded", "a policy came into force", 1, 0},
	[REASON_POLICY_REJECTED] = {"policy.rejected", "a policy was refused", 3, 0},
	[REASON_SANDBOX_START] = {"sandbox.start", "a sandbox started", 1, 0},
	[REASON_SANDBOX_EXIT] = {"sandbox.exit", "a sandbox ended", 1, 0},
	[REASON_SANDBOX_VIOLATION] = {"sandbox.violation", "a sandbox tried what it may not", 4, 0},
};

_Static_assert(sizeof(entries) / sizeof(entries[0]) == REASON_COUNT, "a line for every reason");

static const struct reason_entry *reason_find(enum reason reason)
{
	return &entries[reason < REASON_COUNT ? reason : REASON_ERROR_INTERNAL];
}

const char *reason_code(enum reason reason)
{
	return reason_find(reason)->code;
}

int reason_severity(enum reason reason)
{
	return reason_find(reason)->severity;
}

int reason_status(enum reason reason)
{
	return reason_find(reason)->status;
}

const char *reason_sentence(enum reason reason)
{
	return reason_find(reason)->sentence;
}
