/* Prometheus' text format. */
#include "common/exposition.h"
#include "tests/unit/cmocka_setup.h"

static void check(struct buf *made, const char *wanted)
{
	assert_false(made->failed);
	assert_int_equal(buf_append(made, (struct slice){"", 1}), 0);
	assert_string_equal(buf_slice(made).ptr, wanted);
	buf_fini(made);
}

static void families_and_samples(void **state)
{
	(void)state;
	struct buf made = {0};
	const struct exposition_label labels[EXPOSITION_LABELS_MAX] = {
		{"a", "1\"2\\3\n4"}, {"b", ""}};
	exposition_family(&made, "x_total", EXPOSITION_COUNTER, "Help.");
	exposition_sample(&made, "x_total", NULL, 0);
	exposition_sample(&made, "x_total", labels, UINT64_MAX);
	exposition_thousandths(&made, "x_total", NULL, 1002);
	check(&made,
		"# HELP x_total Help.\n# TYPE x_total counter\nx_total 0\n"
		"x_total{a=\"1\\\"2\\\\3\\n4\",b=\"\"} 18446744073709551615\nx_total 1.002\n");
}

static void a_histogram_adds_up(void **state)
{
	(void)state;
	static const uint64_t bounds[] = {500, 1000000}, counts[] = {2, 0, 3};
	const struct exposition_histogram h = {
		.bounds_us = bounds, .counts = counts, .bounds = 2, .sum_us = 1500001};
	struct buf made = {0};
	exposition_seconds(&made, "t", &h);
	check(&made,
		"t_bucket{le=\"0.000500\"} 2\nt_bucket{le=\"1.000000\"} 2\n"
		"t_bucket{le=\"+Inf\"} 5\nt_sum 1.500001\nt_count 5\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(families_and_samples),
		cmocka_unit_test(a_histogram_adds_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
