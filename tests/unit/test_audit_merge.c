/* Lines of one segment, forwards and backwards, and of a folder in the order of time: compared with what was written. */
#include "tests/unit/cmocka_setup.h"

#include "audit/event.h"
#include "audit/merge.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#define DAY_MS UINT64_C(1795910400000) /* 2026-11-29 */

struct folder {
	char path[64];
	int fd;
};

static int folder_open(void **state)
{
	static struct folder folder;
	(void)snprintf(folder.path, sizeof(folder.path), "/tmp/eclusa-merge-XXXXXX");
	if (mkdtemp(folder.path) == NULL)
		return -1;
	folder.fd = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = &folder;
	return folder.fd < 0;
}

static int folder_close(void **state)
{
	struct folder *folder = *state;
	DIR *dir = opendir(folder->path);
	struct dirent *entry;
	while (dir != NULL && (entry = readdir(dir)) != NULL)
		(void)unlinkat(folder->fd, entry->d_name, 0); /* "." and ".." stay */
	if (dir != NULL)
		(void)closedir(dir);
	fd_close(&folder->fd);
	return rmdir(folder->path);
}

static void write_file(const struct folder *folder, const char *name, struct slice text)
{
	auto_fd fd = openat(folder->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(file_write_all(fd, text), 0);
}

static void check_lines(const struct folder *folder, bool backwards, const char *const *wanted,
	size_t count, bool last_whole)
{
	struct stat st;
	struct slice line;
	assert_int_equal(fstatat(folder->fd, "a.jsonl", &st, 0), 0);
	struct lines lines = {.folder_fd = folder->fd,
		.name = "a.jsonl",
		.to = st.st_size,
		.backwards = backwards};
	for (size_t i = 0; i < count; i++) {
		size_t at = backwards ? count - 1 - i : i;
		assert_int_equal(lines_next(&lines, &line), 1);
		assert_true(slice_equal(line, slice_of(wanted[at])));
		assert_int_equal(lines.whole, at + 1 < count || last_whole);
	}
	assert_int_equal(lines_next(&lines, &line), 0);
	assert_int_equal(lines_next(&lines, &line), 0);
	lines_fini(&lines);
}

static void lines_come_in_both_directions(void **state)
{
	const struct folder *folder = *state;
	static const struct {
		const char *text;
		const char *lines[4];
		size_t count;
		bool last_whole;
	} cases[] = {
		{"", {NULL}, 0, true},
		{"\n\n\n", {NULL}, 0, true},
		{"a", {"a"}, 1, false},
		{"a\n", {"a"}, 1, true},
		{"a\nbb\n\nccc\n", {"a", "bb", "ccc"}, 3, true},
		{"\n\na\nbb", {"a", "bb"}, 2, false},
	};
	for (size_t i = 0; i < array_size(cases); i++) {
		write_file(folder, "a.jsonl", slice_of(cases[i].text));
		for (int backwards = 0; backwards < 2; backwards++)
			check_lines(folder, backwards, cases[i].lines, cases[i].count,
				cases[i].last_whole);
	}
}

static void append_run(struct buf *to, char byte, size_t count)
{
	char *at;
	assert_int_equal(buf_reserve(to, count, &at), 0);
	memset(at, byte, count);
	buf_grew(to, count);
}

/** One that is longer than the buffer, before, between and after lines, at sizes around the buffer's. */
static void lines_that_are_too_long_are_passed_over(void **state)
{
	const struct folder *folder = *state;
	static const char *const wanted[] = {"first", "last"};
	for (size_t more = 0; more < 4; more++) {
		for (size_t factor = 1; factor <= 3; factor++) {
			struct buf text = {0};
			size_t len = factor * LINES_BUFFER_BYTES + more;
			(void)buf_append(&text, SLICE("first\n"));
			append_run(&text, 'x', len);
			(void)buf_append(&text, SLICE("\nlast\n"));
			write_file(folder, "a.jsonl", buf_slice(&text));
			for (int backwards = 0; backwards < 2; backwards++) {
				struct slice line = {0};
				struct lines lines = {.folder_fd = folder->fd,
					.name = "a.jsonl",
					.to = (off_t)buf_len(&text),
					.backwards = backwards};
				assert_int_equal(lines_next(&lines, &line), 1);
				assert_true(slice_equal(line, slice_of(wanted[backwards])));
				assert_int_equal(lines_next(&lines, &line), 1);
				assert_true(slice_equal(line, slice_of(wanted[!backwards])));
				assert_int_equal(lines_next(&lines, &line), 0);
				assert_int_equal(lines.too_long, 1);
				lines_fini(&lines);
			}
			buf_fini(&text);
		}
	}
}

/** Lines of random lengths, so that ends fall anywhere in the buffer. */
static void long_files_come_back_whole(void **state)
{
	const struct folder *folder = *state;
	struct buf text = {0};
	for (unsigned i = 0; i < 2000; i++) {
		(void)buf_printf(&text, "%u:", i);
		append_run(&text, 'y', (i * 7919) % AUDIT_LINE_BYTES_MAX);
		(void)buf_append(&text, SLICE("\n"));
	}
	write_file(folder, "a.jsonl", buf_slice(&text));
	for (int backwards = 0; backwards < 2; backwards++) {
		struct slice line, number, rest;
		uint64_t value;
		struct lines lines = {.folder_fd = folder->fd,
			.name = "a.jsonl",
			.to = (off_t)buf_len(&text),
			.backwards = backwards};
		for (unsigned i = 0; i < 2000; i++) {
			unsigned wanted = backwards ? 1999 - i : i;
			assert_int_equal(lines_next(&lines, &line), 1);
			assert_true(slice_split(line, ':', &number, &rest));
			assert_int_equal(slice_decimal(number, 2000, false, &value), 0);
			assert_int_equal(value, wanted);
			assert_int_equal(rest.len, (wanted * 7919) % AUDIT_LINE_BYTES_MAX);
		}
		assert_int_equal(lines_next(&lines, &line), 0);
		lines_fini(&lines);
	}
	buf_fini(&text);
}

static void a_time_is_read_from_the_line(void **state)
{
	(void)state;
	assert_int_equal(
		lines_time_ms(SLICE("{\"a\":1,\"time\":1795961863123,\"b\":2}")), 1795961863123);
	assert_int_equal(lines_time_ms(SLICE("{\"time\":}")), 0);
	assert_int_equal(lines_time_ms(SLICE("{\"time\":-5}")), 0);
	assert_int_equal(lines_time_ms(SLICE("{\"time\":99999999999999999999}")), 0);
	assert_int_equal(lines_time_ms(SLICE("{\"end_time\":7}")), 0);
	assert_int_equal(lines_time_ms((struct slice){NULL, 0}), 0);
}

/** "file:time" of every line, in the order of the merge. */
static void merge_all(
	const struct folder *folder, const struct merge_options *options, struct buf *to)
{
	struct merge *m;
	struct merge_line line;
	struct failure why = {0};
	int r;
	assert_int_equal(merge_open(folder->fd, options, &m, &why), 0);
	while ((r = merge_next(m, &line, &why)) == 1)
		(void)buf_printf(to, "%.1s:%" PRIu64 " ", line.file + 17,
			line.time_ms == 0 ? 0 : line.time_ms - DAY_MS);
	assert_int_equal(r, 0);
	merge_free(m);
}

static void write_times(const struct folder *folder, const char *name, const uint64_t *times)
{
	struct buf text = {0};
	for (; *times != 0; times++)
		(void)buf_printf(&text, "{\"time\":%" PRIu64 "}\n", DAY_MS + *times);
	write_file(folder, name, buf_slice(&text));
	buf_fini(&text);
}

static void check_merge(
	const struct folder *folder, const struct merge_options *options, const char *wanted)
{
	struct buf got = {0};
	merge_all(folder, options, &got);
	assert_true(slice_equal(buf_slice(&got), slice_of(wanted)));
	buf_fini(&got);
}

static void segments_come_in_the_order_of_time(void **state)
{
	const struct folder *folder = *state;
	write_times(folder, "20261129T000000Z-a.jsonl", (uint64_t[]){1000, 5000, 9000, 0});
	write_times(folder, "20261129T000002Z-b.jsonl", (uint64_t[]){2000, 5000, 6000, 0});
	write_times(folder, "20261129T000003Z-c.jsonl", (uint64_t[]){3000, 0});
	write_times(folder, "20261129T010000Z-d.jsonl", (uint64_t[]){3600001, 3600000, 0});
	write_file(folder, "20261129T000000Z-e.jsonl", SLICE(""));
	write_file(folder, "index.jsonl", SLICE("{\"time\":1}\n"));
	write_file(folder, "20261129T000000Z-f.ring", SLICE("{\"time\":1}\n"));
	check_merge(folder, &(struct merge_options){.backwards = false},
		"a:1000 b:2000 c:3000 a:5000 b:5000 b:6000 a:9000 d:3600001 d:3600000 ");
	check_merge(folder, &(struct merge_options){.backwards = true},
		"d:3600000 d:3600001 a:9000 b:6000 b:5000 a:5000 c:3000 b:2000 a:1000 ");
	/* Whole files that can have nothing of the time are left out; the rest is the caller's. */
	check_merge(folder, &(struct merge_options){.until_ms = DAY_MS + 1800000},
		"a:1000 b:2000 c:3000 a:5000 b:5000 b:6000 a:9000 ");
}

static void a_file_that_was_not_touched_since_is_left_out(void **state)
{
	const struct folder *folder = *state;
	write_times(folder, "20261129T000000Z-a.jsonl", (uint64_t[]){1000, 0});
	write_times(folder, "20261129T000002Z-b.jsonl", (uint64_t[]){2000, 0});
	const struct timespec old[2] = {
		{.tv_sec = (time_t)(DAY_MS / 1000)}, {.tv_sec = (time_t)(DAY_MS / 1000)}};
	assert_int_equal(utimensat(folder->fd, "20261129T000000Z-a.jsonl", old, 0), 0);
	const struct timespec late[2] = {{.tv_sec = (time_t)(DAY_MS / 1000) + 86400},
		{.tv_sec = (time_t)(DAY_MS / 1000) + 86400}};
	assert_int_equal(utimensat(folder->fd, "20261129T000002Z-b.jsonl", late, 0), 0);
	check_merge(folder, &(struct merge_options){.since_ms = DAY_MS + 3600000}, "b:2000 ");
	check_merge(folder, &(struct merge_options){.since_ms = DAY_MS + 1000}, "a:1000 b:2000 ");
}

static void what_is_written_meanwhile_is_not_in_the_picture(void **state)
{
	const struct folder *folder = *state;
	const struct merge_options options = {.backwards = false};
	struct merge *m;
	struct merge_line line;
	struct failure why = {0};
	write_file(folder, "20261129T000000Z-a.jsonl", SLICE("{\"time\":1}\n{\"time\":2}"));
	assert_int_equal(merge_open(folder->fd, &options, &m, &why), 0);
	write_file(folder, "20261129T000000Z-a.jsonl",
		SLICE("{\"time\":1}\n{\"time\":2}\n{\"time\":3}\n"));
	assert_int_equal(merge_next(m, &line, &why), 1);
	assert_true(line.whole);
	assert_int_equal(merge_next(m, &line, &why), 1);
	assert_int_equal(line.time_ms, 2);
	assert_false(line.whole);
	assert_int_equal(merge_next(m, &line, &why), 0);
	assert_int_equal(merge_all_bytes(m), 21);
	merge_free(m);
}

/** 40 segments of times at random, against sorting them. */
static void many_segments_come_in_order(void **state)
{
	const struct folder *folder = *state;
	uint64_t seed = 88172645463325252u, all = 0;
	for (unsigned f = 0; f < 40; f++) {
		char name[64];
		uint64_t times[61] = {0}, at = f * 1000;
		for (unsigned i = 0; i < 60; i++, all++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			times[i] = at += 1 + seed % 3000;
		}
		(void)snprintf(name, sizeof(name), "20261129T0000%02uZ-x%02u.jsonl", f, f);
		write_times(folder, name, times);
	}
	for (int backwards = 0; backwards < 2; backwards++) {
		const struct merge_options options = {.backwards = backwards};
		struct merge *m;
		struct merge_line line;
		struct failure why = {0};
		uint64_t count = 0, last = backwards ? UINT64_MAX : 0;
		assert_int_equal(merge_open(folder->fd, &options, &m, &why), 0);
		for (; merge_next(m, &line, &why) == 1; count++) {
			assert_true(backwards ? line.time_ms <= last : line.time_ms >= last);
			last = line.time_ms;
		}
		assert_int_equal(count, all);
		assert_int_equal(merge_done_bytes(m), merge_all_bytes(m));
		merge_free(m);
	}
}

static void a_file_that_goes_away_is_told(void **state)
{
	const struct folder *folder = *state;
	const struct merge_options options = {.backwards = false};
	struct merge *m;
	struct merge_line line;
	struct failure why = {0};
	write_times(folder, "20261129T000000Z-a.jsonl", (uint64_t[]){1000, 0});
	assert_int_equal(merge_open(folder->fd, &options, &m, &why), 0);
	assert_int_equal(unlinkat(folder->fd, "20261129T000000Z-a.jsonl", 0), 0);
	assert_int_equal(merge_next(m, &line, &why), -ENOENT);
	assert_non_null(strstr(why.text, "20261129T000000Z-a.jsonl"));
	merge_free(m);
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_open, folder_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_A_FOLDER(lines_come_in_both_directions),
		IN_A_FOLDER(lines_that_are_too_long_are_passed_over),
		IN_A_FOLDER(long_files_come_back_whole),
		cmocka_unit_test(a_time_is_read_from_the_line),
		IN_A_FOLDER(segments_come_in_the_order_of_time),
		IN_A_FOLDER(a_file_that_was_not_touched_since_is_left_out),
		IN_A_FOLDER(what_is_written_meanwhile_is_not_in_the_picture),
		IN_A_FOLDER(many_segments_come_in_order),
		IN_A_FOLDER(a_file_that_goes_away_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
