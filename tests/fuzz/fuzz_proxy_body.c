/*
 * Message bodies. Byte 0 picks framing and step; the rest is what a peer sends. Holds: the same
 * bytes in pieces of any size give the same payload, end and verdict; no byte behind the end is
 * used; payload that is framed anew reads back as it was.
 */
#include "proxy/body.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
	enum body_result result;
	size_t used;
	uint64_t total;
};

/** Read in steps; each call gets a copy of its exact size, so that one byte too far is seen. */
static struct outcome read_all(
	struct body_framing framing, struct slice in, size_t step, struct buf *payload)
{
	struct body_reader r;
	struct outcome o = {.used = 0};
	size_t end = 0;
	body_reader_init(&r, framing, false, NULL);
	for (;;) {
		size_t len = end - o.used;
		char *copy = malloc(len);
		assert(copy != NULL || len == 0);
		if (len > 0)
			memcpy(copy, in.ptr + o.used, len);
		size_t consumed;
		struct slice data;
		o.result = body_read(&r, (struct slice){copy, len}, &consumed, &data);
		assert(consumed <= len && (o.result == BODY_DATA) == (data.len > 0));
		int appended = buf_append(payload, data);
		assert(appended == 0);
		free(copy);
		o.used += consumed;
		if (o.result == BODY_DONE || o.result == BODY_ERROR)
			break;
		if (o.result == BODY_MORE && end == in.len)
			break;
		if (o.result == BODY_MORE)
			end = in.len - end > step ? end + step : in.len;
	}
	o.total = r.payload_total;
	assert(o.total == buf_len(payload));
	return o;
}

static void frame_and_read_back(struct slice payload, size_t step, enum body_kind kind)
{
	struct buf wire = {0};
	struct buf back = {0};
	struct body_writer w;
	struct body_framing framing = {.kind = kind, .length = payload.len};
	body_writer_init(&w, framing);
	int r = 0;
	for (size_t at = 0; at < payload.len && r == 0; at += step)
		r = body_append(&w, slice_part(payload, at, at + step), &wire);
	assert(r == 0);
	r = body_append_end(&w, &wire);
	assert(r == 0);
	size_t len = buf_len(&wire);
	r = buf_append_text(&wire, "GET / HTTP/1.1");
	assert(r == 0);
	struct outcome o = read_all(framing, buf_slice(&wire), step, &back);
	assert(o.result == BODY_DONE && o.used == len);
	assert(slice_equal(buf_slice(&back), payload));
	buf_fini(&wire);
	buf_fini(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	size_t step = (data[0] >> 2) + 1u;
	struct slice in = {(const char *)data + 1, size - 1};
	struct body_framing framing = {
		.kind = (enum body_kind)(data[0] & 3), .length = size > 1 ? data[1] : 0};
	struct buf whole = {0};
	struct buf pieces = {0};
	struct outcome a = read_all(framing, in, SIZE_MAX, &whole);
	struct outcome b = read_all(framing, in, step, &pieces);
	assert(a.result == b.result && a.used == b.used && a.total == b.total);
	assert(slice_equal(buf_slice(&whole), buf_slice(&pieces)));
	frame_and_read_back(buf_slice(&whole), step, BODY_CHUNKED);
	frame_and_read_back(buf_slice(&whole), step, BODY_LENGTH);
	buf_fini(&whole);
	buf_fini(&pieces);
	return 0;
}
