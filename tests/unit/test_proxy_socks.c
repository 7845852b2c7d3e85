/* Messages of SOCKS5: what is asked for, and what is none of them. Cases A10, B06, B07. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/socks.h"

#define CONNECT_NAME "\x05\x01\x00\x03"

static enum socks_result request_of(struct slice in, struct socks_request *ret)
{
	for (size_t len = 0; len < in.len; len++) { /* a part is never more than the whole */
		enum socks_result part = socks_parse_request(slice_part(in, 0, len), ret);
		if (part != SOCKS_MORE)
			return part;
	}
	return socks_parse_request(in, ret);
}

static void a_greeting_offers_no_authentication_or_not(void **state)
{
	static const struct {
		struct slice in;
		enum socks_result result;
		bool is_open;
	} table[] = {
		{SLICE("\x05\x01\x00"), SOCKS_DONE, true},
		{SLICE("\x05\x03\x02\x01\x00"), SOCKS_DONE, true},
		{SLICE("\x05\x01\x02"), SOCKS_DONE, false},
		{SLICE("\x05\x02\x00"), SOCKS_MORE, false},
		{SLICE("\x05"), SOCKS_MORE, false},
		{SLICE("\x05\x00"), SOCKS_ERROR, false},
		{SLICE("\x04\x01\x00"), SOCKS_ERROR, false},
	};
	(void)state;
	for (size_t i = 0; i < array_size(table); i++) {
		size_t len = 0;
		bool is_open = false;
		assert_int_equal(
			socks_parse_greeting(table[i].in, &len, &is_open), table[i].result);
		assert_int_equal(is_open, table[i].is_open);
		assert_true(table[i].result != SOCKS_DONE || len == table[i].in.len);
	}
}

static void a_request_names_a_host(void **state)
{
	static const struct {
		struct slice in;
		const char *host; /* NULL: no valid one */
	} table[] = {
		{SLICE(CONNECT_NAME "\x0c"
				    "Allowed.Test\x01\xbb"),
			"allowed.test"},
		{SLICE("\x05\x01\x00\x01\x7f\x00\x00\x01\x01\xbb"), "127.0.0.1"},
		{SLICE("\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb"),
			"2001:db8::1"},
		{SLICE(CONNECT_NAME "\x09"
				    "127.0.0.1\x01\xbb"),
			"127.0.0.1"},
		{SLICE(CONNECT_NAME "\x03"
				    "::1\x01\xbb"),
			NULL},
		{SLICE(CONNECT_NAME "\x03"
				    "127\x01\xbb"),
			NULL},
		{SLICE(CONNECT_NAME "\x03"
				    "a\0b\x01\xbb"),
			NULL},
		{SLICE(CONNECT_NAME "\x03"
				    "a:1\x01\xbb"),
			NULL},
		{SLICE(CONNECT_NAME "\x00\x01\xbb"), NULL},
		{SLICE(CONNECT_NAME "\x01"
				    "a\0\0"),
			NULL},
	};
	(void)state;
	for (size_t i = 0; i < array_size(table); i++) {
		struct socks_request r;
		assert_int_equal(request_of(table[i].in, &r), SOCKS_DONE);
		assert_true(r.connect && r.len == table[i].in.len);
		assert_int_equal(r.has_host, table[i].host != NULL);
		if (r.has_host)
			assert_string_equal(r.host.name, table[i].host);
	}
}

static void other_commands_are_told_and_other_messages_refused(void **state)
{
	struct socks_request r;
	(void)state;
	assert_int_equal(request_of(SLICE("\x05\x02\x00\x03\x01"
					  "a\x01\xbb"),
				 &r),
		SOCKS_DONE);
	assert_false(r.connect);
	assert_int_equal(request_of(SLICE("\x05\x01\x01\x03\x01"
					  "a\x01\xbb"),
				 &r),
		SOCKS_ERROR);
	assert_int_equal(request_of(SLICE("\x04\x01\x00\x03\x01"), &r), SOCKS_ERROR);
	assert_int_equal(request_of(SLICE("\x05\x01\x00\x02\x01\x00"), &r), SOCKS_UNKNOWN_ADDRESS);
}

static void answers_are_in_the_words_that_a_client_waits_for(void **state)
{
	struct buf out = {0};
	(void)state;
	assert_int_equal(socks_write_method(&out), 0);
	assert_int_equal(socks_write_reply(SOCKS_STAGE_REQUEST, SOCKS_NOT_ALLOWED, &out), 0);
	assert_int_equal(socks_write_reply(SOCKS_STAGE_METHOD, SOCKS_NOT_ALLOWED, &out), 0);
	assert_int_equal(socks_write_reply(SOCKS_STAGE_4, SOCKS_NOT_ALLOWED, &out), 0);
	assert_true(slice_equal(buf_slice(&out),
		SLICE("\x05\x00\x05\x02\x00\x01\0\0\0\0\0\0\x05\xff\0\x5b\0\0\0\0\0\0")));
	buf_fini(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_greeting_offers_no_authentication_or_not),
		cmocka_unit_test(a_request_names_a_host),
		cmocka_unit_test(other_commands_are_told_and_other_messages_refused),
		cmocka_unit_test(answers_are_in_the_words_that_a_client_waits_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
