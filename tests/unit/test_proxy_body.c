/* Message bodies: what ends them, what breaks them, how they are framed anew. Cases C07-C09, H02.
 */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/body.h"
#include "proxy/limits.h"

#include <stdio.h>

static const struct body_framing chunked = {.kind = BODY_CHUNKED};

/** Read @in in steps of @step bytes, payload into @payload. @return the last result; *ret_used
 * bytes were consumed. */
static enum body_result read_all(
	struct body_reader *r, struct slice in, size_t step, struct buf *payload, size_t *ret_used)
{
	size_t used = 0;
	size_t end = 0;
	for (;;) {
		size_t consumed;
		struct slice data;
		enum body_result result = body_read(r, slice_part(in, used, end), &consumed, &data);
		assert_in_range(consumed, 0, end - used);
		if (result == BODY_DATA) {
			assert_in_range(data.len, 1, consumed);
			assert_true(data.ptr >= in.ptr + used);
			assert_true(data.ptr + data.len <= in.ptr + used + consumed);
			assert_int_equal(buf_append(payload, data), 0);
		}
		used += consumed;
		*ret_used = used;
		if (result == BODY_DONE || result == BODY_ERROR)
			return result;
		if (result == BODY_MORE && end == in.len)
			return result;
		if (result == BODY_MORE)
			end = end + step < in.len ? end + step : in.len;
	}
}

struct good {
	const char *text;
	const char *payload;
	size_t used;
};

static void chunks_are_read_in_pieces_of_any_size(void **state)
{
	(void)state;
	static const struct good all[] = {
		{"0\r\n\r\nGET", "", 5},
		{"5\r\nhello\r\n0\r\n\r\n", "hello", 15},
		{"5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n", "hello", 27},
		{"5 \t;a\r\nhello\r\n0\r\n\r\n", "hello", 19},
		{"00000000000000A\r\n0123456789\r\n000\r\n\r\nrest", "0123456789", 36},
		{"1\r\na\r\n1\r\n\n\r\n0\r\nX: y\r\nZ:\r\n\r\n0", "a\n", 27},
	};
	for (size_t i = 0; i < array_size(all); i++) {
		for (size_t step = 1; step < 40; step++) {
			struct body_reader r;
			struct buf payload = {0};
			size_t used;
			body_reader_init(&r, chunked, false, NULL);
			if (read_all(&r, slice_of(all[i].text), step, &payload, &used) != BODY_DONE)
				fail_msg("'%s' in steps of %zu: %s", all[i].text, step,
					r.fault.detail);
			assert_int_equal(used, all[i].used);
			assert_true(slice_equal(buf_slice(&payload), slice_of(all[i].payload)));
			assert_int_equal(r.payload_total, strlen(all[i].payload));
			assert_true(body_reader_done(&r));
			buf_fini(&payload);
		}
	}
}

static void malformed_chunks_are_refused(void **state)
{
	(void)state;
	static const char *const all[] = {"0x5\r\nhello\r\n", "+5\r\nhello\r\n", "-5\r\nhello\r\n",
		" 5\r\nhello\r\n", "5 x\r\nhello\r\n", "5 \r\nhello\r\n", "5_0\r\nhello\r\n",
		"\r\nhello\r\n", ";a\r\nhello\r\n", "00000000000000005\r\nhello\r\n",
		"5;a\nb\r\nhello\r\n", "5\nhello\r\n", "5\r\nhello\n0\r\n",
		"5\r\nhello0\r\n\r\nGET /", "5\rhello\r\n", "5;a\rb\r\nhello",
		"5;\x01\r\nhello\r\n", "g\r\n", "0\r\n x: y\r\n\r\n", "0\r\n: y\r\n\r\n",
		"0\r\nX : y\r\n\r\n", "0\r\nX: y\n\r\n", "0\r\nX: y\x01\r\n\r\n", "0\r\n\n",
		"0\r\n\rX", "0\r\nX\r\n\r\n", "5\r\nhello\r\n\r\n"};
	for (size_t i = 0; i < array_size(all); i++) {
		struct body_reader r;
		struct buf payload = {0};
		size_t used;
		body_reader_init(&r, chunked, false, NULL);
		if (read_all(&r, slice_of(all[i]), 1, &payload, &used) != BODY_ERROR)
			fail_msg("'%s' was not refused", all[i]);
		assert_int_equal(r.fault.status, 400);
		assert_int_equal(r.fault.reason, REASON_DENY_SMUGGLING);
		size_t consumed;
		struct slice data;
		assert_int_equal(body_read(&r, SLICE("GET /inner HTTP/1.1\r\n"), &consumed, &data),
			BODY_ERROR);
		assert_int_equal(consumed, 0);
		buf_fini(&payload);
	}
}

