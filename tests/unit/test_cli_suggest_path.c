#include "tests/unit/cmocka_setup.h"

#include "cli/suggest_path.h"

#include "common/cleanup.h"
#include "policy/pattern.h"

#include <stdio.h>

#define PATHS_MAX 8

/** Paths, and the pattern of each. */
struct fold_case {
	const char *name;
	const char *pairs[PATHS_MAX][2];
};

static const struct fold_case cases[] = {
	{"words stay",
		{{"/simple/a/", "/simple/a/"}, {"/simple/b/", "/simple/b/"},
			{"/simple/c/", "/simple/c/"}, {"/", "/"}}},
	{"two numbers are no family", {{"/u/1", "/u/1"}, {"/u/2", "/u/2"}}},
	{"three are", {{"/u/1", "/u/*"}, {"/u/2", "/u/*"}, {"/u/33", "/u/*"}}},
	{"the same one three times is one",
		{{"/u/1/a", "/u/1/a"}, {"/u/1/b", "/u/1/b"}, {"/u/1/c", "/u/1/c"}}},
	{"a word beside numbers stays",
		{{"/u/1", "/u/*"}, {"/u/2", "/u/*"}, {"/u/3", "/u/*"}, {"/u/me", "/u/me"}}},
	{"what follows is asked together",
		{{"/u/1/x/7", "/u/*/x/*"}, {"/u/2/x/8", "/u/*/x/*"}, {"/u/3/x/9", "/u/*/x/*"},
			{"/u/3/y", "/u/*/y"}}},
	{"hashes of one length",
		{{"/p/3a/aa", "/p/*/aa"}, {"/p/b4/bb", "/p/*/bb"}, {"/p/5c/cc", "/p/*/cc"},
			{"/p/ad/dd", "/p/*/dd"}, {"/p/9/ee", "/p/9/ee"}}},
	{"words of hex digits are words",
		{{"/w/add", "/w/add"}, {"/w/bed", "/w/bed"}, {"/w/dad", "/w/dad"}}},
	{"UUIDs",
		{{"/o/01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c11", "/o/*"},
			{"/o/01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c12", "/o/*"},
			{"/o/01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c13/", "/o/*/"}}},
	{"versions",
		{{"/v/v1.0.0/a", "/v/*/a"}, {"/v/v1.0.1/a", "/v/*/a"}, {"/v/2.0rc1/a", "/v/*/a"},
			{"/v/v1/a", "/v/v1/a"}}},
	{"releases of one name",
		{{"/f/lib-1.0.tgz", "/f/lib-*"}, {"/f/lib-1.1.tgz", "/f/lib-*"},
			{"/f/lib-2.0.tgz", "/f/lib-*"}, {"/f/other-1.0.tgz", "/f/other-1.0.tgz"}}},
	{"identifiers",
		{{"/i/a1b2c3d4e5", "/i/*"}, {"/i/9z8y7x6w5v", "/i/*"}, {"/i/q1-22-333_44", "/i/*"},
			{"/i/python-requests", "/i/python-requests"}}},
	{"a redacted segment is any", {{"/t/[redacted:40]/x", "/t/*/x"}}},
	{"and so are those that look like it",
		{{"/t/[redacted:40]/x", "/t/*/x"}, {"/t/77/x", "/t/*/x"}, {"/t/me/x", "/t/me/x"}}},
	{"part of one, too", {{"/t/k=[redacted:40]", "/t/*"}}},
	{"an encoded slash stays", {{"/@a%2Fb", "/@a%2Fb"}}},
	{"stars and quotes of a peer are any",
		{{"/a/**/b", "/a/*/b"}, {"/a/x*y", "/a/*"}, {"/a/\"q\"", "/a/*"},
			{"/a/b|c", "/a/*"}}},
	{"empty segments stay", {{"//x//", "//x//"}}},
};

static void paths_become_patterns(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		const struct fold_case *c = &cases[i];
		struct arena arena = {0};
		struct suggest_path paths[PATHS_MAX];
		const char *patterns[PATHS_MAX] = {NULL};
		size_t count = 0;
		for (; count < PATHS_MAX && c->pairs[count][0] != NULL; count++)
			paths[count] = (struct suggest_path){
				slice_of(c->pairs[count][0]), &patterns[count]};
		assert_int_equal(suggest_paths(paths, count, &arena), 0);
		for (size_t k = 0; k < count; k++) {
			if (patterns[k] == NULL || strcmp(patterns[k], c->pairs[k][1]) != 0)
				fail_msg("%s: %s becomes %s, not %s", c->name, c->pairs[k][0],
					patterns[k] == NULL ? "nothing" : patterns[k],
					c->pairs[k][1]);
		}
		arena_fini(&arena);
	}
}

/** Whatever is folded matches what it came from. */
static void a_pattern_matches_its_path(void **state)
{
	(void)state;
	static const char *const pieces[] = {"a", "1", "22", "v1.2", "ab12", "", "lib-1.0",
		"x9y8z7w6", "%2F", "~", "=", "01938f1e-7a53-7cc1-9b1e-2f4f6a1f0c11"};
	struct arena arena = {0};
	struct suggest_path paths[400];
	char texts[array_size(paths)][256];
	const char *patterns[array_size(paths)] = {NULL};
	unsigned random = 12345;
	for (size_t i = 0; i < array_size(paths); i++) {
		size_t len = 0;
		for (unsigned k = 0; k < 1 + random % 4; k++) {
			random = random * 1103515245 + 12345;
			len += (size_t)snprintf(texts[i] + len, sizeof(texts[i]) - len, "/%s",
				pieces[random / 65536 % array_size(pieces)]);
		}
		paths[i] = (struct suggest_path){slice_of(texts[i]), &patterns[i]};
	}
	assert_int_equal(suggest_paths(paths, array_size(paths), &arena), 0);
	for (size_t i = 0; i < array_size(paths); i++) {
		if (!pattern_match_path(slice_of(patterns[i]), slice_of(texts[i])))
			fail_msg("%s does not match %s", patterns[i], texts[i]);
	}
	arena_fini(&arena);
}

static void deep_and_long_paths_have_their_limits(void **state)
{
	(void)state;
	static char deep[2 * 400 + 1], longest[1100];
	struct arena arena = {0};
	const char *patterns[2] = {NULL, NULL};
	for (size_t i = 0; i < 400; i++) {
		deep[2 * i] = '/';
		deep[2 * i + 1] = 'd';
	}
	memset(longest, 'x', sizeof(longest) - 1);
	longest[0] = '/';
	struct suggest_path paths[] = {
		{slice_of(deep), &patterns[0]}, {slice_of(longest), &patterns[1]}};
	assert_int_equal(suggest_paths(paths, 2, &arena), 0);
	assert_string_equal(patterns[0], deep);
	assert_null(patterns[1]); /* no rule has such a path */
	assert_int_equal(suggest_paths(NULL, 0, &arena), 0);
	arena_fini(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_become_patterns),
		cmocka_unit_test(a_pattern_matches_its_path),
		cmocka_unit_test(deep_and_long_paths_have_their_limits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
