/* Hosts and authorities: one form of a name, every other spelling refused. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "policy/host.h"

#include <stdio.h>

struct host_case {
	const char *text;
	const char *name; /* NULL: refused */
	enum host_kind kind;
};

#define LABEL63 "a23456789012345678901234567890123456789012345678901234567890123"
#define NAME253                                                                                    \
	LABEL63 "." LABEL63 "." LABEL63                                                            \
		".a2345678901234567890123456789012345678901234567890123456789.x"

static const struct host_case host_cases[] = {
	/* A01: one trailing dot goes, two do not parse */
	{"allowed.test", "allowed.test", HOST_NAME},
	{"allowed.test.", "allowed.test", HOST_NAME},
	{"allowed.test..", NULL, HOST_NAME},
	{".", NULL, HOST_NAME},
	{"", NULL, HOST_NAME},
	/* A02: ASCII case */
	{"SeCrEt.WILD.Test", "secret.wild.test", HOST_NAME},
	{"ALLOWED.TEST", "allowed.test", HOST_NAME},
	/* A03: brackets around a name */
	{"[denied.test]", NULL, HOST_NAME},
	{"[[::1]]", NULL, HOST_NAME},
	{"[]", NULL, HOST_NAME},
	{"[", NULL, HOST_NAME},
	{"[::1", NULL, HOST_NAME},
	{"[203.0.113.10]", NULL, HOST_NAME},
	/* A05: an empty label */
	{".wild.test", NULL, HOST_NAME},
	{"a..wild.test", NULL, HOST_NAME},
	{"*.wild.test", NULL, HOST_NAME},
	/* A08, A09: percent, userinfo and other delimiters */
	{"denied.test%23.wild.test", NULL, HOST_NAME},
	{"denied.test%00", NULL, HOST_NAME},
	{"%", NULL, HOST_NAME},
	{"allowed.test@denied.test", NULL, HOST_NAME},
	{"allowed.test\\@denied.test", NULL, HOST_NAME},
	{"denied.test#", NULL, HOST_NAME},
	{"denied.test?", NULL, HOST_NAME},
	{"denied.test/", NULL, HOST_NAME},
	{"denied.test:443", NULL, HOST_NAME},
	{" denied.test", NULL, HOST_NAME},
	{"denied.test ", NULL, HOST_NAME},
	{"a,b.test", NULL, HOST_NAME},
	/* labels */
	{"_dmarc.a-b.test", "_dmarc.a-b.test", HOST_NAME},
	{"xn--caf-dma.test", "xn--caf-dma.test", HOST_NAME},
	{"r3---sn.test", "r3---sn.test", HOST_NAME},
	{"-a.test", NULL, HOST_NAME},
	{"a-.test", NULL, HOST_NAME},
	{"localhost", "localhost", HOST_NAME},
	{LABEL63 ".test", LABEL63 ".test", HOST_NAME},
	{LABEL63 "x.test", NULL, HOST_NAME},
	{NAME253, NAME253, HOST_NAME},
	{NAME253 ".", NAME253, HOST_NAME},
	{NAME253 "x", NULL, HOST_NAME},
	/* B06: numbers that some resolver takes for an address */
	{"2130706433", NULL, HOST_NAME},
	{"0x7f000001", NULL, HOST_NAME},
	{"0x7f.1", NULL, HOST_NAME},
	{"0177.0.0.1", NULL, HOST_NAME},
	{"127.1", NULL, HOST_NAME},
	{"017700000001", NULL, HOST_NAME},
	{"169.254.43518", NULL, HOST_NAME},
	{"127.0.0.1.", NULL, HOST_NAME},
	{"1.2.3", NULL, HOST_NAME},
	{"0x", NULL, HOST_NAME},
	{"a.0X7f", NULL, HOST_NAME},
	{"1.2.3.4.5", NULL, HOST_NAME},
	{"0x7f.test", "0x7f.test", HOST_NAME},
	{"127.test", "127.test", HOST_NAME},
	/* B02, B07: literals */
	{"203.0.113.10", "203.0.113.10", HOST_ADDRESS},
	{"[2001:DB8:0::10]", "2001:db8::10", HOST_ADDRESS},
	{"[::ffff:7f00:1]", "::ffff:127.0.0.1", HOST_ADDRESS},
	{"[::FFFF:10.0.0.1]", "::ffff:10.0.0.1", HOST_ADDRESS},
	{"[fe80::1%25eth0]", NULL, HOST_NAME},
	{"[::1%25.wild.test]", NULL, HOST_NAME},
	{"[fe80::1%eth0]", NULL, HOST_NAME},
	{"::1", NULL, HOST_NAME},
};

