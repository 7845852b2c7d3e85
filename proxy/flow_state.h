/* A flow from inside: shared by the files that hold its steps, and by nobody else. */
#ifndef ECLUSA_PROXY_FLOW_STATE_H
#define ECLUSA_PROXY_FLOW_STATE_H

#include "proxy/budget.h"
#include "proxy/dial.h"
#include "proxy/flow.h"
#include "proxy/passage.h"
#include "proxy/pool.h"
#include "proxy/record.h"
#include "proxy/socks.h"
#include "proxy/stream.h"
#include "proxy/websocket.h"
#include "proxy/worker_state.h"

#define FLOW_ID_BYTES     64
#define FLOW_DETAIL_BYTES 256

enum flow_state {
	FLOW_HEAD,
	FLOW_SOCKS,
	FLOW_CAPTURE,
	FLOW_COMMIT,
	FLOW_RESOLVE,
	FLOW_ESTABLISH,
	FLOW_HELLO,
	FLOW_SPLICE_HELLO,
	FLOW_DIAL,
	FLOW_VIA,
	FLOW_UPSTREAM_TLS,
	FLOW_LEAF,
	FLOW_CLIENT_TLS,
	FLOW_REQUEST,
	FLOW_EXCHANGE,
	FLOW_SPLICE_ANSWER,
	FLOW_PASSAGE,
	FLOW_REFUSE,
	FLOW_LINGER,
	FLOW_OVER,
	FLOW_STATE_COUNT
};

/** What a step says: call the next one, or wait for the world. */
enum flow_progress { FLOW_WAIT, FLOW_AGAIN };

/** Why the upstream side failed. */
struct flow_fault {
	enum reason reason;
	unsigned status;
	const char *error; /* RFC 9209 error type, or NULL */
	char detail[FLOW_DETAIL_BYTES];
};

/** One request and its response on their way. */
struct exchange {
	struct body_reader request_reader, response_reader;
	struct body_writer request_writer, response_writer;
	struct http1_scan scan; /* of the response's head */
	uint64_t request_limit, response_limit;
	unsigned client_minor;
	unsigned interims;
	char accept[WEBSOCKET_ACCEPT_BYTES]; /* of the 101 that was asked for; empty: none was */
	bool head_request;
	bool repeatable;       /* idempotent and without a body */
	bool reused;           /* on a connection that served another request before */
	bool repeated;         /* sent once more, since the reused connection had ended */
	bool expects_continue; /* and has not got it */
	bool client_close;     /* the connection ends with this response */
	bool upstream_close;
	bool request_done, answered, response_done;
};

struct flow {
	struct worker *worker;
	struct sandbox *sandbox;
	struct flow *next, **at; /* in the sandbox's list */
	struct flow *next_ready; /* in the worker's */
	bool is_ready;
	bool running;
	bool again; /* woken while running */
	bool cut;   /* the client gets a reset */
	enum flow_state state;
	uv_timer_t timer;
	uint64_t deadline_ms; /* of the loop's clock */
	uint64_t armed_ms;    /* when the timer fires; 0: not armed */
	char id[FLOW_ID_BYTES];
	struct flow_ends ends;
	struct stream *client;
	struct stream *upstream;
	struct pooled
		*parked; /* where upstream waits between two requests: pool.h; NULL: it is in use */
	bool served;     /* upstream has answered a request before */

