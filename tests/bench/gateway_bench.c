/*
 * The gateway and what is fair there: a round trip to the proxy with 1 and with 1,000 sandboxes registered, and the requests of
 * one sandbox while another one has 10,000 connections that are half a request or none at all, or half a handshake. A real gateway, worker and keeper; the
 * origin is plain, in the namespace that plays the host. `gateway_bench trip` or `gateway_bench fairness`.
 */
#include "tests/unit/flow_origin.h"
#include "tests/unit/half_open.h"

#include "common/privilege.h"
#include "netd/gateway.h"
#include "netd/link.h"
#include "netd/netns.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define SANDBOXES 1000
#define TRIPS     20000
#define REQUESTS  3000
#define ROUNDS    7
#define CROWD     10000
#define FDS       20000

struct tenant {
	struct address_slot slot;
	int namespace_fd;
};

struct bench {
	int home_fd;
	struct gateway *gateway;
	struct tenant tenants[SANDBOXES];
	struct origin origin;
	struct lab_world world;
};

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return x < y ? -1 : x > y;
}

static struct tenant add_tenant(struct gateway *g)
{
	struct tenant t;
	struct failure why = {0};
	if (gateway_add_sandbox(g, &t.slot, &t.namespace_fd, &why) < 0)
		fail_msg("%s", why.text);
	return t;
}

static void bench_open(struct bench *b)
{
	struct failure why = {0};
	struct link *links = NULL;
	struct rlimit fds = {FDS, FDS};
	const struct gateway_options options = {.workers = 1};
	(void)setrlimit(RLIMIT_NOFILE, &fds); /* without it the crowd is smaller, and says so */
	if (geteuid() != 0)
		assert_int_equal(privilege_enter_user_namespace(), 0);
	b->home_fd = netns_create();
	assert_true(b->home_fd >= 0);
	assert_int_equal(link_open(&links, &why), 0);
	assert_int_equal(link_set_up(links, LINK_LOOPBACK_INDEX, &why), 0);
	link_close(links);
	if (gateway_open(&options, &b->gateway, &why) < 0)
		fail_msg("%s", why.text);
}

/** In a child that is in the tenant's namespace: a connection to the service. */
static int knock(int flags)
{
	const struct address service = address_plan_service();
	struct sockaddr_storage where;
	socklen_t len = address_to_sockaddr(&service, ADDRESS_PLAN_EXPLICIT_PORT, &where);
	int on = 1;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	if (fd < 0)
		return -1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, (struct sockaddr *)&where, len) < 0 && errno != EINPROGRESS) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

/* --- round trips --- */

/** Median of TRIPS round trips of a byte, in ns; @listener is served by this process. */
static uint32_t trip(const struct tenant *t, int listener)
{
	static uint32_t took[TRIPS];
	int ends[2];
	char byte = 'x';
	uint32_t median = 0;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		lab_child();
		if (netns_enter(t->namespace_fd) < 0)
			_exit(1);
		int fd = knock(0);
		for (size_t i = 0; i < TRIPS; i++) {
			uint64_t from = clock_monotonic_ns();
			if (send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || recv(fd, &byte, 1, 0) != 1)
				_exit(2);
			took[i] = (uint32_t)(clock_monotonic_ns() - from);
		}
		qsort(took, TRIPS, sizeof(took[0]), compare);
		_exit(write(ends[1], &took[TRIPS / 2], sizeof(took[0])) < 0);
	}
	struct pollfd wait = {.fd = listener, .events = POLLIN};
	assert_int_equal(poll(&wait, 1, 10000), 1);
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	int on = 1;
	assert_true(fd >= 0);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	while (recv(fd, &byte, 1, 0) == 1)
		(void)send(fd, &byte, 1, MSG_NOSIGNAL);
	fd_close(&fd);
	assert_int_equal(read(ends[0], &median, sizeof(median)), (ssize_t)sizeof(median));
	(void)waitpid(pid, NULL, 0);
	fd_close(&ends[0]);
	fd_close(&ends[1]);
	return median;
}

static void bench_trip(struct bench *b)
{
	unsigned workers;
	const int *listeners = gateway_listeners(b->gateway, LISTENER_EXPLICIT, &workers);
	b->tenants[0] = add_tenant(b->gateway);
	uint32_t one = trip(&b->tenants[0], listeners[0]);
	for (size_t i = 1; i < SANDBOXES; i++)
		b->tenants[i] = add_tenant(b->gateway);
	uint32_t first = trip(&b->tenants[0], listeners[0]);
	uint32_t last = trip(&b->tenants[SANDBOXES - 1], listeners[0]);
	(void)printf("round trip through the gateway, median of %d\n", TRIPS);
	(void)printf("  1 sandbox                     %6.1f us\n", one / 1000.0);
	(void)printf("  %d sandboxes, the first     %6.1f us   %.2fx\n", SANDBOXES, first / 1000.0,
		(double)first / one);
	(void)printf("  %d sandboxes, the last      %6.1f us   %.2fx\n", SANDBOXES, last / 1000.0,
		(double)last / one);
}

