/*
 * Connections that pass unread, in a real worker: what of them is recorded before it happens, what is cut, and what they
 * hold while and after they pass. Origins say "hi" first and give back what they hear, then "bye".
 */
#include "tests/unit/flow_lab.h"

#include "proxy/limits.h"

#include <dirent.h>
#include <poll.h>

#define RULES        3
#define ANSWER_BYTES (1u << 16)
#define TUNNELS      50
#define FLOOD_BYTES  ((size_t)64 << 20)

struct fixture {
	uint16_t port;
	pid_t origin;
	int log[2]; /* a byte for each connection of the origin */
	char saw[1024];
	size_t saw_len;
	char rules[RULES][128];
	const char *rule_list[RULES];
	struct lab_world world;
	char answer[ANSWER_BYTES];
};

static void origin_serve(int listener, int log)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGCHLD, &ignore, NULL);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	for (;;) {
		char bytes[4096];
		ssize_t n;
		int fd = accept(listener, NULL, NULL);
		if (fd < 0)
			_exit(0);
		(void)!write(log, "c", 1);
		if (fork() != 0) {
			(void)close(fd);
			continue;
		}
		(void)file_write_all(fd, SLICE("hi"));
		while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
			if (file_write_all(fd, (struct slice){bytes, (size_t)n}) < 0)
				n = -1; /* a reset is told once, whoever asks first */
			if (n < 0)
				break;
		}
		(void)file_write_all(fd, n == 0 ? SLICE("bye") : SLICE(""));
		(void)!write(log, n == 0 ? "e" : "r", 1);
		_exit(0);
	}
}

static int fixture_open(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	int listener = lab_listener(&f->port);
	assert_int_equal(pipe2(f->log, O_CLOEXEC | O_NONBLOCK), 0);
	f->origin = fork();
	assert_true(f->origin >= 0);
	if (f->origin == 0) {
		lab_child();
		origin_serve(listener, f->log[1]);
	}
	fd_close(&listener);
	(void)snprintf(f->rules[0], sizeof(f->rules[0]), "tcp raw.test:%u addr=127.0.0.0/8 up=1g",
		f->port);
	(void)snprintf(f->rules[1], sizeof(f->rules[1]),
		"spliced.test:%u addr=127.0.0.0/8 tls=splice", f->port);
	(void)snprintf(f->rules[2], sizeof(f->rules[2]),
		"tcp once.test:%u addr=127.0.0.0/8 conns=1", f->port);
	for (size_t i = 0; i < RULES; i++)
		f->rule_list[i] = f->rules[i];
	*state = f;
	return 0;
}

static int fixture_close(void **state)
{
	struct fixture *f = *state;
	world_free(&f->world);
	(void)kill(f->origin, SIGKILL);
	(void)lab_reap(f->origin);
	fd_close(&f->log[0]);
	fd_close(&f->log[1]);
	free(f);
	return 0;
}

static void world_start(struct fixture *f, const char *limits, const char *fault)
{
	struct lab_options o = {.rules = f->rule_list,
		.rule_count = RULES,
		.hosts = "127.0.0.1 raw.test spliced.test once.test\n",
		.limits = limits,
		.fault = fault};
	lab_start(&f->world, &o);
}

/** What the origin's connections did so far: c for each, then e (end) or r (reset). */
static const char *origin_saw(struct fixture *f)
{
	ssize_t n = read(f->log[0], f->saw + f->saw_len, sizeof(f->saw) - 1 - f->saw_len);
	f->saw_len += n > 0 ? (size_t)n : 0;
	return f->saw;
}

static void origin_wait(struct fixture *f, const char *what)
{
	while (strstr(origin_saw(f), what) == NULL)
		(void)poll(&(struct pollfd){.fd = f->log[0], .events = POLLIN}, 1, 1000);
}

/** CONNECT. @return the descriptor; the status is at the start of f->answer. */
static int tunnel_open(struct fixture *f, const char *host)
{
	char head[256];
	size_t len = 0;
	int fd = lab_connect(&f->world);
	(void)snprintf(head, sizeof(head), "CONNECT %s:%u HTTP/1.1\r\n\r\n", host, f->port);
	assert_int_equal(file_write_all(fd, slice_of(head)), 0);
	while (len < ANSWER_BYTES - 1 && read(fd, f->answer + len, 1) == 1) {
		f->answer[++len] = '\0';
		if (len >= 4 && memcmp(f->answer + len - 4, "\r\n\r\n", 4) == 0)
			break;
	}
	return fd;
}

static void assert_status(const struct fixture *f, const char *status)
{
	if (strncmp(f->answer + strlen("HTTP/1.1 "), status, strlen(status)) != 0)
		fail_msg("not %s: %s", status, f->answer);
}