	enum flow_door door;
	bool spoken;        /* the first bytes came: what the client speaks is known */
	size_t opening_len; /* of FLOW_DOOR_TRANSPARENT: bytes that were looked at */
	char question
		[SYNTHETIC_REQUEST_BYTES]; /* id of the question for the name; empty: of none */
	enum socks_stage socks;            /* of FLOW_DOOR_SOCKS: what its client waits for */
	bool tunnel;                       /* CONNECT was allowed, by HTTP or SOCKS */
	enum policy_transport transport;   /* what the tunnel carries */
	bool open; /* and requests can come: TLS towards the client stands, or there is none */
	bool head_begun;
	uint32_t lingered; /* bytes thrown away after the last word */
	struct host host;  /* that is decided on; name empty: not known yet */
	uint16_t port;
	enum policy_scheme scheme;
	struct snapshot *policy; /* that the rules here are of; its own reference */
	const struct rule *rule; /* that allowed what is being dialled */
	struct resolve_query *query;
	struct admitted_address *admitted; /* heap; between guard and dial */
	size_t admitted_count;
	uint8_t via_turn; /* which of them the upstream proxy is asked for */
	struct dial *dial;
	struct keeper_wait leaf;
	bool leaf_failed;
	struct address destination; /* connected, or the one that was refused */
	const struct rule
		*destination_rule;       /* the last that was found to admit the connected one */
	char refused[FLOW_DETAIL_BYTES]; /* addresses that the guard refused, for the record */
	struct tls_info *tls_info;       /* heap */
	struct flow_fault *fault; /* heap: how setting up the tunnel failed, to be said inside */

	struct flow *commit_next,
		**commit_at;   /* in the worker's list, while it waits for the disk */
	struct budget_use use; /* from the decision on what passes to the end of its record */
	struct record connect_record;
	struct record request_record;
	struct http1_scan scan;
	struct buf head; /* a judged request's fresh head, until it has an upstream */
	struct exchange x;
	struct passage passage;
};

/* flow.c */
/** Move on; only legal moves (flow.h). Sets the state's deadline. @return FLOW_AGAIN */
enum flow_progress flow_move(struct flow *f, enum flow_state next);
/** A deadline from now. */
void flow_deadline(struct flow *f, uint32_t ms);
/** Run steps until the flow waits; the wake-up of everything that a flow waits for. */
void flow_run(void *flow);
/** End in an orderly way, or with a reset where f->cut; open records are finished with @detail. */
enum flow_progress flow_over(struct flow *f, const char *detail);
/** End with resets: what was sent must not look complete. */
enum flow_progress flow_reset(struct flow *f, enum reason reason, const char *detail);
/** The record that the flow's next word belongs to, or NULL. */
struct record *flow_record(struct flow *f);
void flow_drop_upstream(struct flow *f);
/** What still waits to be sent has not passed: the request's record does not count it. */
void flow_uncount_unsent(struct flow *f);

/** Take over the policy in force; what was known of rules of an older one is forgotten. */
void flow_adopt(struct flow *f);

/* revoke.c */
/**
 * Ask the policy in force whether what the flow does may go on; if it may not, end it: refused if nothing was answered
 * yet, else cut. What passes unread can last for long: it goes on within the limits that it has now. @return whether a next step is
 * due: it was ended, passes bytes within other limits, or dials anew.
 */
bool flow_revoke(struct flow *f);

/* refuse.c */
/** A refusal or a failure, as the client and the audit get it. */
struct refusal {
	enum reason reason;
	unsigned status;     /* 0: the reason's */
	const char *error;   /* RFC 9209, or NULL: by the reason */
	const char *message; /* one sentence, or NULL */
	const char *hint;
	const struct rule *rule;
	const struct policy_question
		*question; /* what was asked; NULL: nothing that a rule could allow */
	const struct http1_request *request; /* NULL: not parsed */
	const struct budget_denial *budget;  /* the limit that was met, or NULL */
	bool unrecorded;                     /* its record was finished before */
	enum socks_reply socks;              /* to a client of SOCKS; 0: by the reason */
};
/** Record it, answer it, close. The answer ends the connection. */
enum flow_progress flow_refuse(struct flow *f, const struct refusal *r);
/** Refuse what waits unread as a request head, with a record of its own in which a tunnel's has no part. */
enum flow_progress flow_refuse_head(struct flow *f, const struct http_fault *why);
/** A message that was no valid one. @words: what can be said of it. */
enum flow_progress flow_refuse_fault(
	struct flow *f, const struct http_fault *fault, const struct record_words *words);
