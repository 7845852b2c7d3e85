/* The address plan: pairs that never repeat, and an end that is noticed. */
#include "tests/unit/cmocka_setup.h"

#include "netd/address_plan.h"

#include <errno.h>

static void slots_own_the_pairs_from_10_0_0_2_on(void **state)
{
	(void)state;
	static const struct {
		uint32_t used;
		const char *gateway;
		const char *sandbox;
	} cases[] = {
		{0, "10.0.0.2", "10.0.0.3"},
		{1, "10.0.0.4", "10.0.0.5"},
		{126, "10.0.0.254", "10.0.0.255"},
		{127, "10.0.1.0", "10.0.1.1"},
		{ADDRESS_PLAN_SLOT_MAX - 1, "10.255.255.252", "10.255.255.253"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct address_plan plan = {.used = cases[i].used};
		struct address_slot slot;
		char text[ADDRESS_TEXT_BYTES];
		assert_int_equal(address_plan_take(&plan, &slot), 0);
		assert_string_equal(address_format(&slot.gateway, text), cases[i].gateway);
		assert_string_equal(address_format(&slot.sandbox, text), cases[i].sandbox);
		assert_int_equal(slot.number, cases[i].used + 1);
		assert_int_equal(slot.gateway_index, (int)cases[i].used + 3);
	}
}

static void nothing_is_handed_out_twice(void **state)
{
	(void)state;
	struct address_plan plan = {0};
	struct address_slot last = {0};
	for (int i = 0; i < 70000; i++) {
		struct address_slot slot;
		assert_int_equal(address_plan_take(&plan, &slot), 0);
		/* each is above the one before, so none is any earlier one */
		assert_true(memcmp(slot.gateway.bytes, last.sandbox.bytes, 4) > 0);
		assert_true(memcmp(slot.sandbox.bytes, slot.gateway.bytes, 4) > 0);
		assert_true(memcmp(slot.gateway_link, last.gateway_link,
				    sizeof(last.gateway_link)) > 0);
		assert_true(memcmp(slot.gateway_link, slot.sandbox_link,
				    sizeof(slot.sandbox_link)) != 0);
		assert_true(slot.gateway_index > last.gateway_index);
		last = slot;
	}
}

static void the_end_of_the_plan_is_an_error_and_stays_one(void **state)
{
	(void)state;
	struct address_plan plan = {.used = ADDRESS_PLAN_SLOT_MAX};
	struct address_slot slot = {.number = 7};
	for (int i = 0; i < 3; i++)
		assert_int_equal(address_plan_take(&plan, &slot), -ENOSPC);
	assert_int_equal(slot.number, 7);
}

static void the_service_is_outside_the_slots(void **state)
{
	(void)state;
	struct address_plan plan = {.used = ADDRESS_PLAN_SLOT_MAX - 1};
	struct address_slot slot;
	const struct address service = address_plan_service();
	char text[ADDRESS_TEXT_BYTES];
	assert_string_equal(address_format(&service, text), "10.255.255.254");
	assert_int_equal(address_plan_take(&plan, &slot), 0);
	assert_true(memcmp(slot.sandbox.bytes, service.bytes, 4) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_own_the_pairs_from_10_0_0_2_on),
		cmocka_unit_test(nothing_is_handed_out_twice),
		cmocka_unit_test(the_end_of_the_plan_is_an_error_and_stays_one),
		cmocka_unit_test(the_service_is_outside_the_slots),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
