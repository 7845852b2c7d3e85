/*
 * A decision of the audit log as a policy is asked about it: what `suggest` and `replay` read. The log may come from anywhere;
 * whatever is taken out of it here was judged as a peer's bytes are, and holds nothing that policy text could not.
 */
#ifndef ECLUSA_CLI_RECORDED_H
#define ECLUSA_CLI_RECORDED_H

#include "audit/reader.h"
#include "policy/policy.h"

enum recorded_kind {
	RECORDED_REQUEST,  /* a request, or a tunnel */
	RECORDED_REDACTED, /* likewise, but a part of its path is not known */
	RECORDED_CUT,      /* likewise, but its path was too long for the line */
	RECORDED_INVALID, /* it had no valid host, method or path, or the line is not what we write */
	RECORDED_PACKETS, /* packets that the gateway refused */
	RECORDED_OTHER,   /* no decision */
	RECORDED_KIND_COUNT
};

/** Points into itself and into the line: stays where it was made, as long as the visit. */
struct recorded {
	enum recorded_kind kind;
	enum reason reason; /* that it got */
	enum reason
		would; /* what enforcing would have said where observe mode let it pass; else REASON_ALLOW_RULE */
	bool observing; /* the rule that decided observes */
	bool passed;    /* policy let it pass; what happened later is another matter */
	bool connect;   /* a tunnel: no method, no path */
	enum policy_transport transport;
	bool websocket;                  /* the host switched to it */
	struct policy_question question; /* now_ms 0: the caller's to say */
	struct host host;
	struct slice path; /* with its redaction marks, where it has any; empty: a tunnel */
	struct address destination; /* family 0: none was reached */
	uint64_t request_body_bytes, response_body_bytes, bytes_out;
	uint64_t time_ms;
	const char *profile;                    /* a valid name */
	struct slice uid, sandbox, rule, place; /* whatever stands there */
};

/** How a redacted part of a path looks; whole segments that hold one are not known. */
#define RECORDED_MARK     "[redacted:"
#define RECORDED_CUT_MARK "[cut:"

void recorded_take(const struct audit_line *line, struct recorded *ret);

/** What is counted where a line can't be used: "redacted path", ... */
const char *recorded_kind_name(enum recorded_kind kind);
/** The reason of a code, such as "deny.path". @return false: there is none. */
bool recorded_reason(struct slice code, enum reason *ret);

#endif
