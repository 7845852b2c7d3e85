/* Listeners: the formula that gives a sandbox its worker, and all or nothing. */
#include "tests/unit/cmocka_setup.h"

#include "netd/address_plan.h"
#include "netd/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void a_sandbox_belongs_to_the_worker_of_its_slot(void **state)
{
	(void)state;
	static const struct {
		const char *address;
		unsigned workers;
		unsigned worker;
	} cases[] = {
		{"10.0.0.3", 1, 0},
		{"10.0.0.3", 2, 1},
		{"10.0.0.5", 2, 0},
		{"10.0.0.7", 2, 1},
		{"10.0.0.3", 3, (0x0a000003U >> 1) % 3},
		{"10.255.255.253", 8, (0x0afffffdU >> 1) % 8},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct address a;
		assert_int_equal(address_parse_v4(slice_of(cases[i].address), &a), 0);
		assert_int_equal(listener_worker(&a, cases[i].workers), cases[i].worker);
	}
}

static void neighbouring_slots_take_turns(void **state)
{
	(void)state;
	struct address_plan plan = {0};
	unsigned seen[8] = {0};
	for (int i = 0; i < 800; i++) {
		struct address_slot slot;
		assert_int_equal(address_plan_take(&plan, &slot), 0);
		seen[listener_worker(&slot.sandbox, 8)]++;
	}
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(seen[i], 100);
}

static void an_address_that_is_not_there_leaves_nothing_open(void **state)
{
	(void)state;
	const struct listener_spec elsewhere = {
		.address = {.family = 4, .bytes = {203, 0, 113, 1}}, .port = 3128};
	struct failure why = {0};
	int fds[4];
	int next = fcntl(0, F_DUPFD, 0); /* the lowest free number */
	assert_int_equal(listener_open(&elsewhere, 4, fds, &why), -EADDRNOTAVAIL);
	assert_string_equal(why.text,
		"can't listen for the proxy in the gateway: Cannot assign requested address");
	int after = fcntl(0, F_DUPFD, 0);
	assert_int_equal(after, next + 1);
	assert_int_equal(close(next), 0);
	assert_int_equal(close(after), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sandbox_belongs_to_the_worker_of_its_slot),
		cmocka_unit_test(neighbouring_slots_take_turns),
		cmocka_unit_test(an_address_that_is_not_there_leaves_nothing_open),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