static void huge_sizes_never_wrap(void **state)
{
	(void)state;
	static const char *const all[] = {"80000000\r\n", "ffffffffffffffff\r\n"};
	for (size_t i = 0; i < array_size(all); i++) {
		struct body_reader r;
		size_t consumed;
		struct slice data;
		char text[64];
		body_reader_init(&r, chunked, false, NULL);
		int len = snprintf(text, sizeof(text), "%sabc", all[i]);
		assert_int_equal(body_read(&r, (struct slice){text, (size_t)len}, &consumed, &data),
			BODY_DATA);
		assert_int_equal(data.len, 3);
		assert_int_equal(
			body_read(&r, (struct slice){NULL, 0}, &consumed, &data), BODY_MORE);
		assert_int_equal(r.payload_total, 3);
		assert_int_equal(body_read_end(&r), BODY_ERROR);
	}
}

/** Feed @prefix, then @byte @count times. */
static enum body_result feed(
	struct body_reader *r, struct slice prefix, struct slice repeated, size_t count)
{
	size_t used;
	struct buf payload = {0};
	body_reader_init(r, chunked, false, NULL);
	enum body_result result = read_all(r, prefix, prefix.len, &payload, &used);
	for (size_t i = 0; i < count && result == BODY_MORE; i++)
		result = read_all(r, repeated, repeated.len, &payload, &used);
	buf_fini(&payload);
	return result;
}

static void what_a_peer_can_grow_is_bounded(void **state)
{
	(void)state;
	struct body_reader r;
	assert_int_equal(feed(&r, SLICE("5;"), SLICE("a"), BODY_CHUNK_LINE_BYTES - 2), BODY_MORE);
	assert_int_equal(feed(&r, SLICE("5;"), SLICE("a"), BODY_CHUNK_LINE_BYTES - 1), BODY_ERROR);
	assert_int_equal(r.fault.reason, REASON_DENY_LIMIT);
	assert_int_equal(
		feed(&r, SLICE("0\r\nX:"), SLICE("a"), BODY_TRAILER_BYTES_MAX - 2), BODY_MORE);
	assert_int_equal(
		feed(&r, SLICE("0\r\nX:"), SLICE("a"), BODY_TRAILER_BYTES_MAX - 1), BODY_ERROR);
	assert_int_equal(r.fault.status, 431);
	assert_int_equal(
		feed(&r, SLICE("0\r\n"), SLICE("X:\r\n"), BODY_TRAILER_FIELDS_MAX), BODY_MORE);
	assert_int_equal(
		feed(&r, SLICE("0\r\n"), SLICE("X:\r\n"), BODY_TRAILER_FIELDS_MAX + 1), BODY_ERROR);
}

static enum body_result read_within(const struct limits *limits, const char *text)
{
	struct body_reader r;
	size_t used;
	struct buf payload = {0};
	body_reader_init(&r, chunked, false, limits);
	enum body_result result = read_all(&r, slice_of(text), strlen(text), &payload, &used);
	if (result == BODY_ERROR)
		assert_int_equal(r.fault.reason, REASON_DENY_LIMIT);
	buf_fini(&payload);
	return result;
}

static void a_setting_is_the_last_that_passes(void **state)
{
	(void)state;
	struct limits l = limits_default();
	l.chunk_line_bytes = 6;
	l.trailer_bytes = 12;
	l.trailer_fields = 2;
	assert_int_equal(read_within(&l, "1;xx\r\na\r\n0\r\n\r\n"), BODY_DONE);
	assert_int_equal(read_within(&l, "1;xxx\r\na\r\n0\r\n\r\n"), BODY_ERROR);
	assert_int_equal(read_within(&l, "0\r\nX:123456\r\n\r\n"), BODY_DONE);
	assert_int_equal(read_within(&l, "0\r\nX:1234567\r\n\r\n"), BODY_ERROR);
	l.trailer_bytes = 100;
	assert_int_equal(read_within(&l, "0\r\nX:\r\nX:\r\n\r\n"), BODY_DONE);
	assert_int_equal(read_within(&l, "0\r\nX:\r\nX:\r\nX:\r\n\r\n"), BODY_ERROR);
}

