/*
 * An HTTP client for one receiver: POST requests one after the other over a kept connection, by libcurl. It blocks, for
 * at most the timeout of a request. Certificates are always checked, redirects are not followed, the environment's proxies
 * are not used, no file is opened after http_new(). What the receiver answers is not trusted: it is bounded, and text of it that
 * comes into a failure is escaped.
 */
#ifndef ECLUSA_EXPORT_HTTP_H
#define ECLUSA_EXPORT_HTTP_H

#include "common/buf.h"
#include "common/failure.h"

#define HTTP_ANSWER_BYTES_MAX   ((size_t)4 << 20)
#define HTTP_RETRY_AFTER_MAX_MS (10U * 60 * 1000) /* a receiver that asks for more gets this */
#define HTTP_HIDDEN_BYTES_MIN   8

struct http;

struct http_options {
	struct slice authorities;      /* PEM of the CAs that are trusted: no others are */
	struct slice certificate, key; /* PEM of the client's; empty: none */
	const char *proxy;             /* NULL or "": none, whatever the environment says */
	unsigned timeout_ms;           /* of a request and its answer together */
	bool gzip;                     /* bodies of requests are compressed */
};

struct http_answer {
	unsigned status;
	unsigned retry_after_ms; /* 0: none */
	struct slice body;       /* until the next request */
};

/** Contents of @o are copied. @return 0 or negative errno, then @why is filled. */
int http_new(const struct http_options *o, struct http **ret, struct failure *why);
/** NULL is accepted; values of headers are wiped. */
void http_free(struct http *h);
/** The next request makes a new connection, and closes what was kept. */
void http_disconnect(struct http *h);
/** Forget what http_header() gave. @return 0, -ENOMEM. */
int http_headers_begin(struct http *h);
/** A header that each request has. @return 0, -EINVAL (a control byte in the value), -ENOMEM. */
int http_header(struct http *h, const char *name, struct slice value);
/**
 * What of a credential must not be told when a receiver says it back: it is blotted out in the bodies of answers. Not copied.
 * Less than HTTP_HIDDEN_BYTES_MIN may stand there for other reasons, and is left.
 */
void http_hide(struct http *h, struct slice secret);
/**
 * @return 0 when there is an answer, of any status; -ETIMEDOUT, -ECONNREFUSED, -EHOSTUNREACH (name not found), -EPROTO (TLS), -EMSGSIZE
 * (answer over the limit), -EIO, -ENOMEM, then @why is filled.
 */
int http_post(struct http *h, const char *url, struct slice body, struct http_answer *ret,
	struct failure *why);
/** Whether events under this URL would travel unencrypted to another machine. */
bool http_url_is_plain(const char *url);

#endif
