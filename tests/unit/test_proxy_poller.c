/* Waiting: streams are woken for what they want and for nothing else, also for what came before they wanted it, and libuv's handles are served beside. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

struct waiting {
	uv_loop_t loop;
	struct poller poller;
	bool stopping;
	struct stream *stream;
	int peer;
	unsigned wakes;
	struct stream *other; /* let go of by the first one that is woken */
	uv_timer_t timer;
};

static void on_time(uv_timer_t *timer)
{
	struct waiting *w = timer->data;
	w->stopping = true;
}

static void wake(void *arg)
{
	struct waiting *w = arg;
	w->wakes++;
	w->stopping = true;
}

static void waiting_open(struct waiting *w)
{
	int fds[2];
	*w = (struct waiting){.peer = -1};
	assert_int_equal(uv_loop_init(&w->loop), 0);
	assert_int_equal(poller_open(&w->poller, &w->loop), 0);
	assert_int_equal(uv_timer_init(&w->loop, &w->timer), 0);
	w->timer.data = w;
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	w->stream = stream_new(&w->poller, fds[0], wake, w);
	assert_non_null(w->stream);
	w->peer = fds[1];
}

static void waiting_close(struct waiting *w)
{
	stream_free(w->stream);
	fd_close(&w->peer);
	poller_close(&w->poller);
	uv_close((uv_handle_t *)&w->timer, NULL);
	assert_int_equal(uv_run(&w->loop, UV_RUN_DEFAULT), 0);
	assert_int_equal(uv_loop_close(&w->loop), 0);
}

/** Wait for a wake-up. @return whether there was one, and not just the end of all that was to be told. */
static bool is_woken(struct waiting *w)
{
	unsigned before = w->wakes;
	w->stopping = false;
	assert_int_equal(uv_timer_start(&w->timer, on_time, 0, 0), 0);
	poller_run(&w->poller, &w->stopping);
	assert_int_equal(uv_timer_stop(&w->timer), 0);
	return w->wakes > before;
}

static void say(const struct waiting *w, const char *words)
{
	assert_int_equal(send(w->peer, words, strlen(words), MSG_NOSIGNAL), strlen(words));
}

static void all_that_comes_is_told(void **state)
{
	(void)state;
	struct waiting w;
	waiting_open(&w);
	assert_false(stream_fill(w.stream));
	stream_watch(w.stream, true);
	assert_false(is_woken(&w));
	for (size_t len = 1; len <= 3; len++) {
		say(&w, "x");
		assert_true(is_woken(&w));
		assert_true(stream_fill(w.stream));
		assert_int_equal(buf_len(&w.stream->in), len);
		assert_false(stream_fill(w.stream));
		stream_watch(w.stream, true);
		assert_false(is_woken(&w));
	}
	waiting_close(&w);
}

/** The kernel tells once of bytes and the end behind them. */
static void an_end_behind_the_last_bytes_is_found(void **state)
{
	(void)state;
	struct waiting w;
	waiting_open(&w);
	assert_false(stream_fill(w.stream));
	stream_watch(w.stream, true);
	say(&w, "bye");
	assert_int_equal(shutdown(w.peer, SHUT_WR), 0);
	assert_true(is_woken(&w));
	assert_true(stream_fill(w.stream));
	assert_false(w.stream->ended);
	assert_true(stream_fill(w.stream));
	assert_true(w.stream->ended);
	waiting_close(&w);
}

/** Two ends of a connection over TCP, which knows urgent bytes. */
static void connect_tcp(int ret[static 2])
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	auto_fd listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (const struct sockaddr *)&sa, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&sa, &len), 0);
	ret[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(ret[1], (const struct sockaddr *)&sa, len), 0);
	ret[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	assert_true(ret[0] >= 0);
}

/** A read stops at an urgent byte, behind which more is there already, of which the kernel tells no second time. */
static void what_is_behind_an_urgent_byte_is_read(void **state)
{
	(void)state;
	struct waiting w;
	int ends[2];
	waiting_open(&w);
	stream_free(w.stream);
	fd_close(&w.peer);
	connect_tcp(ends);
	w.stream = stream_new(&w.poller, ends[0], wake, &w);
	w.peer = ends[1];
	assert_non_null(w.stream);
	assert_false(stream_fill(w.stream));
	stream_watch(w.stream, true);
	say(&w, "before");
	assert_int_equal(send(w.peer, "!", 1, MSG_OOB | MSG_NOSIGNAL), 1);
	say(&w, "behind");
	assert_true(is_woken(&w));
	while (w.stream->readable)
		(void)stream_fill(w.stream);
	assert_true(slice_equal(buf_slice(&w.stream->in), SLICE("beforebehind")));
	waiting_close(&w);
}

