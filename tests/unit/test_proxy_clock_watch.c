/* The clock is set, by more or less than what counts, at once or bit by bit. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/clock_watch.h"

static void steps_of_more_than_a_second_are_seen_once(void **state)
{
	(void)state;
	static const struct {
		uint64_t wall_ms, boot_ms;
		int64_t step_ms;
	} looks[] = {
		{1000000, 500, 0},      /* the first one knows nothing */
		{1005000, 5500, 0},     /* time passes */
		{1006900, 6400, 0},     /* exactly a second: not yet */
		{1007901, 7400, 1001},  /* and a millisecond more */
		{1008901, 8400, 0},     /* told once */
		{1005400, 8900, -4001}, /* back */
		{1006400, 9900, 0}, {9006400, 10900, 7999000},
		{9006900, 11900, 0},     /* half a second back, */
		{9007399, 12900, -1001}, /* and once more */
	};
	struct clock_watch w = {0};
	for (size_t i = 0; i < array_size(looks); i++)
		assert_int_equal(
			clock_watch_step(&w, looks[i].wall_ms, looks[i].boot_ms), looks[i].step_ms);
}

static void time_since_boot_goes_on(void **state)
{
	(void)state;
	uint64_t before = clock_watch_boot_ms();
	assert_true(before > 0);
	assert_true(clock_watch_boot_ms() >= before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_of_more_than_a_second_are_seen_once),
		cmocka_unit_test(time_since_boot_goes_on),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
