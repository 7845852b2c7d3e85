/*
 * Whole HTTP/1.1 messages, as we and libhttp-parser read them. Byte 0 picks the direction and where the input is cut. Holds: what we send on is read
 * by the other parser as the one message that was judged, with the same method or status and the same body, and nothing is left over; what
 * we take from a peer it takes as well, and sees the end of it at the same byte.
 */
#include "proxy/http1.h"

#include <assert.h>
#include <stdlib.h>

#include <http_parser.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BODY_BYTES_MAX ((size_t)1 << 20)

static struct http1_request request;
static struct http1_response response;
static struct target target;

/** What the other parser saw. */
struct other {
	bool complete;
	unsigned status;
	enum http_method method;
	struct buf body;
	size_t end; /* bytes up to the end of the message */
	enum http_errno fault;
};

static int on_body(http_parser *p, const char *at, size_t len)
{
	struct other *o = p->data;
	return buf_append(&o->body, (struct slice){at, len}) < 0;
}

static int on_headers(http_parser *p)
{
	const struct other *o = p->data;
	bool bodiless =
		p->type == HTTP_RESPONSE && (p->status_code == 204 || p->status_code == 304);
	return o->status == 1 ||
		bodiless; /* the caller says it (http_parser.h); 1: the answer to HEAD */
}

static int on_complete(http_parser *p)
{
	struct other *o = p->data;
	o->complete = true;
	o->method = (enum http_method)p->method;
	o->status = p->status_code;
	return 0;
}

static void read_other(enum http_parser_type type, struct slice in, bool head, struct other *ret)
{
	http_parser parser;
	http_parser_settings settings;
	http_parser_settings_init(&settings);
	settings.on_headers_complete = on_headers;
	settings.on_body = on_body;
	settings.on_message_complete = on_complete;
	*ret = (struct other){.status = head};
	http_parser_init(&parser, type);
	parser.data = ret;
	while (!ret->complete && ret->fault == HPE_OK && ret->end < in.len) {
		(void)http_parser_execute(
			&parser, &settings, in.ptr + ret->end++, 1); /* the fault says it, too */
		ret->fault = HTTP_PARSER_ERRNO(&parser);
	}
	if (!ret->complete && ret->fault == HPE_OK) { /* the end of input ends some bodies */
		(void)http_parser_execute(&parser, &settings, NULL, 0);
		ret->fault = HTTP_PARSER_ERRNO(&parser);
	}
}

/** A message's body, read by us and framed anew behind its head. @return whether it is whole; *ret_used: bytes of @in. */
static bool body_again(struct slice in, struct body_framing from, struct body_framing to,
	bool upstream, struct buf *out, struct buf *ret_body, size_t *ret_used)
{
	struct body_reader reader;
	struct body_writer writer;
	enum body_result result = BODY_DATA;
	body_reader_init(&reader, from, upstream, NULL);
	body_writer_init(&writer, to);
	*ret_used = 0;
	while (result == BODY_DATA) {
		struct slice payload;
		size_t used;
		result = body_read(&reader, slice_part(in, *ret_used, in.len), &used, &payload);
		*ret_used += used;
		if (result != BODY_DATA)
			break;
		int r = buf_append(ret_body, payload);
		assert(r == 0);
		r = body_append(&writer, payload, out);
		assert(r == 0);
	}
	if (result == BODY_MORE && from.kind == BODY_UNTIL_CLOSE)
		result = body_read_end(&reader);
	if (result != BODY_DONE)
		return false;
	int r = body_append_end(&writer, out);
	assert(r == 0);
	return true;
}

static bool is_known(struct slice method)
{
	for (unsigned i = 0; i <= HTTP_SOURCE; i++) {
		if (slice_equal(method, slice_of(http_method_str((enum http_method)i))))
			return true;
	}
	return false;
}

static void check_output(
	enum http_parser_type type, const struct buf *out, const struct buf *body, bool head)
{
	struct other sent;
	read_other(type, buf_slice(out), head, &sent);
	assert(sent.fault == HPE_OK && sent.complete);
	assert(sent.end == buf_len(out));
	assert(slice_equal(buf_slice(&sent.body), buf_slice(body)));
	if (type == HTTP_REQUEST)
		assert(slice_equal(request.method, slice_of(http_method_str(sent.method))));
	else
		assert(sent.status == response.status);
	buf_fini(&sent.body);
}

