/* Streams: the first bytes are kept, the rest is counted, the writer goes on; passed-on bytes never block the loop. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "sandbox-launcher/stream.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

static void make_pipe(int ends[2])
{
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
}

static void feed(struct stream *s, int *write_end, struct slice text)
{
	assert_int_equal(file_write_all(*write_end, text), 0);
	assert_int_equal(stream_read(s), 0);
}

static void a_capture_keeps_the_first_bytes_and_counts_the_rest(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		uint64_t limit;
		const char *kept;
		uint64_t cut;
	} cases[] = {{"", 4, "", 0}, {"abc", 4, "abc", 0}, {"abcd", 4, "abcd", 0},
		{"abcde", 4, "abcd", 1}, {"abcde", 0, "", 5}, {"abc\xc3\xa9", 4, "abc", 2},
		{"ab\xc3\xa9z", 4, "ab\xc3\xa9", 1}, {"a\xe2\x82\xac", 3, "a", 3},
		{"\xf0\x9f\x98\x80z", 3, "", 5}, {"\xff\xff\xff", 2, "\xff\xff", 1}};
	for (size_t i = 0; i < array_size(cases); i++) {
		int ends[2];
		struct stream s;
		make_pipe(ends);
		stream_init(&s, ends[0], -1, cases[i].limit);
		feed(&s, &ends[1], slice_of(cases[i].text));
		fd_close(&ends[1]);
		assert_int_equal(stream_read(&s), 0);
		assert_true(stream_done(&s));
		assert_true(stream_cut(&s) == cases[i].cut);
		assert_true(slice_equal(buf_slice(&s.kept), slice_of(cases[i].kept)));
		stream_fini(&s);
		fd_close(&ends[0]);
	}
}

/* A character that is not whole waits for its rest, as long as there may be one. */
static void a_text_ends_with_a_whole_character(void **state)
{
	(void)state;
	static const struct {
		const char *text, *whole;
	} cases[] = {{"abc", "abc"}, {"ab\xc3", "ab"}, {"\xe2\x82", ""}, {"a\xf0\x9f\x98", "a"},
		{"a\xc3\xa9", "a\xc3\xa9"}, {"\xff", "\xff"}};
	for (size_t i = 0; i < array_size(cases); i++) {
		int ends[2];
		struct stream s;
		make_pipe(ends);
		stream_init(&s, ends[0], -1, 100);
		feed(&s, &ends[1], slice_of(cases[i].text));
		assert_true(slice_equal(stream_text(&s), slice_of(cases[i].whole)));
		fd_close(&ends[1]);
		assert_int_equal(stream_read(&s), 0);
		assert_true(slice_equal(stream_text(&s), slice_of(cases[i].text)));
		stream_fini(&s);
		fd_close(&ends[0]);
	}
}

/* However much is there: the clocks are looked at between two turns. */
static void one_turn_takes_one_chunk(void **state)
{
	(void)state;
	for (int passed_on = 0; passed_on < 2; passed_on++) {
		int ends[2];
		struct stream s;
		static char chunk[4 * STREAM_CHUNK];
		make_pipe(ends);
		assert_true(fcntl(ends[1], F_SETPIPE_SZ, (int)sizeof(chunk)) >= (int)sizeof(chunk));
		assert_int_equal(write(ends[1], chunk, sizeof(chunk)), sizeof(chunk));
		stream_init(&s, ends[0], passed_on ? ends[1] : -1, 10);
		assert_int_equal(stream_read(&s), 0);
		assert_true(s.total == STREAM_CHUNK);
		assert_int_equal(stream_read(&s), 0);
		assert_true(s.total == (passed_on ? 1 : 2) * STREAM_CHUNK);
		stream_fini(&s);
		fd_close(&ends[0]);
		fd_close(&ends[1]);
	}
}

static void a_program_that_writes_past_the_limit_is_never_held_up(void **state)
{
	(void)state;
	int ends[2];
	struct stream s;
	static char chunk[4096];
	make_pipe(ends);
	stream_init(&s, ends[0], -1, 10);
	memset(chunk, 'x', sizeof(chunk));
	for (int i = 0; i < 1000; i++)
		feed(&s, &ends[1], (struct slice){chunk, sizeof(chunk)});
	assert_true(s.total == 1000 * sizeof(chunk));
	assert_int_equal(buf_len(&s.kept), 10);
	stream_fini(&s);
	fd_close(&ends[0]);
	fd_close(&ends[1]);
}

static void passed_on_bytes_arrive_in_order_and_reading_waits_for_them(void **state)
{
	(void)state;
	int in[2], out[2];
	struct stream s;
	static char chunk[STREAM_CHUNK / 2];
	make_pipe(in);
	make_pipe(out);
	stream_init(&s, in[0], out[1], 1);
	memset(chunk, 'y', sizeof(chunk));
	for (int i = 0; i < 3 && stream_wants_read(&s); i++)
		feed(&s, &in[1], (struct slice){chunk, sizeof(chunk)});
	assert_false(stream_wants_read(&s));
	struct buf got;
	buf_init(&got, 1 << 20);
	while (stream_wants_write(&s)) {
		char some[4096];
		stream_write(&s);
		ssize_t len = read(out[0], some, sizeof(some));
		assert_true(len > 0);
		assert_int_equal(buf_append(&got, (struct slice){some, (size_t)len}), 0);
	}
	assert_true(buf_len(&got) == s.total);
	assert_true(stream_wants_read(&s));
	buf_fini(&got);
	stream_fini(&s);
	for (int i = 0; i < 2; i++) {
		fd_close(&in[i]);
		fd_close(&out[i]);
	}
}

static void a_reader_who_is_gone_ends_the_stream(void **state)
{
	(void)state;
	int in[2], out[2];
	struct stream s;
	make_pipe(in);
	make_pipe(out);
	stream_init(&s, in[0], out[1], 1);
	feed(&s, &in[1], SLICE("hello"));
	fd_close(&out[0]);
	stream_write(&s);
	assert_true(stream_done(&s));
	assert_true(s.closes_from);
	assert_int_equal(s.write_error, EPIPE);
	stream_fini(&s);
	fd_close(&in[0]);
	fd_close(&in[1]);
	fd_close(&out[1]);
}

static void a_full_reader_does_not_block(void **state)
{
	(void)state;
	int in[2], out[2];
	struct stream s;
	make_pipe(in);
	assert_int_equal(pipe2(out, O_CLOEXEC | O_NONBLOCK), 0);
	static char chunk[4096];
	while (write(out[1], chunk, sizeof(chunk)) > 0)
		;
	stream_init(&s, in[0], out[1], 1);
	feed(&s, &in[1], SLICE("hello"));
	stream_write(&s);
	assert_true(stream_wants_write(&s));
	assert_false(s.closes_from);
	assert_int_equal(s.write_error, 0);
	stream_fini(&s);
	for (int i = 0; i < 2; i++) {
		fd_close(&in[i]);
		fd_close(&out[i]);
	}
}

int main(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGPIPE, &ignore, NULL); /* as the launcher does */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_capture_keeps_the_first_bytes_and_counts_the_rest),
		cmocka_unit_test(a_text_ends_with_a_whole_character),
		cmocka_unit_test(one_turn_takes_one_chunk),
		cmocka_unit_test(a_program_that_writes_past_the_limit_is_never_held_up),
		cmocka_unit_test(passed_on_bytes_arrive_in_order_and_reading_waits_for_them),
		cmocka_unit_test(a_reader_who_is_gone_ends_the_stream),
		cmocka_unit_test(a_full_reader_does_not_block),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
