/*
 * Budgets where bytes flow: a real worker, a client and an origin over plain HTTP. What a refusal or a cut looks like to the
 * client, how much the origin heard, and what was recorded.
 */
#include "tests/unit/flow_origin.h"

#include <poll.h>

#define ANSWER_BYTES (4u << 20)
#define RULES        2
#define CYCLES       1000

struct fixture {
	struct origin origin;
	char rules[RULES][160];
	const char *rule_list[RULES];
	struct lab_world world;
	char answer[ANSWER_BYTES];
};

static int fixture_open(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	assert_non_null(f);
	origin_start(&f->origin, NULL);
	*state = f;
	return 0;
}

static int fixture_close(void **state)
{
	struct fixture *f = *state;
	world_free(&f->world);
	origin_stop(&f->origin);
	free(f);
	return 0;
}

/** Begin with a rule for origin.test that has these attributes, and one without any for other.test. */
static void world_start(struct fixture *f, const char *attributes)
{
	static const char *const hosts[RULES] = {"origin.test", "other.test"};
	for (size_t i = 0; i < RULES; i++) {
		(void)snprintf(f->rules[i], sizeof(f->rules[i]),
			"%s:%u GET,POST,HEAD /** addr=127.0.0.0/8 scheme=http req-body=1m %s",
			hosts[i], f->origin.port, i == 0 ? attributes : "");
		f->rule_list[i] = f->rules[i];
	}
	struct lab_options o = {.rules = f->rule_list,
		.rule_count = RULES,
		.hosts = "127.0.0.1 origin.test other.test\n",
		.limits = "linger_ms=200"};
	lab_start(&f->world, &o);
}

/** "METHOD PATH" of a host with these other lines. */
static const char *request_of(
	const struct fixture *f, const char *host, const char *line, const char *fields)
{
	static char text[32768];
	size_t method = strcspn(line, " ");
	(void)snprintf(text, sizeof(text), "%.*s http://%s:%u%s HTTP/1.1\r\nHost: %s:%u\r\n%s\r\n",
		(int)method, line, host, f->origin.port, line + method + 1, host, f->origin.port,
		fields);
	return text;
}

static void say(int fd, const char *text)
{
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
}

/** One request on a connection of its own, and all that comes back. */
static const char *ask(struct fixture *f, const char *host, const char *line)
{
	int fd = lab_connect(&f->world);
	say(fd, request_of(f, host, line, "Connection: close\r\n"));
	(void)lab_drain(fd, f->answer, ANSWER_BYTES);
	fd_close(&fd);
	return f->answer;
}

static void wait_until_heard(const struct fixture *f, const char *what)
{
	while (strstr(origin_heard(&f->origin), what) == NULL)
		(void)poll(NULL, 0, 2);
}

/** How much the origin got of heads; of several at once it writes the bytes down mixed. */
static size_t heads_heard(const struct fixture *f)
{
	const char *heard = origin_heard(&f->origin);
	return strlen(heard) - count_of(heard, "<connection>") * strlen("<connection>\n");
}

/** The number behind a key in the last line that holds @what. */
static uint64_t number_in(const char *lines, const char *what, const char *key)
{
	const char *line = NULL;
	for (const char *at = strstr(lines, what); at != NULL; at = strstr(at + 1, what))
		line = at;
	assert_non_null(line);
	while (line > lines && line[-1] != '\n')
		line--;
	const char *at = strstr(line, key);
	assert_true(at != NULL && at < strchr(line, '\n'));
	at += strlen(key);
	uint64_t number = 0;
	assert_int_equal(slice_decimal((struct slice){at, strspn(at, "0123456789")}, UINT64_MAX / 2,
				 false, &number),
		0);
	return number;
}

/* --- bytes up --- */

