/* Slices, buffers and JSON text: limits at the limit and one past it, escaping that never breaks a line. */
#include "tests/unit/cmocka_setup.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <stdio.h>

static void digits_are_digits_only(void **state)
{
	(void)state;
	uint64_t value;
	assert_int_equal(
		slice_decimal(SLICE("18446744073709551615"), UINT64_MAX, false, &value), 0);
	assert_true(value == UINT64_MAX);
	assert_int_equal(
		slice_decimal(SLICE("18446744073709551616"), UINT64_MAX, false, &value), -ERANGE);
	assert_int_equal(slice_decimal(SLICE("65535"), 65535, false, &value), 0);
	assert_int_equal(slice_decimal(SLICE("65536"), 65535, false, &value), -ERANGE);
	assert_int_equal(slice_decimal(SLICE("007"), 65535, true, &value), 0);
	static const char *const wrong[] = {"", "+1", "-1", " 1", "1 ", "0x1", "1_0", "007"};
	for (size_t i = 0; i < array_size(wrong); i++)
		assert_int_equal(slice_decimal(slice_of(wrong[i]), 65535, false, &value), -EINVAL);
}

static void hex_never_wraps(void **state)
{
	(void)state;
	uint64_t value;
	assert_int_equal(slice_hex(SLICE("ffffffffffffffff"), UINT64_MAX, &value), 0);
	assert_true(value == UINT64_MAX);
	assert_int_equal(slice_hex(SLICE("00000000000000001"), UINT64_MAX, &value), -ERANGE);
	assert_int_equal(slice_hex(SLICE("0x5"), UINT64_MAX, &value), -EINVAL);
	assert_int_equal(slice_hex(SLICE(""), UINT64_MAX, &value), -EINVAL);
}

static void a_buffer_stops_at_its_limit(void **state)
{
	(void)state;
	struct buf b;
	buf_init(&b, 8);
	assert_int_equal(buf_append(&b, SLICE("12345678")), 0);
	assert_int_equal(buf_append(&b, SLICE("9")), -ENOBUFS);
	assert_true(b.failed);
	buf_clear(&b);
	assert_int_equal(buf_append(&b, SLICE("9")), 0);
	buf_consume(&b, 1);
	assert_int_equal(buf_len(&b), 0);
	buf_fini(&b);
}

static void a_buffer_reuses_what_was_consumed(void **state)
{
	(void)state;
	struct buf b;
	buf_init(&b, 1024);
	for (int i = 0; i < 10000; i++) {
		assert_int_equal(buf_append(&b, SLICE("0123456789")), 0);
		buf_consume(&b, 10 - (size_t)(i == 0));
	}
	assert_int_equal(buf_len(&b), 1);
	buf_fini(&b);
}

struct json_case {
	struct slice in;
	const char *out;
};

static void text_is_escaped_into_one_line(void **state)
{
	(void)state;
	static const struct json_case cases[] = {
		{{"plain", 5}, "\"plain\""},
		{{"a\"b\\c", 5}, "\"a\\\"b\\\\c\""},
		{{"\r\n\t\0\x1b", 5}, "\"\\u000d\\u000a\\u0009\\u0000\\u001b\""},
		{{"\x7f", 1}, "\"\\u007f\""},
		{{"\xc3\xa9", 2}, "\"\xc3\xa9\""},
		{{"\xe2\x80\xa8", 3}, "\"\\u2028\""},
		{{"\xc2\x9b", 2}, "\"\\u009b\""},
		{{"\xc2\xa0", 2}, "\"\xc2\xa0\""},
		{{"\xe2\x80\xae", 3}, "\"\\u202e\""},
		{{"\xe2\x81\xa6", 3}, "\"\\u2066\""},
		{{"\xef\xbb\xbf", 3}, "\"\\ufeff\""},
		{{"\xf0\x9f\x98\x80", 4}, "\"\xf0\x9f\x98\x80\""},
		{{"\xff\xfe", 2}, "\"\\ufffd\\ufffd\""},
		{{"\xc0\x80", 2}, "\"\\ufffd\\ufffd\""},
		{{"\xed\xa0\x80", 3}, "\"\\ufffd\\ufffd\\ufffd\""},
		{{"\xf4\x90\x80\x80", 4}, "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
		{{"\xe2\x80", 2}, "\"\\ufffd\\ufffd\""},
	};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct buf out;
		struct json j;
		buf_init(&out, 0);
		json_open(&j, &out);
		json_slice(&j, NULL, cases[i].in);
		if (!slice_equal(buf_slice(&out), slice_of(cases[i].out)))
			fail_msg("case %zu: %.*s", i, (int)buf_len(&out), buf_slice(&out).ptr);
		buf_fini(&out);
	}
}

