#include "tests/unit/audit_setup.h"

#include "audit/reader.h"
#include "audit/seen.h"

#define LINES_MAX 16

struct seen_lines {
	uint64_t numbers[LINES_MAX];
	char texts[LINES_MAX][32];
	char files[LINES_MAX][128];
	size_t count;
	size_t stop_at; /* 0: never */
};

static int visit(void *arg, const struct audit_line *line)
{
	struct seen_lines *to = arg;
	assert_true(to->count < LINES_MAX);
	to->numbers[to->count] = audit_line_number(line);
	(void)slice_copy(audit_line_text(line, "a.b"), to->texts[to->count], 32);
	(void)slice_copy(slice_of(audit_line_file(line)), to->files[to->count], 128);
	to->count++;
	return to->count == to->stop_at ? -ECANCELED : 0;
}

static int read_text(struct slice text, struct seen_lines *to, struct audit_read *read)
{
	auto_fd fd = file_memory("segment", text);
	assert_true(fd >= 0);
	*read = (struct audit_read){.visit = visit, .arg = to};
	return audit_read_fd(read, fd);
}

static void lines_are_numbered_and_what_is_no_event_is_counted(void **state)
{
	(void)state;
	struct seen_lines lines = {0};
	struct audit_read read;
	assert_int_equal(
		read_text(
			SLICE("{\"a\":{\"b\":\"x\"}}\n\nno json\n[1]\n{\"a\":1}\n{\"a\":{\"b\":\"last\"}}"),
			&lines, &read),
		0);
	assert_int_equal(lines.count, 3);
	assert_int_equal(lines.numbers[0], 1);
	assert_int_equal(lines.numbers[1], 5);
	assert_int_equal(lines.numbers[2], 6);
	assert_string_equal(lines.texts[0], "x");
	assert_string_equal(lines.texts[1], "");
	assert_string_equal(lines.texts[2], "last");
	assert_int_equal(read.lines, 3);
	assert_int_equal(read.skipped, 2);
}

static int visit_counts(void *arg, const struct audit_line *line)
{
	size_t *count = arg;
	*count += audit_line_counts(line) ? 1 : 0;
	return 0;
}

static void what_another_event_repeats_does_not_count(void **state)
{
	(void)state;
	size_t count = 0;
	struct audit_read read = {.visit = visit_counts, .arg = &count};
	const struct slice lines[] = {SLICE("{\"unmapped\":{\"eclusa\":{\"torn\":true}}}"),
		SLICE("{\"unmapped\":{\"eclusa\":{\"open\":true}}}"),
		SLICE("{\"unmapped\":{\"eclusa\":{\"open\":false}}}"), SLICE("{}")};
	for (size_t i = 0; i < array_size(lines); i++)
		assert_int_equal(audit_read_line(&read, lines[i]), 0);
	assert_int_equal(count, 2);
}

static int visit_values(void *arg, const struct audit_line *line)
{
	(void)arg;
	assert_int_equal(audit_line_number_at(line, "n"), 7);
	assert_int_equal(audit_line_number_at(line, "negative"), 0);
	assert_int_equal(audit_line_number_at(line, "text"), 0);
	assert_int_equal(audit_line_number_at(line, "deep.er.n"), 9);
	assert_true(audit_line_true(line, "yes"));
	assert_false(audit_line_true(line, "text"));
	assert_int_equal(audit_line_text(line, "text").len, 3);
	assert_memory_equal(audit_line_text(line, "text").ptr, "a\0b", 4);
	assert_null(audit_line_text(line, "missing").ptr);
	assert_null(audit_line_text(line, "n").ptr);
	assert_null(audit_line_text(line, "text.more").ptr);
	assert_true(slice_starts(audit_line_bytes(line), SLICE("{\"n\":7")));
	return 0;
}

static void values_have_their_types(void **state)
{
	(void)state;
	struct audit_read read = {.visit = visit_values};
	auto_fd fd = file_memory("segment",
		SLICE("{\"n\":7,\"negative\":-1,\"text\":\"a\\u0000b\",\"yes\":true,\"deep\":{\"er\":{\"n\":9}}}\n"));
	assert_int_equal(audit_read_fd(&read, fd), 0);
	assert_int_equal(read.lines, 1);
}

static void a_line_without_end_is_one_line_in_bounded_memory(void **state)
{
	(void)state;
	struct seen_lines lines = {0};
	struct audit_read read;
	struct buf text = {.limit = 4 << 20};
	for (size_t i = 0; i < 1 << 16; i++)
		assert_int_equal(buf_append(&text, SLICE("0123456789abcdef")), 0);
	/* Its end looks like an event, and is none. */
	assert_int_equal(
		buf_append(&text, SLICE("{\"a\":{\"b\":\"forged\"}}\n{\"a\":{\"b\":\"own\"}}\n")),
		0);
	assert_int_equal(read_text(buf_slice(&text), &lines, &read), 0);
	assert_int_equal(lines.count, 1);
	assert_string_equal(lines.texts[0], "own");
	assert_int_equal(lines.numbers[0], 2);
	assert_int_equal(read.skipped, 1);
	buf_fini(&text);
}