static void a_length_is_exact(void **state)
{
	(void)state;
	struct body_reader r;
	struct buf payload = {0};
	size_t used;
	struct body_framing five = {.kind = BODY_LENGTH, .length = 5};
	body_reader_init(&r, five, false, NULL);
	assert_int_equal(read_all(&r, SLICE("helloGET /"), 3, &payload, &used), BODY_DONE);
	assert_int_equal(used, 5);
	body_reader_init(&r, five, true, NULL);
	assert_int_equal(read_all(&r, SLICE("hell"), 4, &payload, &used), BODY_MORE);
	assert_int_equal(body_read_end(&r), BODY_ERROR);
	assert_int_equal(r.fault.status, 502);
	assert_int_equal(r.fault.reason, REASON_ERROR_UPSTREAM);
	body_reader_init(&r, (struct body_framing){.kind = BODY_LENGTH}, false, NULL);
	assert_int_equal(read_all(&r, SLICE("x"), 1, &payload, &used), BODY_DONE);
	assert_int_equal(used, 0);
	body_reader_init(&r, (struct body_framing){.kind = BODY_NONE, .length = 7}, false, NULL);
	assert_int_equal(read_all(&r, SLICE("x"), 1, &payload, &used), BODY_DONE);
	assert_int_equal(used, 0);
	buf_fini(&payload);
}

static void until_close_ends_with_the_connection(void **state)
{
	(void)state;
	struct body_reader r;
	struct buf payload = {0};
	size_t used;
	body_reader_init(&r, (struct body_framing){.kind = BODY_UNTIL_CLOSE}, true, NULL);
	assert_int_equal(read_all(&r, SLICE("hello"), 2, &payload, &used), BODY_MORE);
	assert_int_equal(used, 5);
	assert_int_equal(r.payload_total, 5);
	assert_int_equal(body_read_end(&r), BODY_DONE);
	buf_fini(&payload);
}

static void payload_is_framed_anew(void **state)
{
	(void)state;
	struct body_writer w;
	struct buf out = {0};
	body_writer_init(&w, chunked);
	assert_int_equal(body_append(&w, SLICE("hello"), &out), 0);
	assert_int_equal(body_append(&w, SLICE(""), &out), 0);
	assert_int_equal(body_append(&w, SLICE("0123456789abcdef"), &out), 0);
	assert_int_equal(body_append_end(&w, &out), 0);
	assert_true(slice_equal(
		buf_slice(&out), SLICE("5\r\nhello\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n")));
	buf_clear(&out);
	body_writer_init(&w, (struct body_framing){.kind = BODY_LENGTH, .length = 5});
	assert_int_equal(body_append(&w, SLICE("hell"), &out), 0);
	assert_int_equal(body_append_end(&w, &out), -EPIPE);
	assert_int_equal(body_append(&w, SLICE("oo"), &out), -EOVERFLOW);
	assert_int_equal(body_append(&w, SLICE("o"), &out), 0);
	assert_int_equal(body_append_end(&w, &out), 0);
	assert_true(slice_equal(buf_slice(&out), SLICE("hello")));
	body_writer_init(&w, (struct body_framing){.kind = BODY_NONE});
	assert_int_equal(body_append(&w, SLICE("x"), &out), -EOVERFLOW);
	assert_int_equal(body_append_end(&w, &out), 0);
	buf_clear(&out);
	body_writer_init(&w, (struct body_framing){.kind = BODY_UNTIL_CLOSE});
	assert_int_equal(body_append(&w, SLICE("x"), &out), 0);
	assert_int_equal(body_append_end(&w, &out), 0);
	assert_true(slice_equal(buf_slice(&out), SLICE("x")));
	buf_fini(&out);
}

static void the_largest_prefix_fits(void **state)
{
	(void)state;
	struct body_writer w;
	struct body_frame frame;
	body_writer_init(&w, chunked);
	assert_int_equal(body_frame_payload(&w, SIZE_MAX, &frame), 0);
	assert_memory_equal(frame.prefix, "ffffffffffffffff\r\n", frame.prefix_len);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_are_read_in_pieces_of_any_size),
		cmocka_unit_test(malformed_chunks_are_refused),
		cmocka_unit_test(huge_sizes_never_wrap),
		cmocka_unit_test(what_a_peer_can_grow_is_bounded),
		cmocka_unit_test(a_setting_is_the_last_that_passes),
		cmocka_unit_test(a_length_is_exact),
		cmocka_unit_test(until_close_ends_with_the_connection),
		cmocka_unit_test(payload_is_framed_anew),
		cmocka_unit_test(the_largest_prefix_fits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
