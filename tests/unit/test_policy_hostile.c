/* Policy text that means harm: refused with its place, in bounded memory and time. Links, loops and owners: test_policy_source.c. */
#include "tests/unit/policy_setup.h"

#include "policy/lexer.h"
#include "policy/syntax.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)10 << 20)
#define PEAK_MIB   200

static long peak_mib(void)
{
	struct rusage usage;
	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return usage.ru_maxrss / 1024;
}

/** Compile a text that grows in the compiler; what it may take is checked where memory is not a sanitizer's. */
static void bounded(const struct buf *text, int wanted, const char *says)
{
	long before = peak_mib();
	struct policy *p = NULL;
	assert_false(text->failed);
	int r = policy_setup_compile(buf_slice(text), &p);
	if (r != wanted)
		fail_msg("%d: %s", r, policy_setup_report.items[0].text);
	if (says != NULL && strstr(policy_setup_report.items[0].text, says) == NULL)
		fail_msg("%s", policy_setup_report.items[0].text);
	assert_true(r == 0 || policy_setup_report.items[0].line > 0);
	policy_free(p);
#if !defined(__SANITIZE_ADDRESS__)
	if (peak_mib() - before > PEAK_MIB)
		fail_msg("%ld MiB more", peak_mib() - before);
#else
	(void)before;
#endif
}

static void a_line_of_ten_mebibytes_is_refused(void **state)
{
	(void)state;
	char path[] = "/tmp/eclusa-test-XXXXXX";
	struct failure why = {0};
	struct buf bundle = {.limit = POLICY_BUNDLE_BYTES_MAX};
	char *text = malloc(HUGE_BYTES);
	auto_fd fd = mkstemp(path);
	assert_non_null(text);
	assert_true(fd >= 0);
	memset(text, 'x', HUGE_BYTES);
	memcpy(text, "policy 1\n", 9);
	assert_int_equal(write(fd, text, HUGE_BYTES), HUGE_BYTES);
	assert_int_equal(policy_source_read(path, &bundle, &why), -EFBIG);
	assert_non_null(strstr(why.text, "larger than 1 MiB"));
	assert_non_null(strstr(why.text, path));
	(void)unlink(path);
	buf_fini(&bundle);
	/* The compiler does not trust what read the file. */
	struct policy *p = NULL;
	assert_int_equal(policy_setup_compile((struct slice){text, HUGE_BYTES}, &p), -EINVAL);
	assert_string_equal(policy_setup_report.items[0].file, "x.allow");
	assert_non_null(strstr(policy_setup_report.items[0].text, "larger than 1 MiB"));
	free(text);
}

/** As many findings as there are lines: a hundred are kept, the others counted. */
static void a_text_of_errors_is_counted_not_kept(void **state)
{
	(void)state;
	struct buf text = {.limit = POLICY_FILE_BYTES_MAX};
	(void)buf_append_text(&text, "policy 1\n[profile p]\n");
	while (buf_len(&text) < POLICY_FILE_BYTES_MAX - 8)
		(void)buf_append_text(&text, "allow *\n");
	bounded(&text, -EINVAL, "bare wildcard");
	assert_int_equal(policy_setup_report.count, POLICY_DIAGNOSTICS_MAX);
	assert_true(policy_setup_report.errors > 20000);
	buf_fini(&text);
}

/** Each group uses the next one many times: it would be more rules than there are atoms. */
static void groups_that_multiply_are_refused(void **state)
{
	(void)state;
	struct buf text = {.limit = POLICY_FILE_BYTES_MAX};
	(void)buf_append_text(&text, "policy 1\n[profile p]\nuse g0\n");
	for (int g = 0; g < 7; g++) {
		(void)buf_printf(&text, "[group g%d]\n", g);
		for (int i = 0; i < 100; i++)
			(void)buf_printf(&text, "use g%d up=1k\n", g + 1);
	}
	(void)buf_append_text(&text, "[group g7]\nallow a.test\nallow b.test\n");
	bounded(&text, -EINVAL, "more than 20000 effective rules");
	buf_fini(&text);
}

static void many_profiles(struct buf *text, int profiles, int rules, const char *set)
{
	(void)buf_append_text(text, "policy 1\n[group g]\n");
	for (int i = 0; i < rules; i++)
		(void)buf_printf(text, "allow h%d.example.com\n", i);
	for (int i = 0; i < profiles; i++)
		(void)buf_printf(text, "[profile p%d]\n%suse g\n", i, set);
}

/** Copies of rules for each profile, up to the last that may be. */
static void profiles_that_multiply_rules_are_bounded(void **state)
{
	(void)state;
	struct buf text = {.limit = POLICY_FILE_BYTES_MAX};
	many_profiles(&text, 9, 19990, "set mode observe\n");
	bounded(&text, 0, NULL);
	buf_fini(&text);
	many_profiles(&text, 30, 19990, "set mode observe\n");
	bounded(&text, -EINVAL, "200000 effective rules");
	buf_fini(&text);
}

/** Raw bytes beside HTTP, every rule of one name with ports of its own: each pair is looked at, and no more than that. */
static void conflicts_are_sought_in_bounded_time(void **state)
{
	(void)state;
	struct buf text = {.limit = POLICY_FILE_BYTES_MAX};
	(void)buf_append_text(&text, "policy 1\n[profile p]\n");
	for (int i = 1; i <= 5000; i++)
		(void)buf_printf(&text, "allow tcp a.test:%d\nallow a.test:%d\n", i, i + 20000);
	bounded(&text, 0, NULL);
	buf_fini(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_of_ten_mebibytes_is_refused),
		cmocka_unit_test(a_text_of_errors_is_counted_not_kept),
		cmocka_unit_test(groups_that_multiply_are_refused),
		cmocka_unit_test(profiles_that_multiply_rules_are_bounded),
		cmocka_unit_test(conflicts_are_sought_in_bounded_time),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
