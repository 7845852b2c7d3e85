/* What netd is asked to open and to capture: as much as its message holds, and nothing more in silence. */
#include "tests/unit/cmocka_setup.h"

#include "ipc/openings.h"

#include <netinet/in.h>

static struct message_netd_start start;

static struct cidr prefix(uint8_t last, uint8_t bits)
{
	return (struct cidr){.base = {.family = 4, .bytes = {10, 0, 0, last}}, .bits = bits};
}

static void as_many_as_fit_and_one_more_is_told(void **state)
{
	(void)state;
	start = (struct message_netd_start){0};
	struct openings o = {.to = &start};
	for (int i = 0; i < MESSAGE_OPENED_MAX; i++) {
		const struct cidr one = prefix((uint8_t)i, 32);
		openings_open(&one, 443, 444, &o);
	}
	for (int i = 0; i < MESSAGE_CAPTURED_MAX; i++) {
		const struct cidr one = prefix((uint8_t)i, 32);
		openings_capture(&one, &o);
	}
	assert_int_equal(start.opened_count, MESSAGE_OPENED_MAX);
	assert_int_equal(start.captured_count, MESSAGE_CAPTURED_MAX);
	assert_false(o.too_many_opened || o.too_many_captured);
	const struct cidr more = prefix(0, 24);
	openings_open(&more, 443, 443, &o);
	assert_true(o.too_many_opened);
	assert_false(o.too_many_captured);
	openings_capture(&more, &o);
	assert_true(o.too_many_captured);
	assert_int_equal(start.opened_count, MESSAGE_OPENED_MAX);
	assert_int_equal(start.captured_count, MESSAGE_CAPTURED_MAX);
}

static void servers_are_one_address_and_one_port(void **state)
{
	(void)state;
	start = (struct message_netd_start){0};
	struct openings o = {.to = &start};
	const struct address four = prefix(53, 32).base;
	const struct address six = {.family = 6, .bytes = {0x20, 0x01, 0x0d, 0xb8}};
	openings_open_server(&o, &four, 53);
	openings_open_proxy(&o, &six, 3128);
	assert_int_equal(start.opened_count, 2);
	assert_int_equal(start.opened[0].prefix.bits, 32);
	assert_int_equal(start.opened[0].protocol, 0); /* both */
	assert_int_equal(start.opened[0].port_first, 53);
	assert_int_equal(start.opened[0].port_last, 53);
	assert_int_equal(start.opened[1].prefix.bits, 128);
	assert_int_equal(start.opened[1].protocol, IPPROTO_TCP);
	assert_int_equal(start.opened[1].port_first, 3128);
	assert_int_equal(start.opened[1].port_last, 3128);
}

static void nothing_of_ipv6_is_captured(void **state)
{
	(void)state;
	start = (struct message_netd_start){0};
	struct openings o = {.to = &start};
	const struct cidr six = {
		.base = {.family = 6, .bytes = {0x20, 0x01, 0x0d, 0xb8}}, .bits = 32};
	openings_capture(&six, &o);
	assert_int_equal(start.captured_count, 0);
	assert_false(o.too_many_captured);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_as_fit_and_one_more_is_told),
		cmocka_unit_test(servers_are_one_address_and_one_port),
		cmocka_unit_test(nothing_of_ipv6_is_captured),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
