/*
 * Every size that a peer can grow in the proxy's codecs, and its number. A peer is at worst the
 * agent's own code or a hostile origin: what is over a limit is refused, never cut short and passed
 * on.
 */
#ifndef ECLUSA_PROXY_LIMITS_H
#define ECLUSA_PROXY_LIMITS_H

#include "common/failure.h"
#include "common/slice.h"

/* HTTP/1.1 heads, requests and responses alike. What has a setting can be set up to this. */
#define HTTP1_LINE_BYTES_MAX         16384 /* request line or status line; 414 */
#define HTTP1_HEAD_BYTES_MAX         65536 /* the whole head, line and blank line included; 431 */
#define HTTP1_FIELDS_MAX             256   /* field lines of one head; 431 */
#define HTTP1_METHOD_BYTES_MAX       32    /* 501 */
#define HTTP1_CONNECTION_OPTIONS_MAX 32    /* options of all Connection fields; 431 */
#define HTTP1_REASON_BYTES_MAX       128 /* reason phrase that is passed on; longer ones are cut */

#define INTERIMS_MAX 1024 /* responses of status 1xx to one request */

/* HTTP/1.1 bodies */
#define BODY_CHUNK_DIGITS_MAX   16    /* hex digits of one chunk size: what 64 bits hold */
#define BODY_CHUNK_LINE_BYTES   4096  /* a chunk-size line with its extensions */
#define BODY_TRAILER_BYTES_MAX  65536 /* the whole trailer section */
#define BODY_TRAILER_FIELDS_MAX 256
#define BODY_LENGTH_MAX         INT64_MAX /* largest Content-Length */

/* TLS and leaves */
#define TLS_ROOTS_BYTES_MAX   ((size_t)16 << 20) /* one PEM bundle of roots */
#define TLS_TICKETS_MAX       32                 /* of one sandbox, to resume sessions with hosts */
#define TLS_CHAINS_MAX        1024 /* of hosts, whose signatures a worker need not check again */
#define LEAF_CACHE_MAX        1024 /* leaves that one worker keeps */
#define LEAF_CACHE_SHARE      8 /* a sandbox that has this part of a full cache gets no more of it */
#define LEAF_DER_BYTES_MAX    2048
#define LEAF_LIFETIME_SECONDS (24 * 3600)
#define LEAF_BACKDATE_SECONDS 300  /* clients whose clock is a little slow */
#define LEAF_RENEW_SECONDS    3600 /* a cached leaf with less left is minted anew */
#define CA_LIFETIME_SECONDS   (25 * 3600)

/* Flows */
#define STREAM_BUFFER_BYTES   65536 /* decrypted bytes that wait in one direction of one connection */
#define STREAM_READ_BYTES     16384 /* taken at once: a TLS record; more of plain bytes in a row */
#define FLOW_TURN_STEPS       16    /* steps of one flow before the others get their turn */
#define LISTENER_TURN_ACCEPTS 8     /* connections accepted before the others get their turn */
/* Thrown away behind a refused request, so that its answer arrives: more than the buffers of both ends hold,
 * for what is on its way when the answer is sent must not end in a reset. Bytes are dropped unread, by the kernel. */
#define LINGER_BYTES_MAX (16U << 20)
#define PIPE_BYTES       262144 /* asked for, of a pipe between two sockets */
#define VIA_TRIES_MAX    4      /* of a host's addresses that an upstream proxy is asked for */
#define POOL_CONNECTIONS_MAX                                                                       \
	4096 /* to hosts, that wait for another request, all sandboxes of a worker */
#define PIPE_POOL_MAX         32 /* empty pipes that a worker keeps */
#define RESOLVE_ADDRESSES_MAX 16 /* of each family, of one name; what is beyond is not looked at */
#define RESOLVE_QUERIES_MAX   4096 /* look-ups at once, all sandboxes of a worker */
#define KEEPER_REQUESTS_MAX   1024 /* names that wait for the keeper at once */
#define AUDIT_RAW_HOST_BYTES  512  /* kept of a target that is not valid */

