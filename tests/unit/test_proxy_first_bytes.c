/* What a connection begins with, where it may be TLS or HTTP. Cases D04, D09. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/first_bytes.h"

static const struct {
	struct slice in;
	enum first_bytes is;
} table[] = {
	{SLICE("\x16\x03\x01"), FIRST_BYTES_TLS},
	{SLICE("\x16\x03\x04\x00"), FIRST_BYTES_TLS},
	{SLICE("\x16\x03\x05"), FIRST_BYTES_OTHER},
	{SLICE("\x16\x02"), FIRST_BYTES_OTHER},
	{SLICE("\x15\x03\x01"), FIRST_BYTES_OTHER},
	{SLICE("GET / HTTP/1.1\r\n"), FIRST_BYTES_HTTP},
	{SLICE("get /"), FIRST_BYTES_HTTP}, /* the parser judges it */
	{SLICE("M-SEARCH *"), FIRST_BYTES_HTTP},
	{SLICE(" GET /"), FIRST_BYTES_OTHER},
	{SLICE("\r\nGET / HTTP/1.1\r\n"), FIRST_BYTES_OTHER},
	{SLICE("GET\t/"), FIRST_BYTES_OTHER},
	{SLICE("SSH-2.0-x\r\n"), FIRST_BYTES_OTHER},
	{SLICE("PROXY:"), FIRST_BYTES_OTHER},
	{SLICE("abcdefghijklmnopqrstuvwxyzABCDEF "), FIRST_BYTES_HTTP},
	{SLICE("abcdefghijklmnopqrstuvwxyzABCDEFG "), FIRST_BYTES_OTHER},
	{SLICE("\0"), FIRST_BYTES_OTHER},
	{SLICE("\x80\x2e\x01\x03"), FIRST_BYTES_OTHER},
	{SLICE("\xff"), FIRST_BYTES_OTHER},
};

static void the_first_bytes_tell(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(table); i++)
		assert_int_equal(first_bytes_of(table[i].in), table[i].is);
}

static void what_was_said_does_not_change_with_more_bytes(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(table); i++) {
		for (size_t len = 0; len < table[i].in.len; len++) {
			enum first_bytes is = first_bytes_of(slice_part(table[i].in, 0, len));
			assert_true(is == FIRST_BYTES_MORE || is == table[i].is);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_bytes_tell),
		cmocka_unit_test(what_was_said_does_not_change_with_more_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
