/* What the request and the response parser share. Inside of the codec only. */
#ifndef ECLUSA_PROXY_HTTP1_HEAD_H
#define ECLUSA_PROXY_HTTP1_HEAD_H

#include "proxy/http1.h"

#define HTTP1_FIELD_KINDS (HTTP1_FIELD_ALT_SVC + 1)

/** A whole head, cut in two: the first line without its CR LF, and the field lines with theirs. */
struct http1_text {
	struct slice line;
	struct slice fields;
	size_t len;
};

/** Per kind of field, the first one and how many there are. Points into the head. */
struct http1_marks {
	struct http1_field *first[HTTP1_FIELD_KINDS];
	unsigned count[HTTP1_FIELD_KINDS];
};

/** Fill *why. @return -1, so that `return http1_fault_set(...)` reads well. */
int http1_fault_set(
	struct http_fault *why, unsigned status, enum reason reason, const char *detail);
bool http1_is_token(struct slice text);
/** Find the head's end, line by line. */
enum http1_result http1_head_find(
	struct http1_scan *scan, struct slice in, struct http1_text *ret, struct http_fault *why);
/** Parse the field lines into head->fields. @return 0 or -1. */
int http1_head_fields(struct slice lines, struct http1_head *head, struct http1_marks *ret_marks,
	struct http_fault *why);
/** Read every Connection and the Upgrade field; head->minor is known. @return 0 or -1. */
int http1_head_connection(struct http1_head *head, const struct http1_marks *marks,
	const struct limits *limits, struct http_fault *why);
/**
 * Read Content-Length and Transfer-Encoding: *ret is BODY_CHUNKED, BODY_LENGTH, or BODY_NONE if there
 * is neither. @return 0 or -1.
 */
int http1_head_framing(const struct http1_head *head, const struct http1_marks *marks,
	struct body_framing *ret, struct http_fault *why);
/** Whether a field goes to the other side as it is. */
bool http1_field_passes(const struct http1_field *field);

#endif
