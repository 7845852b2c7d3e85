/* ClientHellos on a spliced connection, and what tells raw bytes from TLS and HTTP. Cases D01, D03, D04, D09. */
#include "tests/unit/cmocka_setup.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "proxy/hello.h"
#include "proxy/opening.h"

#define SNI(list) "\x00\x00" list
#define ONE_NAME                                                                                   \
	SNI("\x00\x10\x00\x0e\x00\x00\x0b"                                                         \
	    "origin.test")
#define VERSIONS_13 "\x00\x2b\x00\x03\x02\x03\x04"
#define ECH         "\xfe\x0d\x00\x01\x00"
#define GREASE      "\x0a\x0a\x00\x00"

/** The message around these extensions. */
static void message_make(struct slice extensions, struct buf *to)
{
	static const char body[] = "\x03\x03"
				   "0123456789abcdef0123456789abcdef"
				   "\x20"
				   "0123456789abcdef0123456789abcdef"
				   "\x00\x04\x1a\x1a\x13\x01\x01\x00";
	size_t len = sizeof(body) - 1 + 2 + extensions.len;
	const char head[] = {1, 0, (char)(len >> 8), (char)len};
	const char vector[] = {(char)(extensions.len >> 8), (char)extensions.len};
	buf_clear(to);
	assert_int_equal(buf_append(to, (struct slice){head, sizeof(head)}), 0);
	assert_int_equal(buf_append(to, (struct slice){body, sizeof(body) - 1}), 0);
	assert_int_equal(buf_append(to, (struct slice){vector, sizeof(vector)}), 0);
	assert_int_equal(buf_append(to, extensions), 0);
}

/** In records of at most @size bytes. */
static void records_make(struct slice message, size_t size, struct buf *to)
{
	buf_clear(to);
	for (size_t at = 0; at < message.len; at += size) {
		struct slice part = slice_part(message, at, at + size);
		const char head[] = {22, 3, 1, (char)(part.len >> 8), (char)part.len};
		assert_int_equal(buf_append(to, (struct slice){head, sizeof(head)}), 0);
		assert_int_equal(buf_append(to, part), 0);
	}
}

static enum hello_result parse(struct slice in, size_t step, struct hello *ret)
{
	struct hello_scan scan = {0};
	enum hello_result result = HELLO_MORE;
	for (size_t end = step; result == HELLO_MORE; end += step) {
		result = hello_parse(&scan, slice_part(in, 0, end), ret);
		if (end >= in.len)
			break;
	}
	return result;
}

static void a_hello_is_the_same_in_pieces_of_any_size(void **state)
{
	static const size_t records[] = {1, 2, 100, 16384};
	static const size_t steps[] = {1, 7, 65536};
	struct buf message = {0}, wire = {0};
	(void)state;
	message_make(SLICE(GREASE VERSIONS_13 ONE_NAME), &message);
	for (size_t i = 0; i < array_size(records) * array_size(steps); i++) {
		struct hello hello = {0};
		records_make(buf_slice(&message), records[i / array_size(steps)], &wire);
		size_t len = buf_len(&wire);
		assert_int_equal(buf_append_text(&wire, "early data"), 0);
		assert_int_equal(
			parse(buf_slice(&wire), steps[i % array_size(steps)], &hello), HELLO_DONE);
		assert_int_equal(hello.len, len);
		assert_true(hello.has_name && hello.tls13 && !hello.ech);
		assert_string_equal(hello.name.name, "origin.test");
	}
	buf_fini(&message);
	buf_fini(&wire);
}

#define ENTRY(text)                                                                                \
	{                                                                                          \
		SLICE(text), HELLO_MALFORMED, NULL, false, false                                   \
	}

