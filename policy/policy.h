/*
 * A compiled policy: immutable, shared by reference, asked for verdicts. Pure: no I/O, no clock of its own.
 * Text becomes a bundle (source.h) and a bundle a policy (this file), so that a process without a
 * file system can compile what another one read.
 */
#ifndef ECLUSA_POLICY_POLICY_H
#define ECLUSA_POLICY_POLICY_H

#include "common/digest.h"
#include "common/failure.h"
#include "common/reason.h"
#include "policy/host.h"
#include "policy/target.h"

enum policy_scheme { POLICY_SCHEME_HTTP, POLICY_SCHEME_HTTPS };

struct policy;  /* owned by policy_compile()'s caller */
struct profile; /* borrowed from its policy */

#define POLICY_UNLIMITED  UINT64_MAX
#define POLICY_UP_DEFAULT (UINT64_C(1) << 20)

/** What a connection that a rule allows carries. */
enum policy_transport {
	POLICY_INSPECT, /* requests that are judged one by one: plain HTTP, or TLS that ends here */
	POLICY_SPLICE,  /* tls=splice: TLS whose ClientHello is judged, then bytes */
	POLICY_TCP,     /* a tcp target: bytes of anything but TLS and HTTP */
};

/**
 * What a rule grants to one sandbox beyond single messages; POLICY_UNLIMITED and 0 as said. A use is a request,
 * or a connection where no requests are seen.
 */
struct rule_budget {
	uint64_t
		up_bytes; /* towards the host, heads included; POLICY_UP_DEFAULT or more unless said */
	uint64_t down_bytes; /* POLICY_UNLIMITED unless said; likewise below */
	uint64_t requests;   /* uses in a window */
	uint64_t
		window_ms; /* up, down and requests begin anew with each; 0: they hold for the sandbox's life */
	uint64_t max_uses;  /* in the sandbox's life */
	uint64_t rate_uses; /* in rate_ms, which is 0 for no limit */
	uint64_t rate_ms;
	uint64_t connections; /* uses at once */
	uint64_t time_ms;     /* a use's longest life */
};

/** What of a rule other parts need. Borrowed from its policy. */
struct rule {
	const char *id;    /* id= or "<file>:<line>" */
	const char *file;  /* as the user named it; "--allow" for rules of the command line */
	unsigned line;     /* 1-based; for --allow the number of the option */
	const char *text;  /* the rule as written, one line */
	const char *owner; /* NULL when absent; likewise ticket */
	const char *ticket;
	/* the same for the same rule in the next version of the files; counters go by it */
	uint64_t key;
	struct rule_budget budget;
	uint64_t req_body_bytes; /* limits of one message */
	uint64_t resp_body_bytes;
	const struct cidr *addresses; /* addr= beyond public ones, or those of an ip: target */
	size_t address_count;
	const struct slice
		*header_deny; /* names of fields that no request may have, in lower case */
	size_t header_deny_count;
	/* Read by each decision: together at the end, where what the matcher asks follows in memory. */
	enum policy_transport transport;
	bool allow;
	bool encoded_slash;
	bool query_denied;
	bool observe;   /* mode=observe: what it would refuse passes, and is recorded */
	bool websocket; /* upgrade=websocket */
};

/** A question. For policy_decide_host() method, path and what belongs to them do not count. */
struct policy_question {
	const struct host *host;
	uint16_t port;
	enum policy_scheme scheme;
	struct slice method;
	struct slice path; /* normalised */
	bool has_query;
	bool encoded_slash;
	uint64_t now_ms; /* wall clock, for expires= */
	bool enforce;    /* as if nothing was observed: what is said when mode=observe ends */
	bool unread;     /* the bytes are neither TLS nor HTTP: for policy_suggest() alone */
};

#define POLICY_DETAIL_BYTES 256

/**
 * An answer. @rule: the one that decided; of a denial the one that came nearest, NULL when no rule names the host. With
 * REASON_OBSERVE_WOULD_DENY it is the most specific rule for the host that observes, never NULL: where a
 * profile observes and no rule of it names the host, one with id "observe" and the place of the set line.
 */
struct policy_verdict {
	enum reason reason;
	enum reason would; /* with REASON_OBSERVE_WOULD_DENY: the reason that enforcing has */
	const struct rule *rule;
	char detail
		[POLICY_DETAIL_BYTES]; /* one sentence for people: what was wrong and what the near rule allows */
};

#define POLICY_DIAGNOSTICS_MAX 100

enum policy_severity {
	POLICY_ERROR,   /* the policy does not load, or should not be used */
	POLICY_WARNING, /* it loads, and deserves a look */
	POLICY_NOTE,    /* what a spelling comes to; nothing is wrong */
	POLICY_SEVERITY_COUNT
};

/** "error", "warning", "note". */
const char *policy_severity_name(enum policy_severity severity);

/** A finding in policy text. Prints as file:line:column: severity: CODE: text. */
struct policy_diagnostic {
	char file[256];
	unsigned line;
	unsigned column;
	enum policy_severity severity;
	char code[32];
	char text[256];
};

