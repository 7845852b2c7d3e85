/*
 * One audit event: what happened, as data, and its OCSF 1.8 line (audit.md 1.3). Peer text in it is
 * escaped, redacted and cut here and nowhere else.
 */
#ifndef ECLUSA_AUDIT_EVENT_H
#define ECLUSA_AUDIT_EVENT_H

#include "audit/chain.h"
#include "audit/checkpoint.h"
#include "common/address.h"
#include "common/buf.h"
#include "common/id.h"
#include "common/reason.h"

#define AUDIT_LINE_BYTES_MAX 8192 /* what syslog receivers should take (RFC 5425) */
#define AUDIT_FILES_MAX      32   /* named in one event; the rest is counted */
#define AUDIT_EVENT_BYTES    752  /* of the struct on the way, see packed.c */

enum audit_class {
	AUDIT_HTTP,
	AUDIT_NETWORK,
	AUDIT_DNS,
	AUDIT_PROCESS,
	AUDIT_ENTITY,
	AUDIT_LIFECYCLE
};

/** A question for a name, and what the proxy's own DNS answered. */
struct audit_dns {
	struct slice name;        /* that was asked for, with dots; peer text */
	const char *type, *class; /* of the record that was asked for, such as "AAAA", "IN" */
	unsigned rcode;           /* RFC 6895 */
	struct address answer;    /* family 0: none */
	uint32_t ttl_s;           /* of it */
	bool udp;
};

/** A file that went in or came out. */
struct audit_file {
	const char *name;
	uint64_t size;      /* UINT64_MAX: not known, such as a folder's */
	const char *sha256; /* NULL: not known */
};

/** Borrowed pointers; NULL, 0 or empty slice = not known. Times are wall ms UTC. */
struct audit_event {
	enum audit_class class;
	unsigned activity; /* OCSF activity_id of the class */
	enum reason reason;
	const char *uid; /* UUIDv7, metadata.uid; the same in a decision and its final event */
	const char *correlation; /* request id */
	const char *detail;      /* status_detail */
	bool open;               /* under way: another event, of its own uid, tells the end */
	bool recovered;          /* completed after a crash: unmapped.eclusa.recovered */
	uint64_t start_ms, end_ms;

	const char *sandbox_id, *sandbox_name;
	const char *profile, *policy_version;
	const char *policy_before,
		*policy_origin; /* entity events: the digest before, and what is in force */
	const char *
		policy_signer; /* key that signed it: id of the key, NULL or "": none was asked for */
	bool policy_stale;     /* not what the files say now: unmapped.eclusa.policy_stale */
	bool observe;          /* the rule that decided only observes, */
	enum reason
		would; /* and this is what it has when it enforces; REASON_ALLOW_RULE: the same */
	const char *rule_id, *rule_place,
		*rule_text; /* rule_place = file:line; NULL id = default */
	uint64_t rule_line; /* rule_place is the file alone; 0: it has the line */
	const char *rule_owner, *rule_ticket;
	bool rule_allows;

	const char *door;                   /* explicit, socks5, transparent, dns, packet */
	const char *tls_mode;               /* inspect, splice */
	const char *connection;             /* connection id */
	struct address source, destination; /* family 0 = unknown */
	uint16_t source_port, destination_port;
	struct slice host;                           /* decided on */
	struct slice connect_host, sni, host_header; /* when they differ: host_sources */

	struct slice method, scheme, path; /* path without query; peer text */
	bool has_query;
	uint64_t query_bytes;   /* its length without '?'; its text is never known here */
	bool encoded_slash;     /* in the path */
	bool upstream_reused;   /* on a connection to the host that had served another request */
	bool address_unchecked; /* a proxy beyond ours chose the host's address */
	uint64_t request_body_bytes, response_body_bytes; /* without framing; as far as they came */
	struct slice user_agent, content_type;
	unsigned status;
	uint64_t bytes_in, bytes_out; /* in = towards the sandbox, out = left the sandbox */
	const struct audit_dns *dns;  /* of AUDIT_DNS */
	const char *tls_version, *tls_cipher, *tls_certificate_subject, *tls_certificate_issuer,
		*tls_certificate_serial;

	const char *suggestion;    /* --allow text that would admit it: unmapped.eclusa.allow */
	uint64_t count;            /* aggregated refusals */
	const char *address_class; /* class of a refused packet */
	const char *subject;       /* what was refused, in words, where there is no host */

	char *const *argv; /* process events */
	int64_t pid;
	const char *verdict;
	int exit_code, signal; /* exit_code < 0: there is none */
	uint64_t wall_ms, cpu_ms, memory_peak_bytes;
	bool has_user; /* who ran it: actor.user */
	uint32_t user_uid;
	const char *user_name;
	const struct audit_file *files; /* inputs of a start, results of an exit */
	size_t file_count; /* at most AUDIT_FILES_MAX of them are read: the rest is counted */

	const struct checkpoint *checkpoint; /* of audit.checkpoint */
	const struct chain *index; /* of a chain's first line: where the folder's index was */

	bool packed; /* texts are redacted and cut already (packed.h), in so many places: */
	unsigned redactions, cuts;
	uint64_t mono_ns; /* of the monotonic clock; 0: now */

	struct address proxy; /* where the sandbox reached the proxy: proxy_endpoint */
	uint16_t proxy_port;
};

/** An event's line without what only the segment writer knows: its bytes, and where metadata ends. */
struct audit_entry {
	struct slice line;
	size_t metadata_end;
};

/**
 * Append the event to @out as a line without newline, metadata last but one and unmapped last, so that the
 * segment writer can add what only it knows: sequence and logged_time at *ret_metadata_end (an offset
 * from the line's first byte, just before metadata's closing brace).
 * @return 0, -ENOBUFS when it can't be made to fit AUDIT_LINE_BYTES_MAX even cut, -ENOMEM.
 */
int audit_event_write(const struct audit_event *e, struct buf *out, size_t *ret_metadata_end);

#endif
