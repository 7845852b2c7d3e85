/* Settings as text. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/limits.h"

#include <errno.h>

static void what_is_named_is_set_and_nothing_else(void **state)
{
	(void)state;
	struct limits limits = limits_default();
	assert_int_equal(
		limits_parse(SLICE("head_fields=3,interims=1024,idle_ms=86400000"), &limits), 0);
	assert_int_equal(limits.head_fields, 3);
	assert_int_equal(limits.interims, INTERIMS_MAX);
	assert_int_equal(limits.idle_ms, 86400000);
	assert_int_equal(limits.head_bytes, limits_default().head_bytes);
}

static void one_past_the_largest_is_no_setting(void **state)
{
	(void)state;
	static const struct {
		const char *at, *past;
	} all[] = {
		{"line_bytes=16384", "line_bytes=16385"},
		{"head_bytes=65536", "head_bytes=65537"},
		{"head_fields=256", "head_fields=257"},
		{"method_bytes=32", "method_bytes=33"},
		{"connection_options=32", "connection_options=33"},
		{"chunk_line_bytes=4096", "chunk_line_bytes=4097"},
		{"trailer_bytes=65536", "trailer_bytes=65537"},
		{"trailer_fields=256", "trailer_fields=257"},
		{"interims=1024", "interims=1025"},
		{"idle_ms=86400000", "idle_ms=86400001"},
	};
	for (size_t i = 0; i < array_size(all); i++) {
		struct limits limits = limits_default(), before = limits;
		assert_int_equal(limits_parse(slice_of(all[i].past), &limits), -EINVAL);
		assert_memory_equal(&limits, &before, sizeof(before));
		assert_int_equal(limits_parse(slice_of(all[i].at), &limits), 0);
	}
}

static void defaults_are_within_the_largest(void **state)
{
	(void)state;
	const struct limits usual = limits_default(), *most = limits_or_largest(NULL);
	assert_true(usual.line_bytes <= most->line_bytes);
	assert_true(usual.head_bytes <= most->head_bytes);
	assert_true(usual.head_fields <= most->head_fields);
	assert_true(usual.method_bytes <= most->method_bytes);
	assert_true(usual.connection_options <= most->connection_options);
	assert_true(usual.chunk_line_bytes <= most->chunk_line_bytes);
	assert_true(usual.trailer_bytes <= most->trailer_bytes);
	assert_true(usual.trailer_fields <= most->trailer_fields);
	assert_true(usual.interims <= most->interims);
	assert_ptr_equal(limits_or_largest(&usual), &usual);
}

static void what_is_no_setting_changes_nothing(void **state)
{
	(void)state;
	static const char *const wrong[] = {"head_fields", "head_fields=", "head_fields=0",
		"head_fields=-1", "no_such=1", "head_fields=1,no_such=1", "=1"};
	for (size_t i = 0; i < array_size(wrong); i++) {
		struct limits limits = limits_default(), before = limits;
		assert_int_equal(limits_parse(slice_of(wrong[i]), &limits), -EINVAL);
		assert_memory_equal(&limits, &before, sizeof(before));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_named_is_set_and_nothing_else),
		cmocka_unit_test(one_past_the_largest_is_no_setting),
		cmocka_unit_test(defaults_are_within_the_largest),
		cmocka_unit_test(what_is_no_setting_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
