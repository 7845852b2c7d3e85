/*
 * Each format against what was once read by eye: tests/cases/formats/lines.jsonl has an event of every kind, and one whose texts try to be
 * more than values; the file named as the format has its lines.
 */
#include "tests/unit/cmocka_setup.h"

#include "audit/event.h"
#include "audit/format.h"
#include "audit/visible.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>

#define FOLDER     "tests/cases/formats/"
#define FILE_BYTES ((size_t)1 << 20)

static struct buf lines;

static int load_lines(void **state)
{
	(void)state;
	return file_read(AT_FDCWD, FOLDER "lines.jsonl", FILE_BYTES, &lines);
}

static int free_lines(void **state)
{
	(void)state;
	buf_fini(&lines);
	return 0;
}

static void write_all(enum audit_format format, struct buf *to)
{
	struct slice line, rest = buf_slice(&lines);
	audit_format_head(format, to);
	if (buf_len(to) > 0)
		(void)buf_append(to, SLICE("\n"));
	while (slice_split(rest, '\n', &line, &rest)) {
		assert_int_equal(audit_format_write(format, line, to), 0);
		(void)buf_append(to, SLICE("\n"));
	}
	assert_false(to->failed);
}

static void check_golden(enum audit_format format)
{
	struct buf got = {0}, want = {0};
	char path[128];
	(void)snprintf(path, sizeof(path), FOLDER "%s", audit_format_name(format));
	write_all(format, &got);
	assert_int_equal(file_read(AT_FDCWD, path, FILE_BYTES, &want), 0);
	struct slice mine, its, my_rest = buf_slice(&got), its_rest = buf_slice(&want);
	while (slice_split(my_rest, '\n', &mine, &my_rest)) {
		assert_true(slice_split(its_rest, '\n', &its, &its_rest));
		if (!slice_equal(mine, its))
			fail_msg("%s:\n got %.*s\nwant %.*s", path, (int)mine.len, mine.ptr,
				(int)its.len, its.ptr);
	}
	assert_int_equal(its_rest.len, 0);
	buf_fini(&got);
	buf_fini(&want);
}

static void lines_are_as_they_were_read(void **state)
{
	(void)state;
	check_golden(AUDIT_FORMAT_ECS);
	check_golden(AUDIT_FORMAT_CEF);
	check_golden(AUDIT_FORMAT_LEEF);
	check_golden(AUDIT_FORMAT_CSV);
}

static void ocsf_is_the_log_itself(void **state)
{
	(void)state;
	struct buf got = {0};
	write_all(AUDIT_FORMAT_OCSF, &got);
	assert_true(slice_equal(buf_slice(&got), buf_slice(&lines)));
	buf_fini(&got);
}

static void bare_ocsf_lacks_only_the_chain(void **state)
{
	(void)state;
	struct slice line, rest = buf_slice(&lines);
	while (slice_split(rest, '\n', &line, &rest)) {
		struct buf got = {0};
		json_error_t error;
		assert_int_equal(audit_format_write(AUDIT_FORMAT_OCSF_BARE, line, &got), 0);
		json_t *whole = json_loadb(line.ptr, line.len, JSON_ALLOW_NUL, &error);
		json_t *bare =
			json_loadb(buf_slice(&got).ptr, buf_len(&got), JSON_ALLOW_NUL, &error);
		json_t *ours = json_object_get(json_object_get(whole, "unmapped"), "eclusa");
		assert_int_equal(json_object_del(ours, "chain"), 0);
		assert_int_equal(json_object_del(ours, "prev"), 0);
		assert_int_equal(json_object_del(ours, "hash"), 0);
		assert_true(json_equal(whole, bare));
		json_decref(whole);
		json_decref(bare);
		buf_fini(&got);
	}
}

