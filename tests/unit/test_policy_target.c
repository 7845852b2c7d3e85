/* Request targets: one form of a path, and what is refused because servers read it in two ways. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "policy/target.h"

struct target_case {
	const char *text;
	int code;
	const char *path;
	const char *query; /* NULL: none */
	bool encoded_slash;
};

static const struct target_case cases[] = {
	{"/", 0, "/", NULL, false},
	{"/a/b", 0, "/a/b", NULL, false},
	{"/a/b/", 0, "/a/b/", NULL, false},
	{"/a?x=1&y=%zz", 0, "/a", "x=1&y=%zz", false},
	{"/a?", 0, "/a", "", false},
	{"/a?b?c/../d", 0, "/a", "b?c/../d", false},
	/* unreserved characters decoded, other escapes in upper case */
	{"/%41%7e%2D%5f%30", 0, "/A~-_0", NULL, false},
	{"/a%2eb", 0, "/a.b", NULL, false},
	{"/%c3%a9%3a%20", 0, "/%C3%A9%3A%20", NULL, false},
	{"/%3f%23%25", 0, "/%3F%23%25", NULL, false},
	/* dot segments (RFC 3986 5.2.4), nothing collapsed */
	{"/a/./b", 0, "/a/b", NULL, false},
	{"/a/../b", 0, "/b", NULL, false},
	{"/a/b/..", 0, "/a/", NULL, false},
	{"/a/b/.", 0, "/a/b/", NULL, false},
	{"/..", 0, "/", NULL, false},
	{"/../../x", 0, "/x", NULL, false},
	{"/a//b", 0, "/a//b", NULL, false},
	{"//a", 0, "//a", NULL, false},
	{"/a//../b", 0, "/a/b", NULL, false},
	{"/...", 0, "/...", NULL, false},
	{"/.a/..b", 0, "/.a/..b", NULL, false},
	{"/packages/../other", 0, "/other", NULL, false},
	{"/a;b=c", 0, "/a;b=c", NULL, false},
	/* an encoded slash stays what it is */
	{"/@scope%2fname", 0, "/@scope%2Fname", NULL, true},
	{"/a%2F", 0, "/a%2F", NULL, true},
	{"/a%2Fb/../c", 0, "/c", NULL, false},
	{"/a%2F.b", 0, "/a%2F.b", NULL, true},
	{"/a?x=%2f", 0, "/a", "x=%2f", false},
	/* smuggling: encoded dot segments in every spelling */
	{"/%2e", -EILSEQ, NULL, NULL, false},
	{"/a/%2e%2e/b", -EILSEQ, NULL, NULL, false},
	{"/a/.%2E/b", -EILSEQ, NULL, NULL, false},
	{"/packages/..%2fother/x", -EILSEQ, NULL, NULL, false},
	{"/x%2f..%2fy", -EILSEQ, NULL, NULL, false},
	{"/x%2f%2e%2e", -EILSEQ, NULL, NULL, false},
	{"/x%2f.", -EILSEQ, NULL, NULL, false},
	{"/.%2fx", -EILSEQ, NULL, NULL, false},
	{"/a/..;/b", -EILSEQ, NULL, NULL, false},
	{"/a/..;x=1/b", -EILSEQ, NULL, NULL, false},
	/* smuggling: backslash, NUL, control bytes */
	{"/a\\..\\b", -EILSEQ, NULL, NULL, false},
	{"/a%5cb", -EILSEQ, NULL, NULL, false},
	{"/a%5Cb", -EILSEQ, NULL, NULL, false},
	{"/a%00", -EILSEQ, NULL, NULL, false},
	{"/a%0d%0aX:", -EILSEQ, NULL, NULL, false},
	{"/a%1f", -EILSEQ, NULL, NULL, false},
	{"/a%7f", -EILSEQ, NULL, NULL, false},
	/* smuggling: doubly encoded, overlong */
	{"/%252e%252e/", -EILSEQ, NULL, NULL, false},
	{"/a%252Fb", -EILSEQ, NULL, NULL, false},
	{"/a%255cb", -EILSEQ, NULL, NULL, false},
	{"/a%25252fb", -EILSEQ, NULL, NULL, false},
	{"/a%25%32%65", -EILSEQ, NULL, NULL, false},
	{"/a%252a", 0, "/a%252a", NULL, false},
	{"/%c0%ae%c0%ae/", -EILSEQ, NULL, NULL, false},
	{"/a%c0%afb", -EILSEQ, NULL, NULL, false},
	{"/a%e0%80%af", -EILSEQ, NULL, NULL, false},
	{"/%C1gua", 0, "/%C1gua", NULL, false},
	/* no target at all */
	{"", -EINVAL, NULL, NULL, false},
	{"a", -EINVAL, NULL, NULL, false},
	{"*", -EINVAL, NULL, NULL, false},
	{"?x", -EINVAL, NULL, NULL, false},
	{"http://allowed.test/", -EINVAL, NULL, NULL, false},
	{"/a#b", -EINVAL, NULL, NULL, false},
	{"/a?x#b", -EINVAL, NULL, NULL, false},
	{"/a b", -EINVAL, NULL, NULL, false},
	{"/a?x y", -EINVAL, NULL, NULL, false},
	{"/a\t", -EINVAL, NULL, NULL, false},
	{"/a\x7f", -EINVAL, NULL, NULL, false},
	{"/\xc3\xa9", -EINVAL, NULL, NULL, false},
	{"/a?\xc3\xa9", -EINVAL, NULL, NULL, false},
	{"/%", -EINVAL, NULL, NULL, false},
	{"/%2", -EINVAL, NULL, NULL, false},
	{"/%zz", -EINVAL, NULL, NULL, false},
	{"/%2/f", -EINVAL, NULL, NULL, false},
	{"/%+1", -EINVAL, NULL, NULL, false},
};

static struct target target;

static void a_target_has_one_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		const struct target_case *c = &cases[i];
		int r = target_normalise(slice_of(c->text), &target);
		if (r != c->code)
			fail_msg("'%s' gives %d", c->text, r);
		if (r < 0)
			continue;
		if (!slice_equal(target.path, slice_of(c->path)))
			fail_msg("'%s' gives '%.*s'", c->text, (int)target.path.len,
				target.path.ptr);
		assert_int_equal(target.has_query, c->query != NULL);
		assert_int_equal(target.encoded_slash, c->encoded_slash);
		if (c->query != NULL)
			assert_true(slice_equal(target.query, slice_of(c->query)));
	}
}

static void a_target_has_a_longest_length(void **state)
{
	(void)state;
	static char text[TARGET_PATH_BYTES + 1];
	memset(text, 'a', sizeof(text));
	text[0] = '/';
	assert_int_equal(target_normalise((struct slice){text, TARGET_PATH_BYTES}, &target), 0);
	assert_int_equal(target.path.len, TARGET_PATH_BYTES);
	assert_int_equal(target_normalise((struct slice){text, TARGET_PATH_BYTES + 1}, &target),
		-ENAMETOOLONG);
}

static void a_nul_byte_does_not_end_a_target(void **state)
{
	(void)state;
	assert_int_equal(target_normalise((struct slice){"/a\0b", 4}, &target), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_target_has_one_form),
		cmocka_unit_test(a_target_has_a_longest_length),
		cmocka_unit_test(a_nul_byte_does_not_end_a_target),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
