/* Addresses: strict text, exact classes, prefixes. */
#include "tests/unit/cmocka_setup.h"

#include "common/address.h"
#include "common/cleanup.h"

#include <arpa/inet.h>

struct class_case {
	const char *text;
	enum address_class class;
};

static const struct class_case class_cases[] = {
	{"8.8.8.8", ADDRESS_PUBLIC},
	{"1.1.1.1", ADDRESS_PUBLIC},
	{"2606:4700::1", ADDRESS_PUBLIC},
	{"127.0.0.1", ADDRESS_LOOPBACK},
	{"0.0.0.0", ADDRESS_LOOPBACK},
	{"10.0.0.5", ADDRESS_PRIVATE},
	{"172.16.0.1", ADDRESS_PRIVATE},
	{"172.31.255.255", ADDRESS_PRIVATE},
	{"172.32.0.1", ADDRESS_PUBLIC},
	{"192.168.1.1", ADDRESS_PRIVATE},
	{"100.64.0.1", ADDRESS_PRIVATE},
	{"100.127.255.255", ADDRESS_PRIVATE},
	{"100.128.0.0", ADDRESS_PUBLIC},
	{"100.100.100.200", ADDRESS_METADATA},
	{"169.254.169.254", ADDRESS_METADATA},
	{"169.254.1.1", ADDRESS_LINK_LOCAL},
	{"168.63.129.16", ADDRESS_METADATA},
	{"192.0.0.1", ADDRESS_SPECIAL},
	{"192.0.2.1", ADDRESS_SPECIAL},
	{"198.18.0.1", ADDRESS_SPECIAL},
	{"198.19.255.255", ADDRESS_SPECIAL},
	{"198.51.100.1", ADDRESS_SPECIAL},
	{"203.0.113.10", ADDRESS_SPECIAL},
	{"224.0.0.1", ADDRESS_SPECIAL},
	{"240.0.0.1", ADDRESS_SPECIAL},
	{"255.255.255.255", ADDRESS_SPECIAL},
	{"::1", ADDRESS_LOOPBACK},
	{"::", ADDRESS_LOOPBACK},
	{"::ffff:127.0.0.1", ADDRESS_SPECIAL},
	{"::ffff:7f00:1", ADDRESS_SPECIAL},
	{"::ffff:8.8.8.8", ADDRESS_SPECIAL},
	{"0:0:0:0:0:ffff:a9fe:a9fe", ADDRESS_SPECIAL},
	{"::127.0.0.1", ADDRESS_SPECIAL},
	{"64:ff9b::7f00:1", ADDRESS_SPECIAL},
	{"64:ff9b:1::1", ADDRESS_SPECIAL},
	{"2002:a9fe:a9fe::1", ADDRESS_SPECIAL},
	{"2001:0:53aa:64c::80ff:fffe", ADDRESS_SPECIAL},
	{"2001:db8::1", ADDRESS_SPECIAL},
	{"100::1", ADDRESS_SPECIAL},
	{"fe80::1", ADDRESS_LINK_LOCAL},
	{"fc00::1", ADDRESS_PRIVATE},
	{"fd00:ec2::254", ADDRESS_METADATA},
	{"ff02::1", ADDRESS_SPECIAL},
	{"4000::1", ADDRESS_SPECIAL},
};

static void classifies_every_special_address(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(class_cases); i++) {
		struct address a;
		if (address_parse(slice_of(class_cases[i].text), &a) != 0)
			fail_msg("%s does not parse", class_cases[i].text);
		if (address_classify(&a) != class_cases[i].class)
			fail_msg("%s is %s", class_cases[i].text,
				address_class_name(address_classify(&a)));
	}
}

