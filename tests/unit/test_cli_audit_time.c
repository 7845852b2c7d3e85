#include "tests/unit/cmocka_setup.h"

#include "cli/audit_time.h"
#include "common/cleanup.h"

#define NOW_MS UINT64_C(1795982519817) /* 2026-11-29T20:01:59.817Z */
#define DAY_MS UINT64_C(1795910400000) /* its beginning */

static void moments_are_read(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t ms;
	} cases[] = {
		{"now", NOW_MS},
		{"today", DAY_MS},
		{"yesterday", DAY_MS - 86400000},
		{"10m", NOW_MS - 600000},
		{"2h", NOW_MS - 7200000},
		{"45s", NOW_MS - 45000},
		{"3d", NOW_MS - 3 * UINT64_C(86400000)},
		{"2026-11-29", DAY_MS},
		{"2026-11-29T20:01", DAY_MS + 72060000},
		{"2026-11-29 20:01", DAY_MS + 72060000},
		{"2026-11-29T20:01:59Z", DAY_MS + 72119000},
		{"2026-11-29t20:01:59z", DAY_MS + 72119000},
		{"2026-11-29T20:01:59.8Z", DAY_MS + 72119800},
		{"2026-11-29T20:01:59.817999", DAY_MS + 72119817},
		{"2026-11-29T21:01:59+01:00", DAY_MS + 72119000},
		{"2026-11-29T00:00:00-05:30", DAY_MS + 19800000},
		{"2026-11-29T00:00Z", DAY_MS},
		{"2024-02-29", UINT64_C(1709164800000)},
		{"1970-01-01", 0},
	};
	for (size_t i = 0; i < array_size(cases); i++) {
		uint64_t ms = 1;
		if (!audit_time_parse(slice_of(cases[i].text), NOW_MS, &ms) || ms != cases[i].ms)
			fail_msg("%s: %llu", cases[i].text, (unsigned long long)ms);
	}
}

static void what_is_no_moment_is_refused(void **state)
{
	(void)state;
	static const char *const cases[] = {"", "tomorrow", "10", "m", "10x", "-2h", "2h ", "2026",
		"2026-11", "2026-13-01", "2026-00-01", "2026-02-29", "2026-02-30", "2026-11-31",
		"2026-11-29T", "2026-11-29T24:00", "2026-11-29T20:60", "2026-11-29T20:01:61",
		"2026-11-29T20:01:59.", "2026-11-29T20:01:59+1:00", "2026-11-29T20:01:59+01",
		"2026-11-29T20:01:59ZZ", "2026-11-29Z", "1969-12-31", "1970-01-01T00:00:00+01:00",
		"26-11-29", "2026/11/29", "2026-11-29T2:01", "\xef\xbc\x92h"};
	for (size_t i = 0; i < array_size(cases); i++) {
		uint64_t ms;
		if (audit_time_parse(slice_of(cases[i]), NOW_MS, &ms))
			fail_msg("%s", cases[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moments_are_read),
		cmocka_unit_test(what_is_no_moment_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
