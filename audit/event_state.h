/* An event on its way to text: shared by event*.c, and by nobody else. */
#ifndef ECLUSA_AUDIT_EVENT_STATE_H
#define ECLUSA_AUDIT_EVENT_STATE_H

#include "audit/event.h"
#include "common/json.h"

/* Limits in bytes of the line, escapes included. */
#define URL_BYTES          2048
#define USER_AGENT_BYTES   256
#define COMMAND_LINE_BYTES 1024
#define HOST_BYTES         256
#define METHOD_BYTES       32
#define MESSAGE_BYTES      512
#define NAME_BYTES         128
#define SUGGESTION_BYTES   1024
#define CUT_PASSES         4     /* limits halved so often at most */
#define RAW_BYTES_MAX      16384 /* of a text before redaction */
/* What the segment writer adds: sequence, times, device, boot id, recovery marks, the chain. */
#define ADDED_BYTES_MAX (512 + CHAIN_SEAL_BYTES_MAX)

enum event_action { ACTION_NONE, ACTION_ALLOWED, ACTION_DENIED };

/** An event on its way to text. */
struct event_writer {
	struct json j;
	const struct audit_event *e;
	unsigned pass; /* limits are shifted right by it */
	unsigned redactions, cuts;
	struct buf scratch;
};

/* event.c */
/** Write what is in the scratch buffer, cut. */
void event_write_scratch(struct event_writer *w, const char *key, size_t limit);
/** What is looked at of a text at all. */
struct slice event_cut_raw(struct event_writer *w, struct slice text);
/** Peer text behind others, redacted. */
void event_append_peer(struct event_writer *w, struct slice text, struct buf *to);
/** Peer text. Nothing is written for an empty one. */
void event_write_peer(struct event_writer *w, const char *key, struct slice text, size_t limit);
/** Our own or the operator's text. Nothing is written for NULL or "". */
void event_write_own(struct event_writer *w, const char *key, const char *text, size_t limit);
void event_write_host(struct event_writer *w, const char *key, struct slice host);
void event_write_address(struct event_writer *w, const struct address *a, uint16_t port);
enum event_action event_action_of(const struct audit_event *e);

/* event_network.c */
/** "scheme://host[:port]/path" or, without a scheme (CONNECT, raw TCP), "host:port". @return redactions */
unsigned event_append_url(const struct audit_event *e, struct buf *to);
void event_write_policy(struct event_writer *w);
void event_write_endpoints(struct event_writer *w);
void event_write_traffic(struct event_writer *w);
void event_write_dns(struct event_writer *w);
void event_write_http(struct event_writer *w);
void event_write_tls(struct event_writer *w);

/* event_process.c */
void event_write_container(struct event_writer *w);
void event_write_actor(struct event_writer *w);
void event_write_process(struct event_writer *w);
void event_write_usage(struct event_writer *w);
/** What went into a sandbox or came out of it; fewer of them, too, in a smaller event. */
void event_write_files(struct event_writer *w);

#endif
