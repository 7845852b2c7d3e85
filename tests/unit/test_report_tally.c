/* Counting in bounded memory: by key, and over time. */
#include "report/spread.h"
#include "report/tally.h"
#include "tests/unit/cmocka_setup.h"

#include <stdio.h>

static void add(struct tally *t, const char *key, uint64_t allowed, uint64_t out)
{
	const struct tally_add what = {.parts = {slice_of(key)},
		.counts = {[TALLY_ALLOWED] = allowed, [TALLY_OUT] = out},
		.time_ms = 5};
	assert_int_equal(tally_add(t, &what), 0);
}

static void adds_up_by_key(void **state)
{
	(void)state;
	struct tally t = {.limit = 8};
	add(&t, "a", 1, 10);
	add(&t, "b", 5, 0);
	add(&t, "a", 1, 10);
	tally_close(&t, 8, TALLY_BY_EVENTS);
	assert_int_equal(t.count, 2);
	assert_string_equal(t.rows[0].parts[0].ptr, "b");
	assert_int_equal(t.rows[1].counts[TALLY_OUT], 20);
	assert_int_equal(t.given_up, 0);
	tally_fini(&t);
}

static void parts_are_not_run_together(void **state)
{
	(void)state;
	struct tally t = {.limit = 8};
	const struct tally_add one = {.parts = {SLICE("ab"), SLICE("c")}};
	const struct tally_add other = {.parts = {SLICE("a"), SLICE("bc")}};
	assert_int_equal(tally_add(&t, &one), 0);
	assert_int_equal(tally_add(&t, &other), 0);
	assert_int_equal(t.count, 2);
	tally_fini(&t);
}

static void notes_are_the_last_ones(void **state)
{
	(void)state;
	struct tally t = {.limit = 8};
	static const char *const notes[] = {"first", "second", ""};
	for (size_t i = 0; i < 3; i++) {
		const struct tally_add what = {
			.parts = {SLICE("a")}, .notes = {slice_of(notes[i])}};
		assert_int_equal(tally_add(&t, &what), 0);
	}
	assert_string_equal(t.rows[0].notes[0].ptr, "second");
	tally_fini(&t);
}

/** At the limit nothing is given up; one more key is what gives up. */
static void a_full_table_gives_up_the_lighter_half(void **state)
{
	(void)state;
	struct tally t = {.limit = 100};
	char key[16];
	add(&t, "exfil", 1, UINT64_C(1) << 40);
	for (unsigned i = 0; i < 99; i++) {
		(void)snprintf(key, sizeof(key), "k%u", i);
		add(&t, key, 1, 0);
	}
	assert_int_equal(t.count, 100);
	assert_int_equal(t.given_up, 0);
	for (unsigned i = 0; i < 10000; i++) {
		(void)snprintf(key, sizeof(key), "m%u", i);
		add(&t, key, 1, 0);
		assert_true(t.count <= 100);
	}
	tally_close(&t, 10, TALLY_BY_OUT);
	assert_int_equal(t.count, 10);
	assert_string_equal(t.rows[0].parts[0].ptr, "exfil");
	uint64_t sum = t.others.counts[TALLY_ALLOWED];
	for (size_t i = 0; i < t.count; i++)
		sum += t.rows[i].counts[TALLY_ALLOWED];
	assert_int_equal(sum, 10100);
	tally_fini(&t);
}

static void texts_are_cut_between_characters(void **state)
{
	(void)state;
	struct tally t = {.limit = 4};
	char text[TALLY_TEXT_BYTES + 2];
	memset(text, 'x', sizeof(text));
	memcpy(text + TALLY_TEXT_BYTES - 1, "\xc3\xa9", 2);
	const struct tally_add what = {.parts = {{text, sizeof(text)}}};
	assert_int_equal(tally_add(&t, &what), 0);
	assert_int_equal(tally_add(&t, &what), 0);
	assert_int_equal(t.count, 1);
	assert_int_equal(t.rows[0].parts[0].len, TALLY_TEXT_BYTES - 1);
	tally_fini(&t);
}

static void sums_stop_at_the_end_of_numbers(void **state)
{
	(void)state;
	struct tally t = {.limit = 4};
	add(&t, "a", UINT64_MAX, UINT64_MAX);
	add(&t, "a", 1, 1);
	assert_int_equal(t.rows[0].counts[TALLY_ALLOWED], UINT64_MAX);
	tally_close(&t, 1, TALLY_BY_EVENTS);
	tally_fini(&t);
}

static void intervals_widen_and_lose_nothing(void **state)
{
	(void)state;
	static const struct {
		uint64_t times_s[4];
		uint64_t width_s;
	} cases[] = {
		{{1000, 1001, 1002, 1095}, 1},
		{{1000, 1001, 1002, 1096}, 5},
		{{1096, 1002, 1001, 1000}, 5}, /* in any order */
		{{1000000, 1003600, 1007200, 1000000}, 300},
		{{0, 86400, 2 * 86400, 3 * 86400}, 3600},
		{{0, 1, 1795961863, 253402300799}, 36400 * UINT64_C(86400)},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct spread s = {0};
		uint64_t sum = 0;
		for (size_t k = 0; k < 4; k++)
			spread_add(&s, cases[i].times_s[k] * 1000, SPREAD_DENIED, 2);
		for (size_t k = 0; k < s.count; k++)
			sum += spread_sum(&s, k);
		assert_int_equal(sum, 8);
		assert_true(s.count <= SPREAD_INTERVALS_MAX);
		if (i < 5)
			assert_int_equal(spread_width_s(&s), cases[i].width_s);
	}
}

static void no_time_is_too_wild(void **state)
{
	(void)state;
	struct spread s = {0};
	spread_add(&s, UINT64_MAX, SPREAD_ALLOWED, 1);
	assert_int_equal(s.count, 0);
	spread_add(&s, 0, SPREAD_ALLOWED, UINT64_MAX);
	assert_int_equal(s.count, 1);
	assert_true(spread_most(&s) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adds_up_by_key),
		cmocka_unit_test(parts_are_not_run_together),
		cmocka_unit_test(notes_are_the_last_ones),
		cmocka_unit_test(a_full_table_gives_up_the_lighter_half),
		cmocka_unit_test(texts_are_cut_between_characters),
		cmocka_unit_test(sums_stop_at_the_end_of_numbers),
		cmocka_unit_test(intervals_widen_and_lose_nothing),
		cmocka_unit_test(no_time_is_too_wild),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