/** Elastic refuses a document with a name that stands twice, or with a number where it expects an array. */
static void ecs_is_json_without_a_name_twice(void **state)
{
	(void)state;
	struct slice line, rest = buf_slice(&lines);
	while (slice_split(rest, '\n', &line, &rest)) {
		struct buf got = {0};
		json_error_t error;
		assert_int_equal(audit_format_write(AUDIT_FORMAT_ECS, line, &got), 0);
		json_t *ecs = json_loadb(buf_slice(&got).ptr, buf_len(&got),
			JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
		if (ecs == NULL)
			fail_msg("%s", error.text);
		json_t *event = json_object_get(ecs, "event");
		assert_true(json_array_size(json_object_get(event, "category")) > 0);
		assert_true(json_array_size(json_object_get(event, "type")) > 0);
		assert_true(json_is_string(json_object_get(ecs, "@timestamp")));
		json_decref(ecs);
		buf_fini(&got);
	}
}

static void what_is_no_event_is_refused(void **state)
{
	(void)state;
	static const char *const no_events[] = {
		"", "no json", "[1]", "\"text\"", "{\"a\":1", "{\"a\":\"\xff\"}"};
	for (enum audit_format f = 0; f < AUDIT_FORMAT_COUNT; f++) {
		for (size_t i = 0; i < array_size(no_events); i++) {
			struct buf got = {0};
			assert_int_equal(
				audit_format_write(f, slice_of(no_events[i]), &got), -EBADMSG);
			assert_int_equal(buf_len(&got), 0);
		}
	}
}

static void what_does_not_fit_is_told(void **state)
{
	(void)state;
	struct slice line, rest;
	assert_true(slice_split(buf_slice(&lines), '\n', &line, &rest));
	for (enum audit_format f = 0; f < AUDIT_FORMAT_COUNT; f++) {
		struct buf got = {.limit = 100};
		assert_int_equal(audit_format_write(f, line, &got), -ENOBUFS);
		buf_fini(&got);
	}
}

/** Every character one that is escaped, in the texts that a format writes twice: the largest that a line of the log can become. */
static void the_largest_line_fits_what_is_promised(void **state)
{
	(void)state;
	static const char *const starts[] = {
		"{\"status_code\":\"", "{\"metadata\":{\"labels\":[\"profile:"};
	static const char *const ends[] = {"\"}", "\"]}}"};
	for (size_t i = 0; i < array_size(starts); i++) {
		struct buf line = {0};
		(void)buf_append_text(&line, starts[i]);
		while (buf_len(&line) < AUDIT_LINE_BYTES_MAX - strlen(ends[i]))
			(void)buf_append(&line, SLICE("\x7f"));
		(void)buf_append_text(&line, ends[i]);
		for (enum audit_format f = 0; f < AUDIT_FORMAT_COUNT; f++) {
			struct buf got = {.limit = AUDIT_FORMAT_BYTES_MAX};
			assert_int_equal(audit_format_write(f, buf_slice(&line), &got), 0);
			buf_fini(&got);
		}
		buf_fini(&line);
	}
}

static void names_and_formats_belong_together(void **state)
{
	(void)state;
	enum audit_format found;
	for (enum audit_format f = 0; f < AUDIT_FORMAT_COUNT; f++) {
		assert_true(audit_format_find(slice_of(audit_format_name(f)), &found));
		assert_int_equal(found, f);
	}
	assert_false(audit_format_find(SLICE("CSV"), &found));
	assert_false(audit_format_find(SLICE(""), &found));
}

static void what_is_not_shown_becomes_visible(void **state)
{
	(void)state;
	static const struct {
		struct slice text;
		const char *shown;
	} cases[] = {
		{SLICE("plain \xc3\xa9 \\ |"), "plain \xc3\xa9 \\ |"},
		{SLICE("\x1b[31m\r\n\t"), "\\u001b[31m\\u000d\\u000a\\u0009"},
		{SLICE("\xe2\x80\xa8\xe2\x80\xae\xd8\x9c\xc2\x9b\x7f"),
			"\\u2028\\u202e\\u061c\\u009b\\u007f"},
		{SLICE("a\0b"), "a\\u0000b"},
		{SLICE("\xff\xc0\x80z\xe2\x80"),
			"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd"},
	};
	for (size_t i = 0; i < array_size(cases); i++) {
		struct buf got = {0};
		visible_append(&got, cases[i].text, NULL);
		assert_true(slice_equal(buf_slice(&got), slice_of(cases[i].shown)));
		buf_fini(&got);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_as_they_were_read),
		cmocka_unit_test(ocsf_is_the_log_itself),
		cmocka_unit_test(bare_ocsf_lacks_only_the_chain),
		cmocka_unit_test(ecs_is_json_without_a_name_twice),
		cmocka_unit_test(what_is_no_event_is_refused),
		cmocka_unit_test(what_does_not_fit_is_told),
		cmocka_unit_test(the_largest_line_fits_what_is_promised),
		cmocka_unit_test(names_and_formats_belong_together),
		cmocka_unit_test(what_is_not_shown_becomes_visible),
	};
	return cmocka_run_group_tests(tests, load_lines, free_lines);
}
