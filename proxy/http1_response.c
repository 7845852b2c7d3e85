/*
 * Response heads: the status line, and which responses have no body whatever they announce.
 * See http1.h. Input: an upstream's bytes; every fault is a 502.
 */
#include "proxy/http1_head.h"

#define MALFORMED(why, detail) http1_fault_set(why, 502, REASON_ERROR_UPSTREAM, detail)

/** Visible bytes, blank and tab, and bytes above 0x7f (RFC 9112 4). */
static bool reason_valid(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

/** "HTTP/1.x NNN[ reason]"; many servers leave out the blank before an empty reason. */
static int line_parse(struct slice line, struct http1_response *ret, struct http_fault *why)
{
	if (slice_starts(line, SLICE("HTTP/1.1 ")))
		ret->head.minor = 1;
	else if (slice_starts(line, SLICE("HTTP/1.0 ")))
		ret->head.minor = 0;
	else
		return MALFORMED(why, "the host does not answer with HTTP/1.1");
	uint64_t status;
	if (slice_part(line, 9, 12).len != 3 ||
		slice_decimal(slice_part(line, 9, 12), 999, false, &status) < 0 || status < 100)
		return MALFORMED(why, "the host's answer has no valid status");
	struct slice rest = slice_part(line, 12, line.len);
	if ((rest.len > 0 && rest.ptr[0] != ' ') || !reason_valid(rest))
		return MALFORMED(why, "the host's answer has no valid reason phrase");
	ret->status = (unsigned)status;
	ret->reason = slice_part(rest, 1, rest.len);
	return 0;
}

static bool bodiless(unsigned status, bool head_request)
{
	return head_request || status < 200 || status == 204 || status == 304;
}

static int framing_parse(struct http1_response *ret, const struct http1_marks *marks,
	bool head_request, struct http_fault *why)
{
	struct body_framing framing;
	if (http1_head_framing(&ret->head, marks, &framing, why) < 0)
		return -1;
	ret->has_length = framing.kind == BODY_LENGTH;
	ret->length = framing.length;
	if (framing.kind == BODY_NONE) {
		framing.kind = BODY_UNTIL_CLOSE;
		ret->head.close |= !bodiless(ret->status, head_request);
	}
	if (bodiless(ret->status, head_request))
		framing = (struct body_framing){.kind = BODY_NONE};
	ret->head.framing = framing;
	return 0;
}

enum http1_result http1_parse_response(struct http1_scan *scan, struct slice in, bool head_request,
	struct http1_response *ret, struct http_fault *why)
{
	struct http1_text text;
	struct http1_marks marks;
	enum http1_result result = http1_head_find(scan, in, &text, why);
	if (result == HTTP1_DONE) {
		ret->head.len = text.len;
		if (line_parse(text.line, ret, why) < 0 ||
			http1_head_fields(text.fields, &ret->head, &marks, why) < 0 ||
			http1_head_connection(
				&ret->head, &marks, limits_or_largest(scan->limits), why) < 0 ||
			framing_parse(ret, &marks, head_request, why) < 0)
			result = HTTP1_ERROR;
	}
	if (result == HTTP1_ERROR) {
		why->status = 502;
		why->reason = REASON_ERROR_UPSTREAM;
	}
	return result;
}
