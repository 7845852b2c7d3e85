/*
 * A host that is asked for by CONNECT and one that is connected to, whose address the sandbox knows: the same verdict. Names that policy
 * denies have no address here because DNS gives none; one may still have it from a policy before. In a network namespace
 * of its own, where all addresses that stand for names are its own.
 */
#include "tests/unit/flow_lab.h"

#include "proxy/synthetic.h"

#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define RULES        4
#define ANSWER_BYTES 16384
#define SANDBOX      0 /* the first one's number */

struct fixture {
	char rules[RULES][96];
	const char *rule_list[RULES];
	int transparent, origin;
	uint16_t port; /* of the transparent listener and the origin, and so of every host */
	struct lab_world world;
	char answer[ANSWER_BYTES];
};

static void address_add(int fd, const char *interface, uint32_t address, uint32_t mask)
{
	struct ifreq request = {0};
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
	(void)snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", interface);
	memcpy(&request.ifr_addr, &sa, sizeof(sa));
	assert_int_equal(ioctl(fd, SIOCSIFADDR, &request), 0);
	sa.sin_addr.s_addr = htonl(mask);
	memcpy(&request.ifr_netmask, &sa, sizeof(sa));
	assert_int_equal(ioctl(fd, SIOCSIFNETMASK, &request), 0);
	request.ifr_flags = IFF_UP;
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &request), 0);
}

/** @port 0: any. */
static int listen_at(uint32_t address, uint16_t port)
{
	struct sockaddr_in sa = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(address), .sin_port = htons(port)};
	int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

static int fixture_open(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct sockaddr_in sa;
	socklen_t len = sizeof(sa);
	assert_non_null(f);
	*state = f;
	f->transparent = f->origin = -1;
	if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) < 0)
		return 0; /* told by the test */
	auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	address_add(fd, "lo", INADDR_LOOPBACK, 0xff000000);
	address_add(fd, "lo:names", 0xc6120001, 0xfffe0000); /* 198.18.0.0/15 */
	f->transparent = listen_at(INADDR_ANY, 0);
	assert_int_equal(getsockname(f->transparent, (struct sockaddr *)&sa, &len), 0);
	f->port = ntohs(sa.sin_port);
	f->origin = listen_at(INADDR_LOOPBACK + 1, f->port);
	return 0;
}

static int fixture_close(void **state)
{
	struct fixture *f = *state;
	fd_close(&f->transparent);
	fd_close(&f->origin);
	free(f);
	return 0;
}

static void world_start(struct fixture *f)
{
	static const char *const formats[RULES] = {
		"allowed.test:%u GET /yes/** addr=127.0.0.0/8 scheme=http",
		"noaddr.test:%u GET /** scheme=http",
		"other-port.test:9 GET /** addr=127.0.0.0/8",
		"*.wild.test:%u GET /** addr=127.0.0.0/8 scheme=http",
	};
	for (size_t i = 0; i < RULES; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)snprintf(f->rules[i], sizeof(f->rules[i]), formats[i], f->port);
#pragma GCC diagnostic pop
		f->rule_list[i] = f->rules[i];
	}
	struct lab_options o = {.rules = f->rule_list,
		.rule_count = RULES,
		.hosts = "127.0.0.2 allowed.test noaddr.test other-port.test spliced.test "
			 "denied.test wild.test a.wild.test spent.test\n",
		.transparent_fd = f->transparent,
		.limits = "linger_ms=200"};
	lab_start(&f->world, &o);
}

/** A connection to the address that stands for the name in the sandbox. */
static int connect_to(struct fixture *f, const char *name)
{
	struct synthetic *table = synthetic_open(f->world.synthetic_fd);
	struct host host;
	struct address address;
	struct timeval limit = {.tv_sec = 10};
	struct sockaddr_in from = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(f->port)};
	assert_int_equal(host_parse(slice_of(name), &host), 0);
	(void)synthetic_give(table, SANDBOX, &host, &address); /* it may have one */
	synthetic_close(table);
	memcpy(&to.sin_addr, address.bytes, sizeof(to.sin_addr));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/** What comes back for it until the end. */
static const char *say(struct fixture *f, int fd, struct slice text)
{
	assert_int_equal(file_write_all(fd, text), 0);
	(void)lab_drain(fd, f->answer, sizeof(f->answer));
	fd_close(&fd);
	return f->answer;
}

static const char *request_of(const struct fixture *f, const char *host, const char *path)
{
	static char text[512];
	(void)snprintf(text, sizeof(text),
		"GET %s HTTP/1.1\r\nHost: %s:%u\r\nConnection: close\r\n\r\n", path, host, f->port);
	return text;
}

/** By CONNECT. @return the socket, and what it said in f->answer. */
static int ask_connect(struct fixture *f, const char *host)
{
	char text[256];
	int fd = lab_connect(&f->world);
	(void)snprintf(text, sizeof(text), "CONNECT %s:%u HTTP/1.1\r\n\r\n", host, f->port);
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
	ssize_t len = read(fd, f->answer, sizeof(f->answer) - 1);
	assert_true(len > 0);
	f->answer[len] = '\0';
	return fd;
}

/** A way to the host by each door, which is open. */
static int open_door(struct fixture *f, const char *host, bool captured)
{
	if (captured)
		return connect_to(f, host);
	int fd = ask_connect(f, host);
	assert_says(f->answer, "HTTP/1.1 200");
	return fd;
}

