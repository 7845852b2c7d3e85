/*
 * HTTP/1.1 heads. Byte 0 picks the direction; the rest is what a peer sends. Holds: bytes that come
 * in two pieces give what bytes at once give; what was accepted and written anew is accepted again,
 * means the same, and written anew stays as it is.
 */
#include "proxy/http1.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct http1_request first;
static struct http1_request second;
static struct http1_response first_response;
static struct http1_response second_response;
static struct target target;

static bool same_framing(struct body_framing a, struct body_framing b)
{
	return a.kind == b.kind && (a.kind != BODY_LENGTH || a.length == b.length);
}

static void inside(struct slice part, struct slice whole)
{
	assert(part.len == 0 ||
		(part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len));
}

static void fields_inside(const struct http1_head *head, struct slice in)
{
	assert(head->field_count <= HTTP1_FIELDS_MAX);
	for (size_t i = 0; i < head->field_count; i++) {
		inside(head->fields[i].name, slice_part(in, 0, head->len));
		inside(head->fields[i].value, slice_part(in, 0, head->len));
	}
}

/** @return whether it is a request. */
static bool request_in_two(struct slice in, size_t cut)
{
	struct http1_scan scan = {0};
	struct http_fault why;
	enum http1_result whole = http1_parse_request(&scan, in, &first, &why);
	scan = (struct http1_scan){0};
	enum http1_result part = http1_parse_request(&scan, slice_part(in, 0, cut), &second, &why);
	if (part == HTTP1_MORE)
		part = http1_parse_request(&scan, in, &second, &why);
	/* A head that ends before the cut, or breaks there, is seen no later than the whole is. */
	assert(part == whole);
	assert(whole != HTTP1_DONE || first.head.len == second.head.len);
	return whole == HTTP1_DONE;
}

static void request_again(const struct http1_destination *to)
{
	struct buf out = {0};
	struct buf again = {0};
	struct http1_scan scan = {0};
	struct http_fault why;
	int r = http1_write_request(&first, to, &out);
	assert(r == 0);
	enum http1_result result = http1_parse_request(&scan, buf_slice(&out), &second, &why);
	if (result == HTTP1_ERROR) { /* it may have grown past a limit */
		assert(why.reason == REASON_DENY_LIMIT);
		buf_fini(&out);
		return;
	}
	assert(result == HTTP1_DONE && second.head.len == buf_len(&out));
	assert(same_framing(first.head.framing, second.head.framing));
	assert(slice_equal(first.method, second.method));
	assert(http1_request_names(&second, to->scheme, to->host, to->port));
	r = http1_write_request(&second, to, &again);
	assert(r == 0 && slice_equal(buf_slice(&out), buf_slice(&again)));
	buf_fini(&out);
	buf_fini(&again);
}

static void try_request(struct slice in, size_t cut)
{
	static const struct host host = {.kind = HOST_NAME, .name = "allowed.test"};
	if (!request_in_two(in, cut))
		return;
	inside(first.method, in);
	fields_inside(&first.head, in);
	if (first.is_connect)
		return;
	struct http1_destination to = {
		.host = &host, .port = 443, .scheme = POLICY_SCHEME_HTTPS, .target = &target};
	if (first.form == HTTP1_FORM_ASTERISK)
		to.target = NULL;
	else if (target_normalise(first.target, &target) < 0)
		return;
	request_again(&to);
}

static void response_again(const struct http1_recipient *to, bool head_request)
{
	struct buf out = {0};
	struct http1_scan scan = {0};
	struct http_fault why;
	struct body_framing framing;
	int r = http1_write_response(&first_response, to, &framing, &out);
	assert(r == 0);
	assert(to->minor == 0 || framing.kind != BODY_UNTIL_CLOSE);
	enum http1_result result =
		http1_parse_response(&scan, buf_slice(&out), head_request, &second_response, &why);
	if (result == HTTP1_DONE) {
		assert(second_response.head.len == buf_len(&out));
		assert(second_response.status == first_response.status);
		assert(same_framing(framing, second_response.head.framing));
	} else {
		assert(result == HTTP1_ERROR && buf_len(&out) > HTTP1_LINE_BYTES_MAX);
	}
	buf_fini(&out);
}

static void try_response(struct slice in, size_t cut, bool head_request)
{
	struct http1_scan scan = {0};
	struct http_fault why;
	enum http1_result whole =
		http1_parse_response(&scan, in, head_request, &first_response, &why);
	scan = (struct http1_scan){0};
	enum http1_result part = http1_parse_response(
		&scan, slice_part(in, 0, cut), head_request, &second_response, &why);
	if (part == HTTP1_MORE)
		part = http1_parse_response(&scan, in, head_request, &second_response, &why);
	assert(part == whole);
	if (whole != HTTP1_DONE) {
		assert(whole == HTTP1_MORE || why.status == 502);
		return;
	}
	inside(first_response.reason, in);
	fields_inside(&first_response.head, in);
	response_again(&(struct http1_recipient){.minor = 1}, head_request);
	response_again(&(struct http1_recipient){.minor = 0, .close = true}, head_request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2)
		return 0;
	/* A copy of its exact size, so that one byte too far is seen. */
	char *copy = malloc(size - 1);
	assert(copy != NULL);
	memcpy(copy, data + 1, size - 1);
	struct slice in = {copy, size - 1};
	size_t cut = (data[0] >> 2) * in.len / 64;
	if ((data[0] & 3) < 2)
		try_request(in, cut);
	else
		try_response(in, cut, (data[0] & 3) == 3);
	free(copy);
	return 0;
}