static size_t worker_descriptors(const struct fixture *f)
{
	char path[64];
	size_t count = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/fd", f->world.worker);
	DIR *folder = opendir(path);
	assert_non_null(folder);
	while (readdir(folder) != NULL)
		count++;
	(void)closedir(folder);
	return count;
}

static const char hello[] = "\x16\x03\x01\x00\x44\x01\x00\x00\x40\x03\x03"
			    "0123456789abcdef0123456789abcdef\x00\x00\x02\x13\x01\x01\x00\x00\x15"
			    "\x00\x00\x00\x11\x00\x0f\x00\x00\x0cspliced.test";

static void a_tunnel_passes_both_ways_and_ends_by_halves(void **state)
{
	static const char *const hosts[] = {"raw.test", "spliced.test"};
	struct fixture *f = *state;
	world_start(f, NULL, NULL);
	for (size_t i = 0; i < array_size(hosts); i++) {
		struct slice first =
			i == 0 ? SLICE("ping") : (struct slice){hello, sizeof(hello) - 1};
		int fd = tunnel_open(f, hosts[i]);
		assert_status(f, "200");
		for (size_t at = 0; at < first.len; at++) /* one byte a segment */
			assert_int_equal(file_write_all(fd, slice_part(first, at, at + 1)), 0);
		assert_int_equal(shutdown(fd, SHUT_WR), 0);
		assert_true(lab_drain(fd, f->answer, ANSWER_BYTES));
		assert_int_equal(memcmp(f->answer, "hi", 2), 0);
		assert_int_equal(memcmp(f->answer + 2, first.ptr, first.len), 0);
		assert_string_equal(f->answer + 2 + first.len, "bye");
		fd_close(&fd);
	}
	const char *lines = lab_recorded(&f->world);
	assert_int_equal(count_of(lines, "\"status_code\":\"allow.rule\""), 1);
	assert_int_equal(count_of(lines, "\"status_code\":\"allow.splice\""), 1);
	assert_non_null(strstr(lines, "\"bytes_in\":9,\"bytes_out\":4"));
}

static void what_cant_be_recorded_reaches_nobody(void **state)
{
	static const char *const hosts[] = {"raw.test", "spliced.test"};
	struct fixture *f = *state;
	world_start(f, NULL, NULL);
	audit_ring_set_stalled(f->world.ring, true);
	for (size_t i = 0; i < array_size(hosts); i++) {
		int fd = tunnel_open(f, hosts[i]);
		assert_status(f, "503 deny.audit-full");
		fd_close(&fd);
	}
	assert_string_equal(origin_saw(f), "");
	audit_ring_set_stalled(f->world.ring, false);
	int fd = tunnel_open(f, "raw.test");
	assert_status(f, "200");
	fd_close(&fd);
	(void)lab_recorded(&f->world);
}

static void a_killed_worker_leaves_the_decision_and_no_connection(void **state)
{
	struct fixture *f = *state;
	world_start(f, NULL, "worker-decision");
	int fd = tunnel_open(f, "raw.test");
	fd_close(&fd);
	assert_int_equal(lab_reap(f->world.worker), 128 + SIGKILL);
	assert_string_equal(origin_saw(f), "");
	const char *line = lab_open_decision(&f->world);
	assert_non_null(line);
	assert_non_null(strstr(line, "\"status_code\":\"allow.rule\""));
	assert_non_null(strstr(line, "\"class_uid\":4001"));
}

static void the_end_of_a_sandbox_cuts_what_passes(void **state)
{
	struct fixture *f = *state;
	world_start(f, NULL, NULL);
	int fd = tunnel_open(f, "raw.test");
	assert_int_equal(file_write_all(fd, SLICE("ping\r\n")), 0);
	char heard[8];
	assert_int_equal(recv(fd, heard, sizeof(heard), MSG_WAITALL), sizeof(heard));
	struct message_sandbox m = {
		.header.kind = MESSAGE_SANDBOX_REMOVE, .address = {4, {127, 0, 0, 1}}};
	assert_int_equal(channel_send(f->world.super_fd, &m, sizeof(m), NULL, 0), 0);
	assert_false(lab_drain(fd, f->answer, ANSWER_BYTES));
	fd_close(&fd);
	origin_wait(f, "r");
	const char *lines = lab_recorded(&f->world);
	assert_non_null(strstr(lines, "cut: the sandbox has ended"));
	assert_non_null(strstr(lines, "\"bytes_in\":8,\"bytes_out\":6"));
}

static void a_slow_reader_slows_the_writer(void **state)
{
	static char block[1 << 16];
	struct fixture *f = *state;
	size_t sent = 0;
	world_start(f, "linger_ms=200", NULL);
	int fd = tunnel_open(f, "raw.test"); /* reads nothing of what comes back */
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	for (;;) {
		ssize_t n = write(fd, block, sizeof(block));
		if (n < 0 && poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 300) == 0)
			break;
		sent += n > 0 ? (size_t)n : 0;
		assert_true(sent < FLOOD_BYTES);
	}
	fd_close(&fd); /* with bytes unread: a reset */
	origin_wait(f, "r");
	assert_int_equal(count_of(lab_recorded(&f->world), "the client went away"), 1);
}