/** Be the host to one connection. */
static void origin_answer(const struct fixture *f, char *heard, size_t capacity)
{
	struct pollfd p = {.fd = f->origin, .events = POLLIN};
	size_t len = 0;
	ssize_t n = 1;
	assert_int_equal(poll(&p, 1, 10000), 1);
	auto_fd fd = accept(f->origin, NULL, NULL);
	assert_true(fd >= 0);
	for (heard[0] = '\0'; n > 0 && strstr(heard, "\r\n\r\n") == NULL;) {
		n = read(fd, heard + len, capacity - 1 - len);
		len += n > 0 ? (size_t)n : 0;
		heard[len] = '\0';
	}
	assert_int_equal(file_write_all(fd,
				 SLICE("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
				       "Connection: close\r\n\r\nok")),
		0);
}

/** Nobody has come to the host, or by CONNECT, without a word. */
static void assert_origin_heard_nothing(const struct fixture *f)
{
	struct pollfd p = {.fd = f->origin, .events = POLLIN};
	while (poll(&p, 1, 0) == 1) {
		char byte;
		auto_fd fd = accept(f->origin, NULL, NULL);
		assert_true(fd >= 0);
		assert_true(read(fd, &byte, 1) <= 0);
	}
}

/** The events that have @what in them have this reason, and are so many. */
static void assert_same(const char *lines, const char *what, const char *reason, size_t times)
{
	char code[64];
	size_t found = 0;
	(void)snprintf(code, sizeof(code), "\"status_code\":\"%s\"", reason);
	for (const char *at = lines; *at != '\0';) {
		size_t len = strcspn(at, "\n");
		if (memmem(at, len, what, strlen(what)) != NULL) {
			found++;
			if (memmem(at, len, code, strlen(code)) == NULL)
				fail_msg("%s is not %s: %.*s", what, reason, (int)len, at);
		}
		at += len + (at[len] == '\n');
	}
	if (found != times)
		fail_msg("%zu times %s, not %zu: %s", found, what, times, lines);
}

static void a_denied_name_is_denied_alike_by_both_doors(void **state)
{
	static const struct {
		const char *host, *what, *reason;
		size_t times;
	} all[] = {
		{"denied.test", "\"hostname\":\"denied.test\"", "deny.default", 3},
		{"wild.test", "\"hostname\":\"wild.test\"", "deny.default", 3},
		{"other-port.test", "\"hostname\":\"other-port.test\"", "deny.port", 3},
		{"noaddr.test", "\"hostname\":\"noaddr.test\"", "deny.address-private", 2},
	};
	static const char alert[] = {21, 3, 3, 0, 2, 2, 49};
	static const char hello[] = {22, 3, 1, 0, 4, 1, 0, 0, 0};
	struct fixture *f = *state;
	if (f->origin < 0)
		skip();
	world_start(f);
	for (size_t i = 0; i < array_size(all); i++) {
		auto_fd fd = ask_connect(f, all[i].host);
		assert_true(fd >= 0);
		assert_says(f->answer, "HTTP/1.1 403");
		assert_says(f->answer, all[i].reason);
		assert_says(say(f, connect_to(f, all[i].host),
				    slice_of(request_of(f, all[i].host, "/"))),
			"HTTP/1.1 403");
		assert_says(f->answer, all[i].reason);
		if (all[i].times < 3)
			continue; /* a rule for http: TLS is refused for that */
		(void)say(f, connect_to(f, all[i].host), (struct slice){hello, sizeof(hello)});
		assert_memory_equal(f->answer, alert, sizeof(alert));
	}
	assert_origin_heard_nothing(f);
	const char *lines = lab_recorded(&f->world);
	for (size_t i = 0; i < array_size(all); i++)
		assert_same(lines, all[i].what, all[i].reason, all[i].times);
	world_free(&f->world);
}

static void a_request_is_judged_alike_by_both_doors(void **state)
{
	static const struct {
		const char *host, *path, *what, *reason;
	} all[] = {
		{"allowed.test", "/no", "\"path\":\"/no\"", "deny.path"},
	};
	struct fixture *f = *state;
	char heard[512];
	if (f->origin < 0)
		skip();
	world_start(f);
	for (size_t i = 0; i < array_size(all) * 2; i++) {
		bool captured = i % 2 == 1;
		int fd = open_door(f, all[i / 2].host, captured);
		(void)say(f, fd, slice_of(request_of(f, all[i / 2].host, all[i / 2].path)));
		assert_says(f->answer, "HTTP/1.1 403");
		assert_says(f->answer, all[i / 2].reason);
	}
	assert_origin_heard_nothing(f);
	for (int captured = 0; captured < 2; captured++) {
		int fd = open_door(f, "allowed.test", captured == 1);
		assert_int_equal(
			file_write_all(fd, slice_of(request_of(f, "allowed.test", "/yes/it"))), 0);
		origin_answer(f, heard, sizeof(heard));
		assert_says(heard, "GET /yes/it HTTP/1.1\r\nHost: allowed.test");
		assert_says(say(f, fd, (struct slice){0}), "HTTP/1.1 200 OK");
	}
	const char *lines = lab_recorded(&f->world);
	for (size_t i = 0; i < array_size(all); i++)
		assert_same(lines, all[i].what, all[i].reason, 2);
	assert_same(lines, "\"path\":\"/yes/it\"", "allow.rule", 2);
	world_free(&f->world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_denied_name_is_denied_alike_by_both_doors),
		cmocka_unit_test(a_request_is_judged_alike_by_both_doors),
	};
	return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