static void a_visit_ends_the_reading(void **state)
{
	(void)state;
	struct seen_lines lines = {.stop_at = 1};
	struct audit_read read;
	assert_int_equal(read_text(SLICE("{}\n{}\n"), &lines, &read), -ECANCELED);
	assert_int_equal(lines.count, 1);
}

static void write_file(int folder_fd, const char *name, const char *text)
{
	auto_fd fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
}

static void a_folder_is_read_in_the_order_of_its_segments(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct failure why = {0};
	struct seen_lines lines = {0};
	struct audit_read read = {.visit = visit, .arg = &lines};
	rig_open(&rig);
	assert_int_equal(unlinkat(rig.folder_fd, rig.name, 0), 0);
	write_file(rig.folder_fd, "b.jsonl", "{\"a\":{\"b\":\"2\"}}\n");
	write_file(rig.folder_fd, "a.jsonl", "{\"a\":{\"b\":\"1\"}}\n");
	write_file(rig.folder_fd, "index.jsonl", "{\"a\":{\"b\":\"index\"}}\n");
	write_file(rig.folder_fd, "note.txt", "{\"a\":{\"b\":\"note\"}}\n");
	assert_int_equal(audit_read_path(&read, rig.path, &why), 0);
	assert_int_equal(lines.count, 2);
	assert_string_equal(lines.texts[0], "1");
	assert_string_equal(lines.files[0], "a.jsonl");
	assert_string_equal(lines.texts[1], "2");
	rig_close(&rig);
}

static void what_cannot_be_read_is_named(void **state)
{
	(void)state;
	struct audit_rig rig;
	struct failure why = {0};
	struct seen_lines lines = {0};
	struct audit_read read = {.visit = visit, .arg = &lines};
	rig_open(&rig);
	assert_int_equal(unlinkat(rig.folder_fd, rig.name, 0), 0);
	assert_int_equal(audit_read_path(&read, "/nonexistent", &why), -ENOENT);
	assert_non_null(strstr(why.text, "/nonexistent"));
	why = (struct failure){0};
	assert_int_equal(audit_read_path(&read, rig.path, &why), -ENOENT);
	assert_non_null(strstr(why.text, "jsonl"));
	why = (struct failure){0};
	assert_int_equal(symlinkat("/etc/passwd", rig.folder_fd, "link.jsonl"), 0);
	assert_int_equal(audit_read_path(&read, rig.path, &why), -ELOOP);
	assert_non_null(strstr(why.text, "link.jsonl"));
	why = (struct failure){0};
	assert_int_equal(audit_read_path(&read, "/dev/null", &why), -EINVAL);
	char path[512];
	(void)snprintf(path, sizeof(path), "%s/other.txt", rig.path);
	write_file(rig.folder_fd, "other.txt", "policy 1\n[profile p]\n");
	why = (struct failure){0};
	assert_int_equal(audit_read_path(&read, path, &why), -EINVAL);
	assert_non_null(strstr(why.text, "other.txt: no line of it is of an audit log"));
	write_file(rig.folder_fd, "empty.txt", "");
	(void)snprintf(path, sizeof(path), "%s/empty.txt", rig.path);
	assert_int_equal(audit_read_path(&read, path, &why), 0);
	rig_close(&rig);
}

static void an_event_is_new_once(void **state)
{
	(void)state;
	struct audit_seen seen = {0};
	for (unsigned i = 1; i < 5000; i++) {
		char uid[UUID_TEXT_BYTES];
		(void)snprintf(uid, sizeof(uid), "01938f1e-7a53-7cc1-9b1e-%012x", i);
		assert_int_equal(audit_seen_add(&seen, slice_of(uid)), 1);
		assert_int_equal(audit_seen_add(&seen, slice_of(uid)), 0);
	}
	assert_int_equal(audit_seen_add(&seen, SLICE("01938f1e-7a53-7cc1-9b1e-000000000001")), 0);
	assert_int_equal(audit_seen_add(&seen, SLICE("")), -EINVAL);
	assert_int_equal(
		audit_seen_add(&seen, SLICE("01938f1e-7a53-7cc1-9b1e-00000000000g")), -EINVAL);
	assert_int_equal(
		audit_seen_add(&seen, SLICE("00000000-0000-0000-0000-000000000000")), -EINVAL);
	assert_int_equal(seen.count, 4999);
	audit_seen_fini(&seen);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_numbered_and_what_is_no_event_is_counted),
		cmocka_unit_test(what_another_event_repeats_does_not_count),
		cmocka_unit_test(values_have_their_types),
		cmocka_unit_test(a_line_without_end_is_one_line_in_bounded_memory),
		cmocka_unit_test(a_visit_ends_the_reading),
		cmocka_unit_test(a_folder_is_read_in_the_order_of_its_segments),
		cmocka_unit_test(what_cannot_be_read_is_named),
		cmocka_unit_test(an_event_is_new_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
