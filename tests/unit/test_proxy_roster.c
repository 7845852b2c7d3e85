#include "tests/unit/cmocka_setup.h"

#include "proxy/roster.h"

#include <errno.h>
#include <stdio.h>

static struct message_sandbox sandbox(unsigned number)
{
	struct message_sandbox m = {
		.address = {
			.family = 4, .bytes = {10, 0, (uint8_t)(number >> 8), (uint8_t)number}}};
	(void)snprintf(m.sandbox_id, sizeof(m.sandbox_id), "sb-%u", number);
	return m;
}

/** netd's filter steers by (saddr >> 1) % workers; both must agree. */
static void both_addresses_of_a_slot_belong_to_one_worker(void **state)
{
	(void)state;
	for (uint8_t octet = 2; octet < 200; octet = (uint8_t)(octet + 2)) {
		struct address even = {.family = 4, .bytes = {10, 0, 0, octet}};
		struct address odd = {.family = 4, .bytes = {10, 0, 0, (uint8_t)(octet + 1)}};
		uint32_t slot = (UINT32_C(10) << 24 | octet) >> 1;
		assert_int_equal(roster_worker(&even, 3), slot % 3);
		assert_int_equal(roster_worker(&odd, 3), slot % 3);
		assert_int_equal(roster_worker(&odd, 1), 0);
	}
}

static void sandboxes_are_added_found_and_removed(void **state)
{
	(void)state;
	struct roster r = {0};
	int error = 0;
	for (unsigned i = 0; i < 100; i++) {
		struct message_sandbox m = sandbox(i);
		assert_non_null(roster_add(&r, &m, 2, &error));
		assert_null(roster_add(&r, &m, 2, &error));
		assert_int_equal(error, -EEXIST);
	}
	roster_remove(&r, roster_find(&r, "sb-7"));
	assert_null(roster_find(&r, "sb-7"));
	assert_non_null(roster_find(&r, "sb-8"));
	assert_int_equal(r.count, 99);
	roster_fini(&r);
}

static void the_oldest_question_without_answer_is_found(void **state)
{
	(void)state;
	struct roster r = {0};
	int error = 0;
	for (unsigned i = 0; i < 4; i++) {
		struct message_sandbox m = sandbox(i);
		roster_add(&r, &m, 1, &error)->asked = i > 0;
	}
	assert_string_equal(roster_pending(&r, 0)->sandbox.sandbox_id, "sb-1");
	roster_pending(&r, 0)->acknowledged = true;
	assert_string_equal(roster_pending(&r, 0)->sandbox.sandbox_id, "sb-2");
	assert_null(roster_pending(&r, 1));
	roster_fini(&r);
}

static void there_is_room_for_so_many_and_no_more(void **state)
{
	(void)state;
	struct roster r = {0};
	int error = 0;
	struct message_sandbox m;
	for (unsigned i = 0; i < ROSTER_SANDBOXES_MAX; i++) {
		m = sandbox(i);
		assert_non_null(roster_add(&r, &m, 2, &error));
	}
	m = sandbox(ROSTER_SANDBOXES_MAX);
	assert_null(roster_add(&r, &m, 2, &error));
	assert_int_equal(error, -ENOSPC);
	roster_fini(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_addresses_of_a_slot_belong_to_one_worker),
		cmocka_unit_test(sandboxes_are_added_found_and_removed),
		cmocka_unit_test(the_oldest_question_without_answer_is_found),
		cmocka_unit_test(there_is_room_for_so_many_and_no_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
