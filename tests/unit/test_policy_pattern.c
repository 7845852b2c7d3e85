/* Patterns: four spellings of a host, two wildcards in a path. */
#include "tests/unit/policy_setup.h"

#include "policy/pattern.h"

struct host_pattern_case {
	const char *pattern;
	enum pattern_kind kind;
	const char *name; /* NULL: refused */
	size_t offset;    /* of what is wrong */
};

static const struct host_pattern_case host_patterns[] = {
	{"allowed.test", PATTERN_EXACT, "allowed.test", 0},
	{"ALLOWED.Test", PATTERN_EXACT, "allowed.test", 0},
	{"localhost", PATTERN_EXACT, "localhost", 0},
	{"*.wild.test", PATTERN_LABEL, "wild.test", 0},
	{"**.wild.test", PATTERN_BELOW, "wild.test", 0},
	{".wild.test", PATTERN_TREE, "wild.test", 0},
	/* A06: wildcards in other places, or over too much */
	{"*", PATTERN_EXACT, NULL, 0},
	{"**", PATTERN_EXACT, NULL, 0},
	{"*.test", PATTERN_EXACT, NULL, 0},
	{"**.test", PATTERN_EXACT, NULL, 0},
	{".test", PATTERN_EXACT, NULL, 0},
	{"www*.test", PATTERN_EXACT, NULL, 3},
	{"sub*.wild.test", PATTERN_EXACT, NULL, 3},
	{"a.*.test", PATTERN_EXACT, NULL, 2},
	{"*.*.wild.test", PATTERN_EXACT, NULL, 2},
	{"***.wild.test", PATTERN_EXACT, NULL, 0},
	{"wild.test.*", PATTERN_EXACT, NULL, 10},
	{"*wild.test", PATTERN_EXACT, NULL, 0},
	{"..wild.test", PATTERN_EXACT, NULL, 1},
	{"*..wild.test", PATTERN_EXACT, NULL, 2},
	{"", PATTERN_EXACT, NULL, 0},
	{".", PATTERN_EXACT, NULL, 1},
	{"*.", PATTERN_EXACT, NULL, 2},
	{"203.0.113.10", PATTERN_EXACT, NULL, 0},
	{"[::1]", PATTERN_EXACT, NULL, 0},
	{"*.0.113.10", PATTERN_EXACT, NULL, 2},
	{"127.1", PATTERN_EXACT, NULL, 0},
	{"caf\xc3\xa9.test", PATTERN_EXACT, NULL, 3},
	{"a.test/x", PATTERN_EXACT, NULL, 0},
	{"a;b.test", PATTERN_EXACT, NULL, 0},
	{"a'b.test", PATTERN_EXACT, NULL, 0},
};

static void a_host_pattern_has_one_of_four_spellings(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(host_patterns); i++) {
		const struct host_pattern_case *c = &host_patterns[i];
		enum pattern_kind kind;
		struct host host;
		size_t offset;
		const char *wrong = pattern_parse_host(slice_of(c->pattern), &kind, &host, &offset);
		if ((wrong == NULL) != (c->name != NULL))
			fail_msg("'%s': %s", c->pattern, wrong == NULL ? "accepted" : wrong);
		if (wrong != NULL) {
			if (offset != c->offset)
				fail_msg("'%s': offset %zu", c->pattern, offset);
			continue;
		}
		assert_int_equal(kind, c->kind);
		assert_string_equal(host.name, c->name);
	}
}

struct path_case {
	const char *pattern;
	const char *path;
	bool matches;
};

static const struct path_case path_cases[] = {
	{"/", "/", true},
	{"/", "/a", false},
	{"/a", "/a", true},
	{"/a", "/a/", false},
	{"/a", "/A", false},
	{"/a", "/ab", false},
	{"/**", "/", true},
	{"/**", "/a/b/c", true},
	{"/a/**", "/a/", true},
	{"/a/**", "/a/b/c/", true},
	{"/a/**", "/a", false},
	{"/a/**", "/ab/c", false},
	{"/*", "/a", true},
	{"/*", "/", false},
	{"/*", "/a/b", false},
	{"/*/json", "/a/json", true},
	{"/*/json", "//json", false},
	{"/*/json", "/a/b/json", false},
	{"/pypi/*/json", "/pypi/x/json", true},
	{"/pypi/*/json", "/pypi/x/json/y", false},
	{"/a*", "/a", true},
	{"/a*", "/abc", true},
	{"/a*c", "/abcbc", true},
	{"/a*c", "/abcb", false},
	{"/*a*b*", "/xxaxxbxx", true},
	{"/*a*b*", "/xxbxxaxx", false},
	{"/v*-x/*", "/v1-x/y", true},
	{"/*/*/releases/**", "/o/r/releases/v1/a.tgz", true},
	{"/*/*/releases/**", "/o/releases/v1", false},
	{"/*", "/@scope%2Fname", true},
	{"/@scope%2Fname", "/@scope%2Fname", true},
	{"/@scope/name", "/@scope%2Fname", false},
};

static void a_path_pattern_matches_whole_segments(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(path_cases); i++) {
		const struct path_case *c = &path_cases[i];
		size_t offset;
		assert_null(pattern_check_path(slice_of(c->pattern), &offset));
		if (pattern_match_path(slice_of(c->pattern), slice_of(c->path)) != c->matches)
			fail_msg("%s on %s", c->pattern, c->path);
	}
}

static void a_path_pattern_is_written_in_its_one_form(void **state)
{
	(void)state;
	static const struct {
		const char *path;
		size_t offset;
	} wrong[] = {{"/a/**/b", 3}, {"/a**", 2}, {"/**x", 1}, {"/***", 1}, {"/a?b", 2},
		{"/a/../b", 0}, {"/a/./b", 0}, {"/%61", 0}, {"/a%2fb", 0}, {"/a%", 0}, {"/a#b", 0},
		{"/a\\b", 0}, {"/caf\xc3\xa9", 0}};
	for (size_t i = 0; i < array_size(wrong); i++) {
		size_t offset = 99;
		if (pattern_check_path(slice_of(wrong[i].path), &offset) == NULL)
			fail_msg("%s was accepted", wrong[i].path);
		if (offset != wrong[i].offset)
			fail_msg("%s: offset %zu", wrong[i].path, offset);
	}
	static char longest[PATTERN_PATH_BYTES_MAX + 1];
	size_t offset;
	memset(longest, 'a', sizeof(longest));
	longest[0] = '/';
	assert_null(pattern_check_path((struct slice){longest, sizeof(longest) - 1}, &offset));
	assert_non_null(pattern_check_path((struct slice){longest, sizeof(longest)}, &offset));
}

static void many_wildcards_do_not_blow_up(void **state)
{
	(void)state;
	/* Backtracking over every '*' would need more steps than there are atoms. */
	static char pattern[PATTERN_PATH_BYTES_MAX];
	static char path[TARGET_PATH_BYTES];
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	for (size_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = i % 2 == 0 ? 'a' : '*';
	pattern[0] = '/';
	pattern[sizeof(pattern) - 1] = 'b';
	assert_false(pattern_match_path(
		(struct slice){pattern, sizeof(pattern)}, (struct slice){path, sizeof(path)}));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_pattern_has_one_of_four_spellings),
		cmocka_unit_test(a_path_pattern_matches_whole_segments),
		cmocka_unit_test(a_path_pattern_is_written_in_its_one_form),
		cmocka_unit_test(many_wildcards_do_not_blow_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