static void an_upload_is_cut_where_its_budget_ends(void **state)
{
	struct fixture *f = *state;
	static char chunk[16384 + 16];
	world_start(f, "up=40000");
	int fd = lab_connect(&f->world);
	say(fd, request_of(f, "origin.test", "POST /p", "Transfer-Encoding: chunked\r\n"));
	memset(chunk, 'x', sizeof(chunk));
	memcpy(chunk, "4000\r\n", 6);
	memcpy(chunk + 6 + 16384, "\r\n", 2);
	for (int i = 0; i < 3; i++) {
		(void)file_write_all(fd, (struct slice){chunk, 6 + 16384 + 2}); /* may be cut */
		if (i == 0)
			wait_until_heard(f,
				"POST /p"); /* else all may be judged at once, before a byte leaves */
	}
	(void)file_write_all(fd, SLICE("0\r\n\r\n"));
	(void)lab_drain(fd, f->answer, ANSWER_BYTES);
	fd_close(&fd);
	assert_says(f->answer, "HTTP/1.1 403 deny.budget origin.test\r\n");
	assert_says(f->answer, "\"budget\":{\"limit\":\"up\",\"allowed\":40000,\"used\":");
	assert_says(f->answer, "\"hint\":\"a larger up= on the rule");
	assert_says(f->answer, "\"place\":\"--allow:1\"");
	assert_says_not(f->answer, "200 OK");
	assert_says(ask(f, "origin.test", "GET /after"), "200 OK"); /* what is left is left */
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "deny.budget", 1);
	assert_in_range(number_in(lines, "deny.budget", "\"bytes_out\":"), 1, 40000);
}

static void a_body_too_long_for_the_budget_is_refused_before_a_byte(void **state)
{
	struct fixture *f = *state;
	world_start(f, "up=10000");
	int fd = lab_connect(&f->world);
	say(fd,
		request_of(f, "origin.test", "POST /p",
			"Content-Length: 9990\r\nExpect: 100-continue\r\n"));
	(void)lab_drain(fd, f->answer, ANSWER_BYTES);
	fd_close(&fd);
	assert_says(f->answer, "HTTP/1.1 403 deny.budget");
	assert_says_not(f->answer, "100 Continue");
	assert_string_equal(origin_heard(&f->origin), "");
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "deny.budget", 1);
	assert_says(lines, "of which 0 are used and ");
}

static void queries_do_not_carry_more_than_the_budget(void **state)
{
	struct fixture *f = *state;
	static char line[9000];
	size_t passed = 0;
	world_start(f, "up=100000");
	(void)snprintf(line, sizeof(line), "GET /q?%08000u", 7U);
	for (int i = 0; i < 20; i++)
		passed += count_of(ask(f, "origin.test", line), "200 OK");
	assert_in_range(passed, 11, 12);
	assert_says(f->answer, "403 deny.budget");
	assert_int_equal(count_of(origin_heard(&f->origin), "GET /q?"), passed);
	assert_true(heads_heard(f) <= 100000);
	assert_says(ask(f, "other.test", "GET /"), "200 OK"); /* another rule, another budget */
	assert_recorded(lab_recorded(&f->world), "deny.budget", 20 - passed);
}

/** Heads that were judged while there was room, and wait for an upstream, do not share it. */
static void requests_at_once_do_not_pass_together_what_none_may_alone(void **state)
{
	struct fixture *f = *state;
	static char line[9000];
	int fds[20];
	size_t passed = 0;
	world_start(f, "up=50000");
	(void)snprintf(line, sizeof(line), "GET /q?%08000u", 7U);
	for (size_t i = 0; i < array_size(fds); i++)
		fds[i] = lab_connect(&f->world);
	for (size_t i = 0; i < array_size(fds); i++)
		say(fds[i], request_of(f, "origin.test", line, "Connection: close\r\n"));
	for (size_t i = 0; i < array_size(fds); i++) {
		(void)lab_drain(fds[i], f->answer, ANSWER_BYTES);
		passed += count_of(f->answer, "200 OK");
		fd_close(&fds[i]);
	}
	assert_in_range(passed, 5, 6);
	assert_true(heads_heard(f) <= 50000);
	assert_recorded(lab_recorded(&f->world), "deny.budget", array_size(fds) - passed);
}

/* --- bytes down --- */

static void a_download_too_long_for_the_budget_is_refused(void **state)
{
	struct fixture *f = *state;
	world_start(f, "down=100k");
	assert_says(ask(f, "origin.test", "GET /big"), "HTTP/1.1 403 deny.budget origin.test");
	assert_says(f->answer, "\"budget\":{\"limit\":\"down\",\"allowed\":102400,\"used\":0");
	assert_says_not(f->answer, "xxxx");
	assert_says(ask(f, "origin.test", "HEAD /x"), "Content-Length: 1488324"); /* has no body */
	assert_recorded(lab_recorded(&f->world), "deny.budget", 1);
}