static void tunnels_leave_nothing_behind(void **state)
{
	struct fixture *f = *state;
	int fds[TUNNELS];
	world_start(f, NULL, NULL);
	size_t before = worker_descriptors(f);
	for (size_t i = 0; i < TUNNELS; i++) {
		char heard[6];
		fds[i] = tunnel_open(f, "raw.test");
		assert_int_equal(file_write_all(fds[i], SLICE("ab\r\n")), 0);
		assert_int_equal(recv(fds[i], heard, sizeof(heard), MSG_WAITALL), 6);
	}
	/* Two sockets each; pipes are where bytes are, and nowhere else. */
	assert_in_range(worker_descriptors(f), before + 2 * TUNNELS, before + 2 * TUNNELS + 4);
	for (size_t i = 0; i < TUNNELS; i++) {
		if (i % 2 == 0)
			assert_int_equal(shutdown(fds[i], SHUT_WR), 0);
		if (i % 2 == 0)
			(void)lab_drain(fds[i], f->answer, ANSWER_BYTES);
		fd_close(&fds[i]);
	}
	for (int i = 0; i < 1000 && worker_descriptors(f) > before + 4; i++)
		(void)poll(NULL, 0, 5);
	assert_in_range(worker_descriptors(f), before, before + 4);
	assert_int_equal(
		count_of(lab_recorded(&f->world), "\"status_code\":\"allow.rule\""), TUNNELS);
}

/** As with a listener that a dead worker left to its successor. */
static void who_comes_before_the_sandboxes_are_known_waits(void **state)
{
	struct fixture *f = *state;
	char answer[64] = "";
	struct lab_options o = {
		.rules = f->rule_list, .rule_count = RULES, .hosts = "127.0.0.1 raw.test\n"};
	lab_begin(&f->world, &o);
	int early = lab_connect(&f->world);
	assert_int_equal(file_write_all(early, SLICE("CONNECT no.test:443 HTTP/1.1\r\n\r\n")), 0);
	lab_add_sandbox(&f->world);
	assert_int_equal(recv(early, answer, 12, MSG_WAITALL), 12);
	assert_string_equal(answer, "HTTP/1.1 403");
	fd_close(&early);
}

static void what_passes_ends_when_its_rule_expires(void **state)
{
	struct fixture *f = *state;
	struct lab_options o = {.rules = f->rule_list,
		.rule_count = RULES,
		.hosts = "127.0.0.1 raw.test\n",
		.expires_in_ms = 1500};
	lab_start(&f->world, &o);
	int fd = tunnel_open(f, "raw.test");
	assert_status(f, "200");
	assert_int_equal(file_write_all(fd, SLICE("hello\n")), 0);
	char heard[64];
	while (recv(fd, heard, sizeof(heard), 0) > 0)
		continue; /* until it is cut */
	fd_close(&fd);
	int late = tunnel_open(f, "raw.test");
	assert_non_null(strstr(f->answer, " deny.expired raw.test"));
	fd_close(&late);
	assert_int_equal(count_of(lab_recorded(&f->world), "\"status_code\":\"deny.expired\""), 2);
}

static void a_connection_is_a_use_of_its_rule(void **state)
{
	struct fixture *f = *state;
	world_start(f, NULL, NULL);
	int first = tunnel_open(f, "once.test");
	assert_status(f, "200");
	int second = tunnel_open(f, "once.test");
	assert_non_null(strstr(f->answer, " deny.limit once.test"));
	fd_close(&second);
	assert_int_equal(shutdown(first, SHUT_WR), 0);
	assert_true(lab_drain(first, f->answer, ANSWER_BYTES));
	fd_close(&first);
	int third = tunnel_open(f, "once.test");
	assert_status(f, "200");
	fd_close(&third);
	origin_wait(f, "c");
	assert_int_equal(count_of(lab_recorded(&f->world), "\"status_code\":\"deny.limit\""), 1);
}

#define FLOW_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FLOW_TEST(a_tunnel_passes_both_ways_and_ends_by_halves),
		FLOW_TEST(what_cant_be_recorded_reaches_nobody),
		FLOW_TEST(a_killed_worker_leaves_the_decision_and_no_connection),
		FLOW_TEST(the_end_of_a_sandbox_cuts_what_passes),
		FLOW_TEST(a_slow_reader_slows_the_writer),
		FLOW_TEST(tunnels_leave_nothing_behind),
		FLOW_TEST(who_comes_before_the_sandboxes_are_known_waits),
		FLOW_TEST(what_passes_ends_when_its_rule_expires),
		FLOW_TEST(a_connection_is_a_use_of_its_rule),
	};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGPIPE, &ignore, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