static void extensions_mean_one_thing_or_are_refused(void **state)
{
	static const struct {
		struct slice extensions;
		enum hello_result result;
		const char *name;
		bool ech, tls13;
	} cases[] = {
		{SLICE(""), HELLO_DONE, NULL, false, false},
		{SLICE(GREASE), HELLO_DONE, NULL, false, false},
		{SLICE(ONE_NAME), HELLO_DONE, "origin.test", false, false},
		{SLICE(ONE_NAME ECH VERSIONS_13), HELLO_DONE, "origin.test", true, true},
		{SLICE(SNI("\x00\x11\x00\x0f\x00\x00\x0cORIGIN.test.")), HELLO_DONE, "origin.test",
			false, false},
		{SLICE(SNI("\x00\x0e\x00\x0c\x00\x00\x09"
			   "192.0.2.1")),
			HELLO_DONE, "192.0.2.1", false, false},
		ENTRY(ONE_NAME ONE_NAME), /* twice */
		ENTRY(GREASE GREASE),
		ENTRY(SNI("\x00\x00")),
		ENTRY(SNI("\x00\x02\x00\x00")),
		ENTRY(SNI("\x00\x05\x00\x03\x00\x00\x00")), /* an empty name */
		ENTRY(SNI("\x00\x10\x00\x0e\x01\x00\x0b"
			  "origin.test")), /* of another type */
		ENTRY(SNI("\x00\x16\x00\x14\x00\x00\x0b"
			  "origin.test\x00\x00\x03"
			  "a.b")), /* two */
		ENTRY(SNI("\x00\x10\x00\x0d\x00\x00\x0b"
			  "origin.test")), /* bytes behind it */
		ENTRY(SNI("\x00\x10\x00\x0e\x00\x00\x0b"
			  "ori\0in.test")),
		ENTRY(SNI("\x00\x10\x00\x0e\x00\x00\x0b"
			  "ori%67.test")),
		ENTRY("\x00\x2b\x00\x02\x01\x03"), /* half a version */
		ENTRY("\x00\x2b\x00\x04\x02\x03\x04\x03"),
		ENTRY("\x00\x10\x00\x05\x01"), /* longer than what is there */
		ENTRY("\x00"),
	};
	struct buf message = {0}, wire = {0};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		struct hello hello = {0};
		message_make(cases[i].extensions, &message);
		records_make(buf_slice(&message), 16384, &wire);
		if (parse(buf_slice(&wire), 1, &hello) != cases[i].result)
			fail_msg("case %zu", i);
		if (cases[i].result != HELLO_DONE)
			continue;
		assert_int_equal(hello.has_name, cases[i].name != NULL);
		assert_string_equal(hello.name.name, cases[i].name != NULL ? cases[i].name : "");
		assert_int_equal(hello.ech, cases[i].ech);
		assert_int_equal(hello.tls13, cases[i].tls13);
	}
	buf_fini(&message);
	buf_fini(&wire);
}

static void what_is_no_hello_is_known_at_once(void **state)
{
	static const struct {
		struct slice in;
		enum hello_result result;
	} cases[] = {
		{SLICE(""), HELLO_MORE}, {SLICE("\x16\x03\x01\x00\x10\x01\x00\x00"), HELLO_MORE},
		{SLICE("S"), HELLO_NOT_TLS}, {SLICE("\x16\x02"), HELLO_NOT_TLS},
		{SLICE("\x16\x03\x05"), HELLO_NOT_TLS},
		{SLICE("\x16\x03\x01\x00\x00"), HELLO_NOT_TLS},         /* an empty record */
		{SLICE("\x16\x03\x01\x40\x01"), HELLO_NOT_TLS},         /* one too large */
		{SLICE("\x80\x2e\x01\x03\x01"), HELLO_NOT_TLS},         /* of SSL 2 */
		{SLICE("\x15\x03\x01\x00\x02\x02\x28"), HELLO_NOT_TLS}, /* an alert */
		{SLICE("\x16\x03\x01\x00\x01\x02"), HELLO_MALFORMED},   /* ServerHello */
		{SLICE("\x16\x03\x01\x00\x04\x01\x00\x40\x00"), HELLO_MALFORMED}, /* too long */
		{SLICE("\x16\x03\x01\x00\x04\x01\x00\x00\x00"), HELLO_MALFORMED}, /* empty */
		{SLICE("\x16\x03\x01\x00\x01\x01\x17"), HELLO_MALFORMED}, /* data in between */
		{SLICE("\x16\x03\x01\x00\x06\x01\x00\x00\x01\x03\x03"),
			HELLO_MALFORMED}, /* more behind */
	};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		struct hello hello;
		if (parse(cases[i].in, 1, &hello) != cases[i].result)
			fail_msg("case %zu", i);
	}
}