/** Refuse if nothing was answered yet, else reset. */
enum flow_progress flow_give_up(struct flow *f, const struct refusal *r);
/** A refusal where there is no one to answer: recorded, then closed without a byte. */
enum flow_progress flow_refuse_silently(struct flow *f, enum reason reason, const char *detail);
/** Upstream failed: said inside of the tunnel if that is being set up, else as a refusal. */
enum flow_progress flow_upstream_failed(struct flow *f, const struct flow_fault *fault);
enum flow_progress flow_step_refuse(struct flow *f);
enum flow_progress flow_step_linger(struct flow *f);

/* connect.c */
/** What the flow is about from now on. */
void flow_aim(struct flow *f, const struct host *host, uint16_t port);
/** The question about host, port and scheme. */
struct policy_question flow_question(const struct flow *f);
/** Policy said no. @r: the request, or NULL. */
enum flow_progress flow_refuse_verdict(struct flow *f, const struct policy_verdict *v,
	const struct policy_question *q, const struct http1_request *r);
/**
 * A tunnel to f->host and f->port was asked for, and connect_record says by whom. @r: by this request, or NULL. @len: bytes of the
 * client's message, which are dropped.
 */
enum flow_progress flow_judge_tunnel(struct flow *f, const struct http1_request *r, size_t len);
/**
 * The tunnel's first bytes are of this scheme: ask for it, if it is not the one by which the tunnel was allowed. @return whether requests of it
 * may come; else *ret says why not.
 */
bool flow_take_scheme(struct flow *f, enum policy_scheme scheme, struct policy_verdict *ret);

/* socks_door.c */
/** Whether the first bytes are those of SOCKS, of whatever version. */
bool flow_is_socks(const struct flow *f);
enum flow_progress flow_socks_begin(struct flow *f);
enum flow_progress flow_step_socks(struct flow *f);
enum flow_progress flow_socks_expired(struct flow *f);
/** A refusal, in the words of SOCKS. */
int flow_socks_refuse(struct flow *f, const struct refusal *r);

/* transparent.c */
/** Of a captured connection: what it is about. */
void flow_capture_aim(struct flow *f);
enum flow_progress flow_step_capture(struct flow *f);
enum flow_progress flow_capture_expired(struct flow *f);
/** A tunnel that was captured is allowed: its hello is judged next, if it has one. */
enum flow_progress flow_capture_judged(struct flow *f);
/** @usual, or what says that the name belongs to another address than the one that was asked for. */
enum reason flow_mismatch(const struct flow *f, enum reason usual);
/** The first bytes of a tunnel may pass: find its host, or dial it where that was done before the client spoke. */
enum flow_progress flow_tunnel_heard(struct flow *f);
/** A refusal, to a client of which nothing but the first bytes is known: an alert of TLS, or a reset. */
int flow_capture_refuse(struct flow *f, const struct refusal *r);

/* inspect.c */
enum flow_progress flow_step_head(struct flow *f);
enum flow_progress flow_step_request(struct flow *f);

/* spend.c */
/**
 * Begin what the record's rule allowed, in f->use; it ends with the record. @up_bytes: that it is known to send. @return false: a limit
 * of the rule is met, see *ret, and flow_refuse_use() says so.
 */
bool flow_use_begin(struct flow *f, struct record *r, uint64_t up_bytes, struct budget_denial *ret);
/** Count bytes that are about to pass. @return false: there is no room for them, so they must not, and nothing was counted. */
bool flow_spend_up(struct flow *f, uint64_t bytes);
bool flow_spend_down(struct flow *f, uint64_t bytes);
/** Refuse for a limit, or cut. @request NULL: not at hand. */
enum flow_progress flow_refuse_use(
	struct flow *f, const struct budget_denial *d, const struct http1_request *request);
/** There was no room, or no time: refuse or cut. */
enum flow_progress flow_use_spent(struct flow *f, enum budget_kind kind);
bool flow_use_expired(const struct flow *f);
/** What passes goes on within the limits of another rule. */
void flow_use_renew(struct flow *f, const struct rule *rule);
/** By record_close() only. */
void flow_use_end(struct flow *f, struct record *r);