/* --- fairness --- */

struct latency {
	uint32_t p50, p99;
};

static void read_answer(int fd)
{
	char text[4096];
	size_t len = 0;
	while (len < sizeof(text) - 1) {
		ssize_t n = recv(fd, text + len, sizeof(text) - 1 - len, 0);
		if (n <= 0) {
			(void)fprintf(
				stderr, "the proxy ended the connection: %.*s\n", (int)len, text);
			_exit(3);
		}
		len += (size_t)n;
		text[len] = '\0';
		if (slice_ends((struct slice){text, len}, SLICE("body 0000")))
			return;
	}
	_exit(4);
}

/** REQUESTS on one connection of the tenant, one after the other. */
static void ask(const struct tenant *t, uint16_t port, int result)
{
	static uint32_t took[REQUESTS];
	char text[256];
	int len = snprintf(text, sizeof(text),
		"GET http://origin.test:%u/x HTTP/1.1\r\nHost: origin.test:%u\r\n\r\n", port, port);
	if (netns_enter(t->namespace_fd) < 0)
		_exit(1);
	int fd = knock(0);
	for (size_t i = 0; i < REQUESTS; i++) {
		uint64_t from = clock_monotonic_ns();
		if (send(fd, text, (size_t)len, MSG_NOSIGNAL) != len)
			_exit(2);
		read_answer(fd);
		took[i] = (uint32_t)(clock_monotonic_ns() - from);
	}
	qsort(took, REQUESTS, sizeof(took[0]), compare);
	const struct latency l = {took[REQUESTS / 2], took[REQUESTS / 100 * 99]};
	_exit(write(result, &l, sizeof(l)) < 0);
}

/** A connection with half a request, or with nothing. */
static void park(int *fd, bool half)
{
	*fd = knock(SOCK_NONBLOCK);
	if (*fd < 0 || !half)
		return;
	struct pollfd wait = {.fd = *fd, .events = POLLOUT};
	(void)poll(&wait, 1, 1000);
	(void)send(*fd, "GET http://", 11, MSG_NOSIGNAL); /* or it was reset */
}

static bool is_held(int fd)
{
	char byte;
	return fd >= 0 && recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/** What the other tenant has there. */
enum crowd_kind {
	CROWD_PARKED,
	CROWD_STORM,     /* those that ended come again, for ever */
	CROWD_HALF_OPEN, /* handshakes that never end */
};

static void half_open(const struct tenant *t, int ready)
{
	int fd = half_open_begin();
	uint32_t sent = fd < 0 ? 0 : half_open_send(fd, &t->slot, CROWD);
	if (write(ready, &sent, sizeof(sent)) < 0)
		_exit(1);
	for (;;)
		(void)pause();
}

/** CROWD connections of the tenant. */
static void crowd(const struct tenant *t, enum crowd_kind kind, int ready)
{
	static int fds[CROWD];
	uint32_t held = 0;
	if (netns_enter(t->namespace_fd) < 0)
		_exit(1);
	if (kind == CROWD_HALF_OPEN)
		half_open(t, ready);
	for (size_t i = 0; i < CROWD; i++)
		park(&fds[i], i % 2 == 0);
	for (size_t i = 0; i < CROWD; i++)
		held += is_held(fds[i]);
	if (write(ready, &held, sizeof(held)) < 0)
		_exit(1);
	while (kind != CROWD_STORM)
		(void)pause();
	for (size_t i = 0;; i = (i + 1) % CROWD) {
		if (is_held(fds[i]))
			continue;
		fd_close(&fds[i]);
		park(&fds[i], i % 2 == 0);
	}
}

/** Wait for a child's word of @len bytes and play recorder meanwhile: a log that is full would refuse everything. */
static void await(struct bench *b, int fd, void *ret, size_t len)
{
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	while (poll(&wait, 1, 1) == 0) {
		(void)lab_events(&b->world);
		buf_clear(&b->world.events);
	}
	assert_int_equal(read(fd, ret, len), (ssize_t)len);
}

static struct latency measure_once(struct bench *b, const struct tenant *t)
{
	struct latency l;
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		lab_child();
		ask(t, b->origin.port, ends[1]);
	}
	fd_close(&ends[1]);
	await(b, ends[0], &l, sizeof(l));
	(void)waitpid(pid, NULL, 0);
	fd_close(&ends[0]);
	return l;
}