static void check_input(
	enum http_parser_type type, struct slice in, const struct buf *body, size_t end, bool head)
{
	struct other got;
	read_other(type, in, head, &got);
	assert(got.fault == HPE_OK && got.complete);
	assert(got.end == end);
	assert(slice_equal(buf_slice(&got.body), buf_slice(body)));
	buf_fini(&got.body);
}

/** A name that only begins like one of framing, of which it remembers the beginning. */
static bool is_longer_framing(struct slice name)
{
	static const struct slice framing = {"transfer-encoding", 17};
	return name.len > framing.len &&
		slice_equal_nocase(slice_part(name, 0, framing.len), framing);
}

/** What it reads in a way of its own: protocol switches, which we do not send on; and see above. */
static bool is_apart(const struct http1_head *h)
{
	for (size_t i = 0; i < h->field_count; i++) {
		if (is_longer_framing(h->fields[i].name))
			return true;
	}
	return h->upgrade || http1_has_field(h, SLICE("upgrade"));
}

/** Trailers, which it reads like fields of the head, and tabs where blanks may be, some of which it does not take (RFC 9112 6.1, 7.1.1). */
static bool has_apart(struct slice in, const struct http1_head *h)
{
	bool trailers = slice_find(slice_part(in, h->len, in.len), ':') >= 0;
	return slice_find(in, '\t') >= 0 || (h->framing.kind == BODY_CHUNKED && trailers);
}

static void try_request(struct slice in)
{
	static const struct host host = {.kind = HOST_NAME, .name = "allowed.test"};
	struct http1_scan scan = {0};
	struct http_fault why;
	if (http1_parse_request(&scan, in, &request, &why) != HTTP1_DONE || request.is_connect ||
		!is_known(request.method) || is_apart(&request.head))
		return;
	struct http1_destination to = {
		.host = &host, .port = 443, .scheme = POLICY_SCHEME_HTTPS, .target = &target};
	if (request.form == HTTP1_FORM_ASTERISK)
		to.target = NULL;
	else if (target_normalise(request.target, &target) < 0)
		return;
	struct buf out = {0};
	struct buf body = {.limit = BODY_BYTES_MAX};
	size_t used;
	int r = http1_write_request(&request, &to, &out);
	assert(r == 0);
	if (body_again(slice_part(in, request.head.len, in.len), request.head.framing,
		    request.head.framing, false, &out, &body, &used)) {
		check_output(HTTP_REQUEST, &out, &body, false);
		if (!has_apart(in, &request.head))
			check_input(HTTP_REQUEST, in, &body, request.head.len + used, false);
	}
	buf_fini(&out);
	buf_fini(&body);
}

static void try_response(struct slice in, bool head)
{
	struct http1_scan scan = {0};
	struct http_fault why;
	struct body_framing framing;
	if (http1_parse_response(&scan, in, head, &response, &why) != HTTP1_DONE ||
		response.status < 200 || is_apart(&response.head))
		return;
	struct buf out = {0};
	struct buf body = {.limit = BODY_BYTES_MAX};
	size_t used;
	int r = http1_write_response(
		&response, &(struct http1_recipient){.minor = 1}, &framing, &out);
	assert(r == 0);
	if (body_again(slice_part(in, response.head.len, in.len), response.head.framing, framing,
		    true, &out, &body, &used)) {
		check_output(HTTP_RESPONSE, &out, &body, head);
		if (!has_apart(in, &response.head))
			check_input(HTTP_RESPONSE, in, &body, response.head.len + used, head);
	}
	buf_fini(&out);
	buf_fini(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	char *copy = malloc(size - 1);
	assert(copy != NULL);
	memcpy(copy, data + 1, size - 1);
	struct slice in = {copy, size - 1};
	if ((data[0] & 3) < 2)
		try_request(in);
	else
		try_response(in, (data[0] & 3) == 3);
	free(copy);
	return 0;
}