static void a_host_has_one_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(host_cases); i++) {
		const struct host_case *c = &host_cases[i];
		struct host h = {.kind = HOST_NAME, .name = "untouched"};
		int r = host_parse(slice_of(c->text), &h);
		if (c->name == NULL) {
			if (r != -EINVAL || strcmp(h.name, "untouched") != 0)
				fail_msg("'%s' was accepted as '%s'", c->text, h.name);
			continue;
		}
		if (r != 0 || strcmp(h.name, c->name) != 0 || h.kind != c->kind)
			fail_msg("'%s' gives %d '%s'", c->text, r, h.name);
		struct host again;
		char text[HOST_NAME_BYTES + 2];
		bool v6 = h.kind == HOST_ADDRESS && h.address.family == 6;
		(void)snprintf(text, sizeof(text), v6 ? "[%s]" : "%s", h.name);
		assert_int_equal(host_parse(slice_of(text), &again), 0);
		assert_true(host_equal(&h, &again));
	}
}

static void no_other_byte_is_part_of_a_host(void **state)
{
	(void)state;
	for (int byte = 0; byte < 256; byte++) {
		char text[] = "denied.test?.wild.test";
		text[11] = (char)byte;
		struct host h;
		bool fine = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
			(byte >= '0' && byte <= '9') || byte == '_';
		int r = host_parse((struct slice){text, sizeof(text) - 1}, &h);
		if ((r == 0) != fine)
			fail_msg("byte 0x%02x gives %d", (unsigned)byte, r);
	}
}

struct authority_case {
	const char *text;
	uint16_t default_port;
	const char *name; /* NULL: refused */
	uint16_t port;
};

static const struct authority_case authority_cases[] = {
	{"allowed.test:443", 0, "allowed.test", 443},
	{"allowed.test.:8443", 0, "allowed.test", 8443},
	{"[2001:db8::10]:443", 0, "2001:db8::10", 443},
	{"203.0.113.10:1", 0, "203.0.113.10", 1},
	{"allowed.test:65535", 0, "allowed.test", 65535},
	{"allowed.test", 80, "allowed.test", 80},
	{"[::1]", 80, "::1", 80},
	{"allowed.test", 0, NULL, 0},
	{"[::1]", 0, NULL, 0},
	/* A10: malformed ports */
	{"allowed.test:", 80, NULL, 0},
	{"allowed.test:0", 80, NULL, 0},
	{"allowed.test:65536", 80, NULL, 0},
	{"allowed.test:443x", 80, NULL, 0},
	{"allowed.test:+443", 80, NULL, 0},
	{"allowed.test: 443", 80, NULL, 0},
	{"allowed.test:00443", 80, NULL, 0},
	{"allowed.test:443:443", 80, NULL, 0},
	{"allowed.test:99999999999999999999", 80, NULL, 0},
	{"denied.test%3a443", 80, NULL, 0},
	{"::1:443", 80, NULL, 0},
	{"[::1]443", 80, NULL, 0},
	{"[::1]x:443", 80, NULL, 0},
	{"[allowed.test]:443", 80, NULL, 0},
	{":443", 80, NULL, 0},
	{"", 80, NULL, 0},
	{"[::1", 80, NULL, 0},
	{"a@allowed.test:443", 80, NULL, 0},
};

static void an_authority_has_one_port(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(authority_cases); i++) {
		const struct authority_case *c = &authority_cases[i];
		struct host h;
		uint16_t port = 0;
		int r = authority_parse(slice_of(c->text), c->default_port, &h, &port);
		if (c->name == NULL) {
			if (r != -EINVAL)
				fail_msg("'%s' gives %d", c->text, r);
		} else if (r != 0 || strcmp(h.name, c->name) != 0 || port != c->port) {
			fail_msg("'%s' gives %d port %u", c->text, r, port);
		}
	}
}

static void an_address_never_equals_a_name(void **state)
{
	(void)state;
	struct host a;
	struct host b;
	assert_int_equal(host_parse(SLICE("203.0.113.10"), &a), 0);
	assert_int_equal(host_parse(SLICE("[::ffff:203.0.113.10]"), &b), 0);
	assert_false(host_equal(&a, &b));
	b = a;
	b.kind = HOST_NAME;
	assert_false(host_equal(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_has_one_form),
		cmocka_unit_test(no_other_byte_is_part_of_a_host),
		cmocka_unit_test(an_authority_has_one_port),
		cmocka_unit_test(an_address_never_equals_a_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