/** The best of ROUNDS: other load of the machine makes the others worse. */
static struct latency measure(struct bench *b, const struct tenant *t)
{
	struct latency best = {UINT32_MAX, UINT32_MAX};
	for (int i = 0; i < ROUNDS; i++) {
		struct latency l = measure_once(b, t);
		best.p50 = l.p50 < best.p50 ? l.p50 : best.p50;
		best.p99 = l.p99 < best.p99 ? l.p99 : best.p99;
	}
	return best;
}

static pid_t start_crowd(const struct tenant *t, enum crowd_kind kind, int *ret_fd)
{
	int ends[2];
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		lab_child();
		crowd(t, kind, ends[1]);
	}
	fd_close(&ends[1]);
	*ret_fd = ends[0];
	return pid;
}

static void world_start(struct bench *b)
{
	static char rule[128];
	static const char *rules[] = {rule};
	unsigned workers;
	(void)snprintf(rule, sizeof(rule),
		"origin.test:%u GET /** addr=127.0.0.0/8 scheme=http up=64m", b->origin.port);
	struct lab_options o = {.rules = rules,
		.rule_count = 1,
		.hosts = "127.0.0.1 origin.test\n",
		.limits = "idle_ms=600000,header_ms=600000",
		.listener_fd = gateway_listeners(b->gateway, LISTENER_EXPLICIT, &workers)[0]};
	lab_begin(&b->world, &o);
	for (size_t i = 0; i < 2; i++) {
		struct message_sandbox m = {
			.header.kind = MESSAGE_SANDBOX_ADD, .address = b->tenants[i].slot.sandbox};
		struct message_sandbox added;
		(void)snprintf(m.sandbox_id, sizeof(m.sandbox_id), "sb-%zu", i);
		assert_int_equal(channel_send(b->world.super_fd, &m, sizeof(m), NULL, 0), 0);
		assert_int_equal(
			channel_receive_until(b->world.super_fd, clock_monotonic_ns() + LAB_WAIT_NS,
				&added, sizeof(added), NULL, 0, NULL),
			(int)sizeof(added));
	}
	const struct message_header serve = {.kind = MESSAGE_PROXY_SERVE};
	assert_int_equal(channel_send(b->world.super_fd, &serve, sizeof(serve), NULL, 0), 0);
}

static void print_latency(const char *what, struct latency l, struct latency alone)
{
	(void)printf("  %-34s p50 %7.1f us  p99 %7.1f us   %.2fx\n", what, l.p50 / 1000.0,
		l.p99 / 1000.0, (double)l.p99 / alone.p99);
}

/** With another tenant's crowd there, and once it is gone again. */
static struct latency measure_beside(struct bench *b, enum crowd_kind kind, uint32_t *ret_held)
{
	int ready;
	pid_t pid = start_crowd(&b->tenants[0], kind, &ready);
	await(b, ready, ret_held, sizeof(*ret_held));
	struct latency l = measure(b, &b->tenants[1]);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	fd_close(&ready);
	return l;
}

static void bench_fairness(struct bench *b)
{
	uint32_t held;
	for (size_t i = 0; i < 2; i++)
		b->tenants[i] = add_tenant(b->gateway);
	assert_int_equal(netns_enter(b->home_fd), 0);
	origin_start(&b->origin, NULL);
	world_start(b);
	(void)measure_once(b, &b->tenants[1]); /* warm */
	struct latency alone = measure(b, &b->tenants[1]);
	struct latency parked = measure_beside(b, CROWD_PARKED, &held);
	struct latency storm = measure_beside(b, CROWD_STORM, &held);
	uint32_t sent;
	struct latency half = measure_beside(
		b, CROWD_HALF_OPEN, &sent); /* last: the tenant has no address after it */
	struct latency again = measure(b, &b->tenants[1]);
	(void)printf(
		"%d requests of one sandbox, best of %d rounds, beside %d connections of another (%u held)\n",
		REQUESTS, ROUNDS, CROWD, held);
	print_latency("alone", alone, alone);
	print_latency("while they are parked", parked, alone);
	print_latency("while they come again and again", storm, alone);
	if (sent == CROWD)
		print_latency("while half of handshakes wait", half, alone);
	print_latency("alone again", again, alone);
	world_free(&b->world);
	origin_stop(&b->origin);
}

int main(int argc, char **argv)
{
	static struct bench b;
	bool fairness = argc == 2 && strcmp(argv[1], "fairness") == 0;
	if (!fairness && (argc != 2 || strcmp(argv[1], "trip") != 0)) {
		(void)fprintf(stderr, "usage: gateway_bench trip|fairness\n");
		return 2;
	}
	bench_open(&b);
	if (fairness)
		bench_fairness(&b);
	else
		bench_trip(&b);
	gateway_close(b.gateway);
	return 0;
}