static void a_message_ends_at_its_limit(void **state)
{
	static char padding[HELLO_BYTES_MAX];
	struct buf message = {0}, wire = {0};
	struct hello hello;
	(void)state;
	memset(padding, 0, sizeof(padding));
	message_make(SLICE(""), &message);
	size_t room = HELLO_BYTES_MAX - buf_len(&message) - 4;
	for (size_t over = 2; over-- > 0;) {
		padding[1] = 21;
		padding[2] = (char)((room + over) >> 8);
		padding[3] = (char)(room + over);
		message_make((struct slice){padding, room + over + 4}, &message);
		records_make(buf_slice(&message), 1000, &wire);
		assert_int_equal(parse(buf_slice(&wire), 1000, &hello),
			over == 0 ? HELLO_DONE : HELLO_MALFORMED);
	}
	/* Records of one byte make a flight of six times that: it has a limit of its own. */
	records_make(buf_slice(&message), 1, &wire);
	assert_int_equal(
		parse(slice_part(buf_slice(&wire), 0, HELLO_FLIGHT_BYTES_MAX), 999, &hello),
		HELLO_MALFORMED);
	buf_fini(&message);
	buf_fini(&wire);
}

static void a_second_hello_may_follow_other_records(void **state)
{
	struct buf message = {0}, wire = {0}, all = {0};
	struct hello_scan scan = {.again = true};
	struct hello hello = {0};
	(void)state;
	message_make(SLICE(ONE_NAME), &message);
	records_make(buf_slice(&message), 50, &wire);
	assert_int_equal(
		buf_append(&all, SLICE("\x14\x03\x03\x00\x01\x01\x17\x03\x03\x00\x02xx")), 0);
	assert_int_equal(hello_parse(&scan, buf_slice(&all), &hello), HELLO_MORE);
	assert_int_equal(buf_append(&all, buf_slice(&wire)), 0);
	assert_int_equal(hello_parse(&scan, buf_slice(&all), &hello), HELLO_DONE);
	assert_int_equal(hello.len, buf_len(&all));
	assert_string_equal(hello.name.name, "origin.test");
	scan = (struct hello_scan){.again = true};
	assert_int_equal(
		hello_parse(&scan, SLICE("\x15\x03\x03\x00\x02\x01\x5a\x16\x03\x03"), &hello),
		HELLO_ALERT);
	assert_int_equal(scan.at, 7);
	scan = (struct hello_scan){.again = true};
	assert_int_equal(hello_parse(&scan, SLICE("GET"), &hello), HELLO_MALFORMED);
	buf_fini(&message);
	buf_fini(&wire);
	buf_fini(&all);
}

static void an_answer_that_asks_again_is_recognised(void **state)
{
	static const char retry[] =
		"\x16\x03\x03\x00\x58\x02\x00\x00\x54\x03\x03"
		"\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"
		"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c";
	struct slice whole = {retry, sizeof(retry) - 1};
	struct buf wire = {0};
	(void)state;
	for (size_t i = 0; i < whole.len; i++)
		assert_int_equal(hello_answer_of(slice_part(whole, 0, i)), HELLO_ANSWER_MORE);
	assert_int_equal(hello_answer_of(whole), HELLO_ANSWER_RETRY);
	records_make(slice_part(whole, 5, whole.len), 3, &wire);
	assert_int_equal(hello_answer_of(buf_slice(&wire)), HELLO_ANSWER_RETRY);
	wire.data[wire.start + 5 + 3 + 5 + 3 + 5] ^= 1; /* of the random */
	assert_int_equal(hello_answer_of(buf_slice(&wire)), HELLO_ANSWER_OTHER);
	assert_int_equal(hello_answer_of(SLICE("\x15\x03")), HELLO_ANSWER_OTHER);
	assert_int_equal(hello_answer_of(SLICE("220 mail.test\r\n")), HELLO_ANSWER_OTHER);
	buf_fini(&wire);
}