static void a_cut_download_never_looks_complete(void **state)
{
	struct fixture *f = *state;
	world_start(
		f, "down=145"); /* one answer of 73 bytes, and all of another but its last one */
	assert_says(ask(f, "origin.test", "GET /chunked"), "\r\n0\r\n\r\n");
	int fd = lab_connect(&f->world);
	say(fd, request_of(f, "origin.test", "GET /chunked", ""));
	assert_false(lab_drain(fd, f->answer, ANSWER_BYTES)); /* a reset */
	fd_close(&fd);
	assert_says_not(f->answer, "\r\n0\r\n");
	assert_says_not(f->answer, "deny"); /* no words into a body */
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "deny.budget", 1);
	assert_in_range(number_in(lines, "deny.budget", "\"bytes_in\":"), 0, 72);
	assert_says(lines, "bytes from the host, of which");
}

static void downloads_at_once_share_what_there_is(void **state)
{
	struct fixture *f = *state;
	int fds[3];
	size_t complete = 0, cut = 0;
	world_start(f, "down=2500000"); /* two of 1 MiB, and a part */
	for (size_t i = 0; i < array_size(fds); i++) {
		fds[i] = lab_connect(&f->world);
		say(fds[i], request_of(f, "origin.test", "GET /big", "Connection: close\r\n"));
	}
	for (size_t i = 0; i < array_size(fds); i++) {
		bool ended = lab_drain(fds[i], f->answer, ANSWER_BYTES);
		const char *body = strstr(f->answer, "\r\n\r\n");
		bool whole = body != NULL && strlen(body + 4) == ORIGIN_BIG_BYTES;
		complete += whole;
		cut += !whole && (!ended || strstr(f->answer, "403 deny.budget") != NULL);
		fd_close(&fds[i]);
	}
	assert_true(cut >= 1);
	/* Refused or reset: never a proper end that is short. */
	assert_int_equal(complete + cut, array_size(fds));
	assert_recorded(lab_recorded(&f->world), "deny.budget", cut);
}

/* --- counts and times --- */

static void a_rate_is_told_with_when_to_come_again(void **state)
{
	struct fixture *f = *state;
	world_start(f, "rate=2/h");
	assert_says(ask(f, "origin.test", "GET /1"), "200 OK");
	assert_says(ask(f, "origin.test", "GET /2"), "200 OK");
	assert_says(ask(f, "origin.test", "GET /3"), "HTTP/1.1 429 deny.rate origin.test\r\n");
	assert_says(f->answer, "Retry-After: 1800\r\n");
	assert_says(f->answer, "\"limit\":\"rate\"");
	assert_says_not(origin_heard(&f->origin), "/3");
	assert_recorded(lab_recorded(&f->world), "deny.rate", 1);
}

static void requests_of_a_window_and_uses_of_a_life_are_counted(void **state)
{
	struct fixture *f = *state;
	world_start(f, "requests=2 window=1h");
	int fd = lab_connect(&f->world); /* one behind the other, on one connection */
	say(fd, request_of(f, "origin.test", "GET /1", ""));
	say(fd, request_of(f, "origin.test", "GET /2", ""));
	say(fd, request_of(f, "origin.test", "GET /3", ""));
	(void)lab_drain(fd, f->answer, ANSWER_BYTES);
	fd_close(&fd);
	assert_int_equal(count_of(f->answer, "200 OK"), 2);
	assert_int_equal(count_of(f->answer, "403 deny.budget"), 1);
	assert_says(
		f->answer, "\"limit\":\"requests\",\"allowed\":2,\"used\":2,\"window_ms\":3600000");
	assert_says_not(origin_heard(&f->origin), "/3");
	assert_recorded(lab_recorded(&f->world), "deny.budget", 1);
}

/** What is sent once more on another connection was counted before. */
static void a_repeated_request_counts_once(void **state)
{
	struct fixture *f = *state;
	static char line[4000];
	world_start(f, "max-uses=4 requests=4 up=7000");
	(void)snprintf(line, sizeof(line), "GET /again?%03000u", 7U);
	for (int i = 0; i < 2; i++) {
		int fd = lab_connect(&f->world);
		say(fd, request_of(f, "origin.test", "GET /last", ""));
		wait_until_heard(f, "GET /last");
		say(fd, request_of(f, "origin.test", line, "Connection: close\r\n"));
		assert_true(lab_drain(fd, f->answer, ANSWER_BYTES));
		fd_close(&fd);
		assert_int_equal(count_of(f->answer, "200 OK"), 2);
	}
	assert_int_equal(count_of(origin_heard(&f->origin), "GET /again"), 4);
	assert_says(ask(f, "origin.test", "GET /5"), "503 deny.quota");
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "allow.rule", 4);
	assert_recorded(lines, "deny.quota", 1);
}