static void what_came_unwanted_is_told_when_it_is_wanted(void **state)
{
	(void)state;
	struct waiting w;
	waiting_open(&w);
	assert_false(stream_fill(w.stream));
	stream_watch(w.stream, true);
	stream_watch(w.stream, false);
	say(&w, "x");
	assert_false(is_woken(&w));
	stream_watch(w.stream, true);
	assert_true(is_woken(&w));
	stream_watch(w.stream, true); /* and again, until it is read */
	assert_true(is_woken(&w));
	w.stream->held = true;
	stream_watch(w.stream, true);
	say(&w, "y");
	assert_false(is_woken(&w));
	waiting_close(&w);
}

/** That a stream takes itself for readable is no reason to be woken again and again. */
static void what_did_not_come_is_not_told(void **state)
{
	(void)state;
	struct waiting w;
	waiting_open(&w);
	for (int i = 0; i < 3; i++) {
		w.stream->readable = true;
		stream_watch(w.stream, true);
		assert_false(is_woken(&w));
	}
	say(&w, "x");
	assert_true(is_woken(&w));
	waiting_close(&w);
}

static void room_to_send_is_told_to_who_waits_for_it(void **state)
{
	(void)state;
	struct waiting w;
	char bytes[65536] = {0};
	waiting_open(&w);
	for (int i = 0; i < 2; i++) { /* the second time the kernel need not be asked again */
		while (w.stream->writable) {
			assert_int_equal(
				buf_append(&w.stream->out, (struct slice){bytes, sizeof(bytes)}),
				0);
			(void)stream_flush(w.stream);
		}
		stream_watch(w.stream, false);
		assert_false(is_woken(&w));
		while (recv(w.peer, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
			continue;
		assert_true(is_woken(&w));
		assert_true(w.stream->writable);
		assert_true(stream_flush(w.stream));
	}
	waiting_close(&w);
}

static void drop_other(void *arg)
{
	struct waiting *w = arg;
	w->wakes++;
	stream_free(ptr_take(w->other));
	w->stopping = true;
}

static void who_was_let_go_of_meanwhile_is_not_told(void **state)
{
	(void)state;
	struct waiting w;
	int fds[2];
	waiting_open(&w);
	assert_int_equal(
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	struct stream *two[] = {w.stream, stream_new(&w.poller, fds[0], drop_other, &w)};
	w.stream->wake = drop_other;
	for (size_t i = 0; i < 2; i++) {
		assert_non_null(two[i]);
		(void)stream_fill(two[i]);
		stream_watch(two[i], true);
	}
	w.other = two[1]; /* said first, told first */
	say(&w, "x");
	assert_int_equal(send(fds[1], "x", 1, MSG_NOSIGNAL), 1);
	assert_true(is_woken(&w));
	assert_int_equal(w.wakes, 1);
	assert_null(w.other);
	fd_close(&fds[1]);
	waiting_close(&w);
}

static void on_pipe(uv_poll_t *poll, int status, int events)
{
	struct waiting *w = poll->data;
	assert_int_equal(status, 0);
	assert_int_equal(events, UV_READABLE);
	w->stopping = true;
}

static void start_pipe(void *arg)
{
	uv_poll_t *poll = arg;
	assert_int_equal(uv_poll_start(poll, UV_READABLE, on_pipe), 0);
}

/** A handle that is started by who was told of something else is watched before the next wait. */
static void handles_that_are_started_are_served(void **state)
{
	(void)state;
	struct waiting w;
	uv_poll_t poll = {0};
	int ends[2];
	waiting_open(&w);
	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(write(ends[1], "x", 1), 1);
	assert_int_equal(uv_poll_init(&w.loop, &poll, ends[0]), 0);
	poll.data = &w;
	w.stream->wake = start_pipe;
	w.stream->arg = &poll;
	assert_false(stream_fill(w.stream));
	stream_watch(w.stream, true);
	say(&w, "x");
	poller_run(&w.poller, &w.stopping); /* waits without an end where it is not */
	uv_close((uv_handle_t *)&poll, NULL);
	fd_close(&ends[0]);
	fd_close(&ends[1]);
	waiting_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_comes_is_told),
		cmocka_unit_test(an_end_behind_the_last_bytes_is_found),
		cmocka_unit_test(what_is_behind_an_urgent_byte_is_read),
		cmocka_unit_test(what_came_unwanted_is_told_when_it_is_wanted),
		cmocka_unit_test(what_did_not_come_is_not_told),
		cmocka_unit_test(room_to_send_is_told_to_who_waits_for_it),
		cmocka_unit_test(who_was_let_go_of_meanwhile_is_not_told),
		cmocka_unit_test(handles_that_are_started_are_served),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