static void openings_are_told_apart(void **state)
{
	static const struct {
		struct slice in;
		enum opening_result result;
	} cases[] = {
		{SLICE("SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"), OPENING_OTHER},
		{SLICE("EHLO client.test\r\n"), OPENING_OTHER},
		{SLICE("GETTING x\r\n"), OPENING_OTHER},
		{SLICE("get key\r\n"), OPENING_OTHER},
		{SLICE("*1\r\n"), OPENING_OTHER},
		{SLICE("\x00\x00\x00\x08\x04\xd2\x16\x2f"), OPENING_OTHER},
		{SLICE("\x16\x13\xff"), OPENING_OTHER},
		{SLICE("\x16\x02\xff\x02\x00\x02\xff"), OPENING_OTHER},
		{SLICE("\x15\x02\xff\x00\x03\x01\xff"), OPENING_OTHER},
		{SLICE("\x13\x03\xff"), OPENING_OTHER},
		{SLICE("\x80\x01\x02\xff"), OPENING_OTHER},
		{SLICE("\xef\xbb\xbfGET / HTTP/1.1\r\n"), OPENING_OTHER},
		{SLICE("\r\n\r\n\x00\r\nQUIT\r"), OPENING_OTHER},
		{SLICE("PROXY\r\n"), OPENING_OTHER},
		{SLICE("POST\r\n"), OPENING_OTHER},
		{SLICE(""), OPENING_UNDECIDED},
		{SLICE("\r\n\r\n"), OPENING_UNDECIDED},
		{SLICE("hello"), OPENING_UNDECIDED},
		{SLICE("FOO / HTTP"), OPENING_UNDECIDED},
		{SLICE("\x16\x03"), OPENING_UNDECIDED},
		{SLICE("\x16\x02\x01\x02\x00"), OPENING_UNDECIDED},
		{SLICE("\x00\x01 \t\x7f\x9f"), OPENING_UNDECIDED},
		{SLICE("\x16\x03\x01"), OPENING_TLS},
		{SLICE("\x16\x03\x05"), OPENING_TLS},
		{SLICE("\x16\x03\xff"), OPENING_TLS},
		{SLICE("\x16\x02\x00\x02\x00\x01"), OPENING_TLS},
		{SLICE("\x16\x0f\xff\x02\x00\x01"), OPENING_TLS},
		{SLICE("\x15\x03\x01\x00\x02\x01\x5a\x16\x03\x01"), OPENING_TLS},
		{SLICE("\x15\x00\x00\x00\x02\x01\x5a\x16\x03\x01"), OPENING_TLS},
		{SLICE("\x14\x03\x03\x00\x01\x01"), OPENING_TLS},
		{SLICE("\x16\x03\x03\x02\x00\x01"), OPENING_TLS},
		{SLICE("\x80\x2e\x01\x03\x01"), OPENING_TLS},
		{SLICE("GET /"), OPENING_HTTP},
		{SLICE("GET\t/"), OPENING_HTTP},
		{SLICE("\r\n\nDELETE /x HTTP/1.1\r\n"), OPENING_HTTP},
		{SLICE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), OPENING_HTTP},
		{SLICE("FOO / HTTP/1.1\r\n"), OPENING_HTTP},
		{SLICE("A-METHOD-THAT-NOBODY-KNOWS  /x  http/1.0\n"), OPENING_HTTP},
		{SLICE("X HTT HTTP/"), OPENING_HTTP},
		{SLICE("\x01\x7fGET / HTTP/1.1\r\n"), OPENING_HTTP},
		{SLICE("\x00PUT /x"), OPENING_HTTP},
		{SLICE(" \r\n\tGET / HTTP/1.1\r\n"), OPENING_HTTP},
		{SLICE("\x16GET / HTTP/1.1\r\n"), OPENING_HTTP},
		{SLICE("\x16\x01GET / HTTP/1.1\r\n"), OPENING_HTTP},
		{SLICE("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"), OPENING_PROXY},
		{SLICE("\r\n\r\n\x00\r\nQUIT\n\x21"), OPENING_PROXY},
	};
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		for (size_t step = 1; step < 40; step += 38) {
			struct opening o = {0};
			enum opening_result result = OPENING_UNDECIDED;
			for (size_t at = 0; at < cases[i].in.len && result == OPENING_UNDECIDED;
				at += step)
				result = opening_feed(&o, slice_part(cases[i].in, at, at + step));
			if (result != cases[i].result)
				fail_msg("%.*s: %d", (int)cases[i].in.len, cases[i].in.ptr, result);
		}
	}
}

/** Some servers take a request line of a megabyte, and skip as many empty ones. */
static void a_first_line_may_be_long(void **state)
{
	static const struct slice fillers[] = {SLICE("x"), SLICE("\r\n")};
	(void)state;
	for (size_t i = 0; i < array_size(fillers); i++) {
		struct opening o = {0};
		for (size_t k = 0; k < 1 << 20; k++)
			assert_int_equal(opening_feed(&o, fillers[i]), OPENING_UNDECIDED);
		assert_int_equal(opening_feed(&o, SLICE("GET /x HTTP/1.1\r\n")), OPENING_HTTP);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_is_the_same_in_pieces_of_any_size),
		cmocka_unit_test(extensions_mean_one_thing_or_are_refused),
		cmocka_unit_test(what_is_no_hello_is_known_at_once),
		cmocka_unit_test(a_message_ends_at_its_limit),
		cmocka_unit_test(a_second_hello_may_follow_other_records),
		cmocka_unit_test(an_answer_that_asks_again_is_recognised),
		cmocka_unit_test(openings_are_told_apart),
		cmocka_unit_test(a_first_line_may_be_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