static void a_use_is_cut_when_its_time_is_over(void **state)
{
	struct fixture *f = *state;
	world_start(f, "time=1s");
	assert_says(ask(f, "origin.test", "GET /silent"), "HTTP/1.1 504 deny.limit");
	assert_says(f->answer, "\"limit\":\"time\",\"allowed\":1000");
	assert_says(ask(f, "origin.test", "GET /soon"), "200 OK");
	int fd = lab_connect(
		&f->world); /* keeps the host busy, byte by byte, and is not idle for long */
	say(fd, request_of(f, "origin.test", "POST /slow", "Transfer-Encoding: chunked\r\n"));
	for (int i = 0; i < 1000 && file_write_all(fd, SLICE("1\r\nx\r\n")) == 0; i++) {
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		if (poll(&wait, 1, 10) > 0)
			break;
	}
	(void)lab_drain(fd, f->answer, ANSWER_BYTES);
	assert_says(f->answer, "504 deny.limit");
	fd_close(&fd);
	assert_recorded(lab_recorded(&f->world), "deny.limit", 2);
}

static void uses_at_once_are_freed_however_they_end(void **state)
{
	struct fixture *f = *state;
	world_start(f, "conns=1");
	int fd = lab_connect(&f->world);
	say(fd, request_of(f, "origin.test", "GET /silent", ""));
	wait_until_heard(f, "GET /silent");
	assert_says(ask(f, "origin.test", "GET /second"), "503 deny.limit");
	assert_says(f->answer, "\"limit\":\"conns\",\"allowed\":1,\"used\":1");
	assert_says_not(origin_heard(&f->origin), "/second");
	assert_int_equal(file_write_all(f->origin.gate[1], SLICE("x")), 0);
	(void)lab_drain(fd, f->answer, ANSWER_BYTES);
	fd_close(&fd);
	for (int i = 0; i < CYCLES; i++) {
		struct linger now = {.l_onoff = 1};
		fd = lab_connect(&f->world);
		say(fd,
			request_of(f, "other.test", "GET /x",
				i % 2 == 0 ? "" : "Connection: close\r\n"));
		say(fd, request_of(f, "origin.test", "GET /x", ""));
		if (i % 3 == 0) /* some go away in the middle */
			(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		else
			(void)!read(fd, f->answer, ANSWER_BYTES); /* or a reset */
		fd_close(&fd);
		(void)lab_events(&f->world);
	}
	/* The last of them may still be on its way out. */
	for (int i = 0; i < 500 && strstr(ask(f, "origin.test", "GET /end"), "200 OK") == NULL; i++)
		(void)poll(NULL, 0, 10);
	assert_says(f->answer, "200 OK");
	(void)lab_recorded(&f->world);
}

static void observe_lets_pass_what_it_would_cut(void **state)
{
	struct fixture *f = *state;
	world_start(f, "mode=observe up=100 down=100 max-uses=1 time=10ms");
	for (int i = 0; i < 2; i++) {
		(void)ask(f, "origin.test", "GET /big");
		assert_says(f->answer, "200 OK");
		assert_true(strlen(f->answer) > ORIGIN_BIG_BYTES);
	}
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "observe.would-deny", 2);
	assert_says(lines, "deny.budget");
	assert_says(lines, "deny.quota");
}

#define SPEND_TEST(f) cmocka_unit_test_setup_teardown(f, fixture_open, fixture_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SPEND_TEST(an_upload_is_cut_where_its_budget_ends),
		SPEND_TEST(a_body_too_long_for_the_budget_is_refused_before_a_byte),
		SPEND_TEST(queries_do_not_carry_more_than_the_budget),
		SPEND_TEST(requests_at_once_do_not_pass_together_what_none_may_alone),
		SPEND_TEST(a_download_too_long_for_the_budget_is_refused),
		SPEND_TEST(a_cut_download_never_looks_complete),
		SPEND_TEST(downloads_at_once_share_what_there_is),
		SPEND_TEST(a_rate_is_told_with_when_to_come_again),
		SPEND_TEST(requests_of_a_window_and_uses_of_a_life_are_counted),
		SPEND_TEST(a_repeated_request_counts_once),
		SPEND_TEST(a_use_is_cut_when_its_time_is_over),
		SPEND_TEST(uses_at_once_are_freed_however_they_end),
		SPEND_TEST(observe_lets_pass_what_it_would_cut),
	};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	(void)sigaction(SIGPIPE, &ignore, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
