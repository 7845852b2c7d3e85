/*
 * What the sinks over HTTP have in common: the waiting events of a batch become POST requests in the envelope of their kind, and the
 * answer gives each event its fate. A request that is refused for an event in it is halved until that event is alone: only it
 * is poison. Whoever refuses the credentials, or is not the receiver that was meant, gets all of it again later.
 */
#ifndef ECLUSA_EXPORT_HTTP_SINK_H
#define ECLUSA_EXPORT_HTTP_SINK_H

#include "common/id.h"
#include "export/acks.h"
#include "export/verdict.h"

#define HTTP_URL_BYTES (EXPORT_VALUE_BYTES + 160) /* with what a kind appends */

/** How a kind wraps events up, and reads answers. Errors of writing are sticky in the buf. */
struct envelope {
	const char *content_type;
	const char *scheme;      /* before the secret in Authorization, such as "Splunk " */
	const char *credentials; /* the setting that names the secret's file */
	void (*begin)(const struct sink *s, struct buf *to); /* NULL: nothing */
	/** @return false when this event can't be sent: then it is poison, and nothing was written. */
	bool (*add)(const struct sink *s, struct sink_line *line, bool first, struct buf *to);
	void (*end)(const struct sink *s, struct buf *to); /* NULL: nothing */
	/** May change fates if it returns VERDICT_SORTED. @why is what verdict_say() says, and may be replaced. */
	enum verdict (*judge)(struct sink *s, const struct http_answer *answer,
		const struct parcel *parcel, char why[static SINK_WHY_BYTES]);
};

struct sink {
	const struct sink_config *config;
	const struct envelope *envelope;
	struct http *http;
	struct secret secret;
	char url[HTTP_URL_BYTES];
	struct buf body;
	struct parcel parcel;
	size_t room; /* of parcel.lines */
	size_t most; /* events of the next request: fewer after a refusal */

	/* of splunk-hec with acknowledgements alone */
	char ack_url[HTTP_URL_BYTES];
	char channel[UUID_TEXT_BYTES]; /* "": no acknowledgements */
	struct acks acks;
	uint64_t tag;    /* the last batch's */
	uint64_t ack_id; /* of the last answer */
	uint64_t ask_ns; /* when to ask again */
};

/** Rows of a kind's settings that all these sinks have. */
#define HTTP_SINK_SETTINGS                                                                         \
	{.name = "url", .type = SETTING_URL, .required = true},                                    \
		{.name = "ca", .type = SETTING_FILE}, {.name = "cert", .type = SETTING_FILE},      \
		{.name = "key", .type = SETTING_SECRET}, {.name = "proxy", .type = SETTING_URL},   \
		{.name = "gzip", .type = SETTING_FLAG, .otherwise = "no"},                         \
	{                                                                                          \
		.name = "plain", .type = SETTING_FLAG, .otherwise = "no"                           \
	}

#define HTTP_SINK_JSON_FORMATS                                                                     \
	(1U << AUDIT_FORMAT_OCSF | 1U << AUDIT_FORMAT_OCSF_BARE | 1U << AUDIT_FORMAT_ECS)

/** Members of struct sink_kind that are the same for all of them. */
#define HTTP_SINK_BATCH_LINES 1000
#define HTTP_SINK_BATCH_BYTES ((size_t)1 << 20)
#define HTTP_SINK_NEEDS       (SINK_NEEDS_NETWORK | SINK_NEEDS_THREADS)

/** Settings that contradict one another; the kind's check() or a part of it. */
void http_sink_check(const struct sink_config *c, struct policy_report *report);
/** @suffix is appended to the URL. @return 0 or negative errno with a line in @why. */
int http_sink_open(const struct sink_config *c, const struct envelope *envelope, const char *suffix,
	struct sink **ret, struct failure *why);
/** Where requests go: the URL of the configuration with @suffix. @return 0, -ENAMETOOLONG. */
int http_sink_url(const struct sink_config *c, const char *suffix, char ret[static HTTP_URL_BYTES]);
/** The headers of all requests from now on. @return 0 or negative errno with a line in @why. */
int http_sink_headers(struct sink *s, struct failure *why);
int http_sink_deliver(struct sink *s, struct sink_batch *batch, struct failure *why);
void http_sink_reset(struct sink *s);
void http_sink_free(struct sink *s);

#endif