/* Budgets */
#define BUDGET_COUNTERS_MAX  65536 /* rules in use, of all sandboxes of a worker */
#define BUDGET_SANDBOXES_MAX 4096  /* of a worker */

/* DNS */
#define SYNTHETIC_NAMES_MAX      512  /* addresses of one sandbox */
#define DNS_MESSAGE_BYTES_MAX    1232 /* a question or an answer, by UDP and TCP */
#define DNS_ANSWER_BYTES_MIN     320  /* header, the longest question and an answer's fixed part */
#define DNS_TTL_SECONDS          30   /* of an address */
#define DNS_NEGATIVE_TTL_SECONDS 5
#define DNS_NOTES_MAX                                                                              \
	64 /* names of a sandbox that the log tells one by one, and that get an address, in a second */
#define DNS_CONNECTIONS_MAX 16 /* by TCP, of one sandbox at once */
#define DNS_TURN_QUESTIONS  64 /* before the others get their turn */

/** Deadlines, counts and sizes that a setting changes; one copy a worker, constant once it runs. */
struct limits {
	uint32_t connections;      /* of one sandbox at once */
	uint32_t handshakes;       /* TLS with one sandbox begins in a second, as many at once */
	uint32_t buffer_bytes;     /* that wait in all connections of one sandbox */
	uint32_t header_ms;        /* from a head's first byte to its last, whatever trickles in */
	uint32_t handshake_ms;     /* each TLS handshake, either side */
	uint32_t dial_ms;          /* all attempts to connect */
	uint32_t dial_delay_ms;    /* until the next address is tried beside (RFC 8305 5) */
	uint32_t dns_ms;           /* both questions */
	uint32_t dns_grace_ms;     /* the other family's time once one has an address */
	uint32_t keeper_ms;        /* a leaf from the keeper */
	uint32_t idle_ms;          /* without a byte in either direction */
	uint32_t commit_ms;        /* until the disk has a decision, where that is waited for */
	uint32_t open_ms;          /* from a decision to an event that it is under way */
	uint32_t open_bytes;       /* the same, by what has passed */
	uint32_t pool_connections; /* to hosts, of one sandbox, that wait for another request */
	uint32_t pool_lend_ms;     /* after so long another tunnel may take it */
	uint32_t pool_idle_ms;     /* for so long */
	uint32_t pool_fresh_ms;    /* for so long where the request can't be sent again */
	uint32_t ticket_ms;        /* a host's TLS session may be resumed */
	uint32_t leave_ms;         /* for what is under way when the proxy alone is asked to end */
	uint32_t lease_ask_ms;     /* until a launcher that connected to a service has asked */
	uint32_t lease_made_ms;    /* until a service has made a network */
	uint32_t lease_record_ms;  /* until a sandbox's last events are in the log */
	uint32_t lease_tell_ms;    /* until its launcher has told its end, after that */
	uint32_t linger_ms;        /* until a client that was answered has to be gone */
	uint32_t questions;        /* for names, of one sandbox in a second */
	uint32_t question_ms;      /* by TCP, for a whole one, and until the next one has come */
	uint32_t note_ms;          /* until what was asked is in the log */
	uint32_t line_bytes;       /* request line or status line */
	uint32_t head_bytes;       /* the whole head */
	uint32_t head_fields;
	uint32_t method_bytes;
	uint32_t connection_options; /* of all Connection fields of a head */
	uint32_t chunk_line_bytes;
	uint32_t trailer_bytes; /* the whole section */
	uint32_t trailer_fields;
	uint32_t interims; /* responses of status 1xx to one request */
};

/** What holds when nothing is set. */
struct limits limits_default(void);
/** The most that can be set, which is also what holds for who has no limits: @limits, or these where it is NULL. */
const struct limits *limits_or_largest(const struct limits *limits);
/** Take "key=number,key=number", keys as the members are called, numbers from 1 to the largest. @return 0, -EINVAL: *limits is unchanged. */
int limits_parse(struct slice text, struct limits *limits);
/** Take those of ECLUSA_LIMITS, if there is one: deadlines for tests. */
int limits_of_environment(struct limits *limits, struct failure *why);

#endif
