/* Dates of times, against the C library's. */
#include "tests/unit/cmocka_setup.h"

#include "common/clock.h"

static void assert_date(uint64_t seconds)
{
	time_t time = (time_t)seconds;
	struct tm theirs, ours = clock_utc(seconds * 1000 + 999);
	assert_non_null(gmtime_r(&time, &theirs));
	assert_int_equal(ours.tm_year, theirs.tm_year);
	assert_int_equal(ours.tm_mon, theirs.tm_mon);
	assert_int_equal(ours.tm_mday, theirs.tm_mday);
	assert_int_equal(ours.tm_hour, theirs.tm_hour);
	assert_int_equal(ours.tm_min, theirs.tm_min);
	assert_int_equal(ours.tm_sec, theirs.tm_sec);
}

static void every_day_of_800_years_is_the_one_of_the_c_library(void **state)
{
	(void)state;
	for (uint64_t day = 0; day < 2 * 146097; day++) {
		assert_date(day * 86400);
		assert_date(day * 86400 + 86399);
	}
	for (uint64_t second = 0; second < 86400; second += 7)
		assert_date(UINT64_C(1709164800) + second); /* 2024-02-29 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_day_of_800_years_is_the_one_of_the_c_library),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