static void refuses_every_other_spelling(void **state)
{
	(void)state;
	static const char *const wrong[] = {"", "1", "127.1", "1.2.3", "01.2.3.4", "1.2.3.256",
		"1.2.3.4.5", "0x7f.0.0.1", "1.2.3.4 ", " 1.2.3.4", "1.2.3.", ".1.2.3", "1..2.3",
		"+1.2.3.4", "1.2.3.0004", "fe80::1%eth0", ":::", "1:2", "::g", "[::1]", "12345::"};
	for (size_t i = 0; i < array_size(wrong); i++) {
		struct address a;
		if (address_parse(slice_of(wrong[i]), &a) == 0)
			fail_msg("'%s' was accepted", wrong[i]);
	}
	struct address a;
	assert_int_not_equal(address_parse((struct slice){"::1\0", 4}, &a), 0);
}

static void a_prefix_needs_zero_host_bits(void **state)
{
	(void)state;
	struct cidr c;
	assert_int_equal(cidr_parse(SLICE("203.0.113.0/24"), &c), 0);
	assert_int_equal(c.bits, 24);
	assert_int_equal(cidr_parse(SLICE("203.0.113.10"), &c), 0);
	assert_int_equal(c.bits, 32);
	static const char *const wrong[] = {"203.0.113.1/24", "10.0.0.0/33", "10.0.0.0/",
		"10.0.0.0/08", "10/8", "::1/64", "::/129", "/8"};
	for (size_t i = 0; i < array_size(wrong); i++) {
		if (cidr_parse(slice_of(wrong[i]), &c) == 0)
			fail_msg("'%s' was accepted", wrong[i]);
	}
}

static void a_prefix_contains_to_the_bit(void **state)
{
	(void)state;
	struct cidr c;
	struct address inside;
	struct address outside;
	assert_int_equal(cidr_parse(SLICE("100.64.0.0/10"), &c), 0);
	assert_int_equal(address_parse(SLICE("100.127.255.255"), &inside), 0);
	assert_int_equal(address_parse(SLICE("100.128.0.0"), &outside), 0);
	assert_true(cidr_contains(&c, &inside));
	assert_false(cidr_contains(&c, &outside));
	assert_int_equal(address_parse(SLICE("::ffff:100.64.0.1"), &outside), 0);
	assert_false(cidr_contains(&c, &outside));
}

static void an_endpoint_has_one_spelling(void **state)
{
	(void)state;
	struct address a;
	uint16_t port;
	assert_int_equal(address_parse_endpoint(SLICE("203.0.113.53:5353"), 53, &a, &port), 0);
	assert_int_equal(port, 5353);
	assert_int_equal(address_parse_endpoint(SLICE("203.0.113.53"), 53, &a, &port), 0);
	assert_int_equal(port, 53);
	assert_int_equal(address_parse_endpoint(SLICE("[2001:db8::1]:53"), 0, &a, &port), 0);
	assert_int_equal(a.family, 6);
	static const char *const wrong[] = {"", ":53", "1.2.3.4:", "1.2.3.4:0", "1.2.3.4:65536",
		"2001:db8::1:53", "[1.2.3.4]:53", "[::1]x", "1.2.3.4:53:1", "name:53"};
	for (size_t i = 0; i < array_size(wrong); i++) {
		if (address_parse_endpoint(slice_of(wrong[i]), 0, &a, &port) == 0)
			fail_msg("'%s' was accepted", wrong[i]);
	}
}

static void every_octet_is_printed_as_others_do(void **state)
{
	(void)state;
	for (unsigned octet = 0; octet < 256; octet++) {
		struct address a = {.family = 4, .bytes = {(uint8_t)octet, 9, 10, (uint8_t)octet}};
		char text[ADDRESS_TEXT_BYTES], expected[INET_ADDRSTRLEN];
		assert_non_null(inet_ntop(AF_INET, a.bytes, expected, sizeof(expected)));
		assert_string_equal(address_format(&a, text), expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classifies_every_special_address),
		cmocka_unit_test(refuses_every_other_spelling),
		cmocka_unit_test(a_prefix_needs_zero_host_bits),
		cmocka_unit_test(a_prefix_contains_to_the_bit),
		cmocka_unit_test(an_endpoint_has_one_spelling),
		cmocka_unit_test(every_octet_is_printed_as_others_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