/* commit.c */
/** A decision was written: go on to flow_connect(), where a profile asks for it once the disk has the decision. */
enum flow_progress flow_commit(struct flow *f, const struct record *r);
enum flow_progress flow_step_commit(struct flow *f);
enum flow_progress flow_commit_expired(struct flow *f);
/** It waits no longer. */
void flow_commit_drop(struct flow *f);

/* upstream.c */
/** Get the request or the new tunnel its upstream: reuse, or look up, guard and dial. */
enum flow_progress flow_connect(struct flow *f);
enum flow_progress flow_step_resolve(struct flow *f);
enum flow_progress flow_step_dial(struct flow *f);
enum flow_progress flow_step_upstream_tls(struct flow *f);
/** The rule by which an address is judged: the request's; for a tunnel whose requests will have their own, any that opens it. */
const struct rule *flow_rule_for(const struct flow *f, const struct address *a);
/** The way to the host stands: speak TLS, or go on. */
enum flow_progress flow_connected(struct flow *f);

/* via.c */
/** Whether everything goes through another proxy. */
bool flow_has_via(const struct flow *f);
/** Begin to dial it. @return NULL when out of memory. */
struct dial *flow_via_dial(struct flow *f);
/** It is connected: ask it for the host. */
enum flow_progress flow_via_begin(struct flow *f);
enum flow_progress flow_step_via(struct flow *f);

/* tunnel.c */
enum flow_progress flow_step_establish(struct flow *f);
enum flow_progress flow_step_hello(struct flow *f);
/** The tunnel's first bytes are no TLS: requests, where a rule takes http there. */
enum flow_progress flow_not_tls(struct flow *f);
enum flow_progress flow_step_leaf(struct flow *f);
enum flow_progress flow_step_client_tls(struct flow *f);

/* splice.c */
enum tls_alert { /* RFC 8446 6 */
	TLS_ALERT_DECODE_ERROR = 50,
	TLS_ALERT_ACCESS_DENIED = 49,
	TLS_ALERT_INTERNAL_ERROR = 80,
	TLS_ALERT_UNRECOGNIZED_NAME = 112,
};
/** Refuse TLS of which nothing was answered: an alert in the clear is what a client understands. */
enum flow_progress flow_refuse_hello(
	struct flow *f, enum tls_alert alert, enum reason reason, const char *detail);
enum flow_progress flow_step_splice_hello(struct flow *f);
/** The upstream of a spliced tunnel stands: send the hello on. */
enum flow_progress flow_splice_begin(struct flow *f);
enum flow_progress flow_step_splice_answer(struct flow *f);
enum flow_progress flow_splice_expired(struct flow *f);
/** The client of a spliced tunnel, whose hello was not answered, is told of a failure. */
enum flow_progress flow_splice_failed(struct flow *f, const struct flow_fault *fault);

/* passage.c */
/**
 * A rule allowed the tunnel: what it carries, and where no requests are seen in it, a use of the rule. @return false: a limit of the
 * rule is met, see *ret.
 */
bool flow_tunnel_allowed(struct flow *f, struct budget_denial *ret);
/** Both ends stand: from now on bytes pass. */
void flow_passage_init(struct flow *f);
enum flow_progress flow_passage_begin(struct flow *f);
enum flow_progress flow_step_passage(struct flow *f);
enum flow_progress flow_passage_expired(struct flow *f);
/** Throw away what is on its way: it has not passed. */
void flow_passage_drop(struct flow *f);

/* relay.c */
/** The upstream stands: send the head on and begin. */
enum flow_progress flow_exchange_begin(struct flow *f);
enum flow_progress flow_step_exchange(struct flow *f);
/** Nothing moved for limits.idle_ms. */
enum flow_progress flow_exchange_expired(struct flow *f);

#endif
