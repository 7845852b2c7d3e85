/* Which DNS servers a run asks, out of what people write into resolv.conf. */
#include "tests/unit/cmocka_setup.h"

#include "common/resolver.h"

#include <errno.h>

static void nameserver_lines_are_taken_and_nothing_else(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		size_t count;
		const char *first;
	} cases[] = {
		{"", 0, ""},
		{"nameserver 192.0.2.1", 1, "192.0.2.1"},
		{"nameserver\t192.0.2.1 \t# ours\n", 1, "192.0.2.1"},
		{"nameserver 192.0.2.1\r\n", 1, "192.0.2.1"},
		{"# nameserver 192.0.2.9\nsearch corp.test\noptions ndots:5\nnameserver 2001:db8::1\n",
			1, "2001:db8::1"},
		{"nameserver 192.0.2.1\nnameserver 192.0.2.2\n", 2, "192.0.2.1"},
		{"nameserver fe80::1%eth0\nnameserver 192.0.2.2\n", 1, "192.0.2.2"},
		{"nameserver resolver.example.com\n", 0, ""},
		{"nameserver\n", 0, ""},
		{"nameserver192.0.2.1\n", 0, ""},
		{" nameserver 192.0.2.1\n", 0, ""},
		{"nameserver 010.0.0.1\nnameserver 192.0.2.256\n", 0, ""},
		{"nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n"
		 "nameserver 192.0.2.4\nnameserver 192.0.2.5\n",
			4, "192.0.2.1"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct resolver found[4];
		char text[ADDRESS_TEXT_BYTES];
		assert_int_equal(resolver_parse(slice_of(cases[i].text), found, 4), cases[i].count);
		if (cases[i].count == 0)
			continue;
		assert_string_equal(address_format(&found[0].address, text), cases[i].first);
		assert_int_equal(found[0].port, 53);
	}
}

static void a_given_resolver_is_the_only_one(void **state)
{
	(void)state;
	static const struct {
		const char *given;
		int count;
		const char *address;
		uint16_t port;
	} cases[] = {
		{"192.0.2.1", 1, "192.0.2.1", 53},
		{"192.0.2.1:5353", 1, "192.0.2.1", 5353},
		{"[2001:db8::1]:5353", 1, "2001:db8::1", 5353},
		{"", -EINVAL, "", 0},
		{"resolver.example.com", -EINVAL, "", 0},
		{"192.0.2.1:0", -EINVAL, "", 0},
		{"192.0.2.1:53 ", -EINVAL, "", 0},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct resolver found[4];
		struct failure why = {0};
		char text[ADDRESS_TEXT_BYTES];
		assert_int_equal(resolver_find(cases[i].given, found, 4, &why), cases[i].count);
		if (cases[i].count < 0) {
			assert_non_null(strstr(why.text, "not ADDR[:PORT]"));
			continue;
		}
		assert_string_equal(address_format(&found[0].address, text), cases[i].address);
		assert_int_equal(found[0].port, cases[i].port);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nameserver_lines_are_taken_and_nothing_else),
		cmocka_unit_test(a_given_resolver_is_the_only_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