struct policy_report {
	struct policy_diagnostic items[POLICY_DIAGNOSTICS_MAX];
	size_t count;
	size_t errors;  /* also those beyond items[] */
	size_t expects; /* expect lines that were judged, and those of them that were wrong */
	size_t expects_failed;
};

/** Format as one line without newline. @return to */
char *policy_diagnostic_format(const struct policy_diagnostic *d, char *to, size_t capacity);

/**
 * Compile a bundle. @report (may not be NULL) gets findings in order of place. @return 0; -EINVAL with
 * at least one error in the report and *ret_policy untouched; -ENOMEM.
 */
int policy_compile(struct slice bundle, struct policy **ret_policy, struct policy_report *report);
void policy_free(struct policy *p);

/** By name, or the only profile when @name is NULL or "". On failure the line names the profiles there are. */
int policy_profile(
	const struct policy *p, const char *name, const struct profile **ret, struct failure *why);
/** In order of place; NULL after the last one. */
const struct profile *policy_profile_at(const struct policy *p, size_t index);
const char *profile_name(const struct profile *p);
/** set commit before: a decision that lets something pass is on the disk before a byte of it leaves. */
bool profile_commits_before(const struct profile *p);
/** sha256 of the canonical dump of the profile's effective rules, and of what it sets beside them, hex. */
const char *profile_digest(const struct profile *p);

/**
 * Could some connection to this host, port and scheme be allowed? Asked before a name is looked up. An allow
 * names the most specific rule, and that rule's transport says what follows: POLICY_INSPECT, requests that are judged
 * one by one (for addresses and limits ask again with each); POLICY_SPLICE (REASON_ALLOW_SPLICE); POLICY_TCP, which
 * has no scheme and answers to both. A literal address is judged by ip: rules alone; where none that allows opens it,
 * its class answers: deny.address-metadata, deny.address-private, or deny.default for a public one.
 */
void policy_decide_host(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret);
/**
 * Could a tunnel to this host and port be of use, whatever it carries? Asked as https, and where that is refused as http; the scheme of the
 * question does not count. Which of them it is the first bytes tell, and then it is asked again. @return the scheme that the verdict is about
 */
enum policy_scheme policy_decide_tunnel(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret);
/**
 * The verdict on one request. An allow names the most specific allow rule; its limits hold. Rules that pass bytes
 * unread allow no request.
 */
void policy_decide(
	const struct profile *p, const struct policy_question *q, struct policy_verdict *ret);

/**
 * Whether some profile lets inspected TLS to this host begin on some port (the keeper signs no other name).
 * Addresses, too: those that an inspecting ip: rule opens.
 */
bool policy_admits_name(const struct policy *p, const struct host *host, uint64_t now_ms);
/**
 * Whether some connection to this host could be of use, on whatever port and whatever it carries: what the proxy's DNS answers by. An allow is
 * the verdict on the first such port, a denial the one that says most of the host as a whole.
 */
void policy_admits_host(const struct profile *p, const struct host *host, uint64_t now_ms,
	struct policy_verdict *ret);

/**
 * Whether some allow rule, expired or not, names a host below @host: it exists in the DNS then, whether it has an address or not
 * (RFC 8020, RFC 4592 2.2.2).
 */
bool policy_has_below(const struct profile *p, const struct host *host);

/**
 * Whether an address may be dialled for a decision of @rule: public ones, and what its addr= or ip: opens. A
 * metadata endpoint opens only by its own address, never by a prefix around it.
 * @return REASON_ALLOW_RULE or the deny reason (address-metadata, address-private).
 */
enum reason policy_admit_address(const struct rule *rule, const struct address *a);

/**
 * A rule that allows something on this host, port and scheme and whose addr= or ip: names the address; NULL: there is none. For a tunnel,
 * which is dialled before its requests are known; each request's own rule has to admit the address again.
 */
const struct rule *policy_rule_opening(
	const struct profile *p, const struct policy_question *q, const struct address *a);

/** The first moment after @now_ms at which a rule expires, so that an answer may change; UINT64_MAX: never. */
uint64_t policy_next_expiry(const struct policy *p, uint64_t now_ms);

/** Call @visit for every prefix that some rule's addr= or ip: opens, with its ports (packet filter). */
typedef void policy_visit_opened(
	const struct cidr *prefix, uint16_t port_first, uint16_t port_last, void *arg);
void policy_opened(const struct policy *p, policy_visit_opened *visit, void *arg);

/** Call @visit for every prefix of a profile's ip: rules that allow something, also twice: whoever asks for an address of it is let in. */
typedef void policy_visit_prefix(const struct cidr *prefix, void *arg);
void policy_asked_by_address(const struct profile *p, policy_visit_prefix *visit, void *arg);

/**
 * The narrowest rule text that would admit the question, as `--allow` takes it: "h:8443 POST /v1/x". @nearest: the allow rule
 * for the same host that came nearest, whose addr= the host needs as well; or NULL. Empty where no rule can (a method in lower
 * case) or should (an address that is not public) or it does not fit. Holds peer bytes, all printable ASCII. @return to
 */
char *policy_suggest(
	const struct policy_question *q, const struct rule *nearest, char *to, size_t capacity);

#endif
