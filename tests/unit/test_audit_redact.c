#include "tests/unit/cmocka_setup.h"

#include "audit/redact.h"
#include "common/cleanup.h"

typedef unsigned redact_call(struct slice text, struct buf *to);

static void expect(redact_call *call, const char *text, unsigned count, const char *wanted)
{
	struct buf out = {0};
	assert_int_equal(call(slice_of(text), &out), count);
	assert_int_equal(buf_append(&out, (struct slice){"", 1}), 0);
	assert_string_equal(out.data, wanted);
	buf_fini(&out);
}

static void secrets_are_recognised_and_names_are_not(void **state)
{
	(void)state;
	static const struct {
		const char *word;
		bool secret;
	} words[] = {
		{"ghp_0123456789abcdefghijABCDEFGHIJ012345", true},
		{"AKIAIOSFODNN7EXAMPLE", true},
		{"xoxb-123456789012-abcdefghijkl", true},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlMTIz", true},
		{"sk-proj-a1b2c3d4e5f6a7b8c9d0", true},
		{"9f86d081884c7d659a2feaa0c55ad015", true},
		{"AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw3", true},
		{"dGhpcyBpcyBhIHNlY3JldC1rZXkgb2YgMTI4_bits0", true},
		{"numpy-1.26.4-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", false},
		{"123e4567-e89b-12d3-a456-426614174000", false},
		{"sk-learn-examples-2", false},
		{"a-rather-long-but-readable-article-slug-from-2026", false},
		{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
		{"12345678901234567890123456789012345678901234567890", false},
		{"index.html", false},
		{"", false},
	};
	for (size_t i = 0; i < array_size(words); i++) {
		if (redact_is_secret(slice_of(words[i].word)) != words[i].secret)
			fail_msg("%s", words[i].word);
	}
}

static void paths_lose_query_fragment_and_secrets(void **state)
{
	(void)state;
	expect(redact_path, "/v1/items", 0, "/v1/items");
	expect(redact_path, "/v1?token=abc", 1, "/v1");
	expect(redact_path, "/v1#part", 1, "/v1");
	expect(redact_path, "/hook/9f86d081884c7d659a2feaa0c55ad015/x", 1, "/hook/[redacted:32]/x");
	expect(redact_path, "/a;key=ghp_0123456789abcdefghijABCDEFGHIJ012345/b", 1,
		"/a;key=[redacted:40]/b");
	expect(redact_path, "/bot123456:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw3/send", 1,
		"/bot123456:[redacted:35]/send");
	expect(redact_path, "http://user:pw@h.test/x?y=1", 2, "http://h.test/x");
}

static void text_loses_user_information_and_query_values(void **state)
{
	(void)state;
	expect(redact_text, "see https://u:p@h.test/a?b=c for more", 2,
		"see https://h.test/a?[redacted:3] for more");
	expect(redact_text, "https://h.test https://a:b@i.test", 1,
		"https://h.test https://i.test");
	expect(redact_text, "plain words, 100% of them", 0, "plain words, 100% of them");
	expect(redact_text, "://", 0, "://");
	expect(redact_text, "x://@", 1, "x://");
	expect(redact_host, "user:secret@h.test", 1, "h.test");
	expect(redact_host, "h.test", 0, "h.test");
}

static void bytes_of_any_kind_pass_through(void **state)
{
	(void)state;
	struct buf out = {0};
	struct slice odd = SLICE("a\0b\xff://\0@\n?");
	(void)redact_text(odd, &out);
	(void)redact_path(odd, &out);
	(void)redact_host(odd, &out);
	assert_false(out.failed);
	buf_fini(&out);
}

static void a_malformed_target_shows_neither_password_nor_query(void **state)
{
	(void)state;
	static const struct {
		const char *target, *shown;
	} cases[] = {
		{"http://allowed.test/x", "http://allowed.test/x"},
		{"http://allowed.test?token=S", "http://allowed.test"},
		{"http://u:S@allowed.test/x?a=S", "allowed.test/x"},
		{"u:S@allowed.test:443", "allowed.test:443"},
		{"http://u:pa/S@allowed.test/", "allowed.test/"},
		{"http://u:S%40allowed.test/", "allowed.test/"},
		{"http://u:S?S@allowed.test/", ""},
		{"/x?mail=S@S", ""},
		{"/x#S", "/x"},
		{"", ""},
		{"@", ""},
		{"%4", "%4"},
	};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct slice shown = redact_raw_target(slice_of(cases[i].target));
		if (!slice_equal(shown, slice_of(cases[i].shown)))
			fail_msg("%s became %.*s", cases[i].target, (int)shown.len, shown.ptr);
	}
}

static void command_lines_lose_values_with_secret_names(void **state)
{
	(void)state;
	static const struct {
		const char *argv[6];
		const char *wanted;
	} lines[] = {
		{{"curl", "-s", "https://u:p@h.test/?q=1"}, "curl -s https://h.test/?[redacted:3]"},
		{{"x", "--token=abc"}, "x --token=[redacted:3]"},
		{{"x", "--api-key", "abcd", "y"}, "x --api-key [redacted:4] y"},
		{{"env", "DB_PASSWORD=hunter2", "x"}, "env DB_PASSWORD=[redacted:7] x"},
		{{"curl", "-H", "Authorization: Bearer abc"},
			"curl -H Authorization:[redacted:11]"},
		{{"x", "tokens.txt", "next"}, "x tokens.txt next"},
		{{"x", "ghp_0123456789abcdefghijABCDEFGHIJ012345"}, "x [redacted:40]"},
		{{NULL}, ""},
	};
	for (size_t i = 0; i < array_size(lines); i++) {
		struct buf out = {0};
		(void)redact_arguments(lines[i].argv, &out);
		assert_int_equal(buf_append(&out, (struct slice){"", 1}), 0);
		assert_string_equal(out.data, lines[i].wanted);
		buf_fini(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(secrets_are_recognised_and_names_are_not),
		cmocka_unit_test(paths_lose_query_fragment_and_secrets),
		cmocka_unit_test(text_loses_user_information_and_query_values),
		cmocka_unit_test(bytes_of_any_kind_pass_through),
		cmocka_unit_test(a_malformed_target_shows_neither_password_nor_query),
		cmocka_unit_test(command_lines_lose_values_with_secret_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