static void commas_stand_where_they_belong(void **state)
{
	(void)state;
	struct buf out;
	struct json j;
	buf_init(&out, 0);
	json_open(&j, &out);
	json_object(&j, NULL);
	json_uint(&j, "a", 1);
	json_array(&j, "b");
	json_int(&j, NULL, -1);
	json_object(&j, NULL);
	json_object_end(&j);
	json_null(&j, NULL);
	json_array_end(&j);
	json_bool(&j, "c", true);
	json_object_end(&j);
	assert_true(slice_equal(buf_slice(&out), SLICE("{\"a\":1,\"b\":[-1,{},null],\"c\":true}")));
	buf_fini(&out);
}

static void escaped_text_is_printable_and_bounded(void **state)
{
	(void)state;
	char text[16];
	assert_string_equal(slice_escape(SLICE("a\nb"), text, sizeof(text)), "a\\x0ab");
	assert_string_equal(
		slice_escape(SLICE("0123456789abcdefgh"), text, sizeof(text)), "0123456789ab...");
	assert_string_equal(slice_escape(SLICE("\xff"), text, sizeof(text)), "\\xff");
}

/** Of every length, with every byte at every place, as a byte at a time says it. */
static void a_plain_text_is_known_wherever_its_special_byte_is(void **state)
{
	(void)state;
	char text[40];
	for (size_t len = 0; len <= sizeof(text); len++) {
		memset(text, 'a', sizeof(text));
		assert_true(json_is_plain((struct slice){text, len}));
		for (size_t at = 0; at < len; at++) {
			for (int byte = 0; byte < 256; byte++) {
				bool plain =
					byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
				text[at] = (char)byte;
				if (json_is_plain((struct slice){text, len}) != plain)
					fail_msg("%d at %zu of %zu", byte, at, len);
			}
			text[at] = 'a';
		}
	}
}

static void numbers_have_all_their_digits(void **state)
{
	(void)state;
	static const uint64_t numbers[] = {
		0, 1, 9, 10, 11, 99, 100, 101, 109, 110, 999, 1000, 1005, 65535, INT64_MAX};
	char expected[128];
	struct buf out;
	struct json j;
	buf_init(&out, 1024);
	for (size_t i = 0; i < array_size(numbers); i++) {
		buf_clear(&out);
		json_open(&j, &out);
		json_uint(&j, "some-long-key-of-a-number", numbers[i]);
		json_int(&j, "i", (int64_t)(numbers[i] / 2) * -1);
		int len = snprintf(expected, sizeof(expected),
			"\"some-long-key-of-a-number\":%llu,\"i\":%lld",
			(unsigned long long)numbers[i], -(long long)(numbers[i] / 2));
		assert_int_equal(buf_len(&out), len);
		assert_memory_equal(buf_slice(&out).ptr, expected, (size_t)len);
	}
	buf_clear(&out);
	json_open(&j, &out);
	json_int(&j, NULL, INT64_MIN);
	assert_true(slice_equal(buf_slice(&out), SLICE("-9223372036854775808")));
	for (uint64_t over = 1; over != 0; over <<= 1) { /* no reader would take a larger one */
		buf_clear(&out);
		json_open(&j, &out);
		json_uint(&j, NULL, INT64_MAX + over);
		assert_true(slice_equal(buf_slice(&out), SLICE("9223372036854775807")));
	}
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(digits_are_digits_only),
		cmocka_unit_test(hex_never_wraps),
		cmocka_unit_test(a_buffer_stops_at_its_limit),
		cmocka_unit_test(a_buffer_reuses_what_was_consumed),
		cmocka_unit_test(text_is_escaped_into_one_line),
		cmocka_unit_test(commas_stand_where_they_belong),
		cmocka_unit_test(a_plain_text_is_known_wherever_its_special_byte_is),
		cmocka_unit_test(numbers_have_all_their_digits),
		cmocka_unit_test(escaped_text_is_printable_and_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
