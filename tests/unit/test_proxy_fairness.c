/*
 * What one sandbox can't take from another of the same worker: connections, handshakes, memory. The numbers are small here; with
 * large ones, and by the clock, it is measured by tests/bench/gateway_bench.c.
 */
#include "tests/unit/flow_origin.h"

#define ANSWER_BYTES 65536
#define CONNECTIONS  20
#define FLOOD        400
#define HANDSHAKES   5

struct fixture {
	struct lab ca, good;
	struct origin tls, plain;
	struct buf roots;
	char rules[2][128];
	const char *rule_list[2];
	struct lab_world world;
	char answer[ANSWER_BYTES];
};

static int fixture_open(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char *text;
	assert_non_null(f);
	f->ca = lab_make(NULL, &(struct wish){.common_name = "lab", .constraints = ""});
	f->good = lab_make(&f->ca, &(struct wish){.san = "DNS:origin.test"});
	BIO *bio = BIO_new(BIO_s_mem());
	assert_int_equal(PEM_write_bio_X509(bio, f->ca.certificate), 1);
	long len = BIO_get_mem_data(bio, &text);
	assert_int_equal(buf_append(&f->roots, (struct slice){text, (size_t)len}), 0);
	BIO_free(bio);
	origin_start(&f->tls, &f->good);
	origin_start(&f->plain, NULL);
	(void)snprintf(f->rules[0], sizeof(f->rules[0]), "origin.test:%u GET /** addr=127.0.0.0/8",
		f->tls.port);
	(void)snprintf(f->rules[1], sizeof(f->rules[1]),
		"origin.test:%u GET,POST /** addr=127.0.0.0/8 scheme=http", f->plain.port);
	f->rule_list[0] = f->rules[0];
	f->rule_list[1] = f->rules[1];
	*state = f;
	return 0;
}

static int fixture_close(void **state)
{
	struct fixture *f = *state;
	world_free(&f->world);
	origin_stop(&f->tls);
	origin_stop(&f->plain);
	lab_free(&f->ca);
	lab_free(&f->good);
	buf_fini(&f->roots);
	free(f);
	return 0;
}

/** Two sandboxes: 127.0.0.1 and 127.0.0.2. */
static void world_start(struct fixture *f, const char *limits)
{
	struct lab_options o = {.rules = f->rule_list,
		.rule_count = 2,
		.hosts = "127.0.0.1 origin.test\n",
		.origin_ca = buf_slice(&f->roots),
		.limits = limits};
	struct message_sandbox other = {.header.kind = MESSAGE_SANDBOX_ADD,
		.sandbox_id = "sb-other",
		.address = {4, {127, 0, 0, 2}}};
	struct message_sandbox added;
	lab_start(&f->world, &o);
	assert_int_equal(channel_send(f->world.super_fd, &other, sizeof(other), NULL, 0), 0);
	assert_int_equal(
		channel_receive_until(f->world.super_fd, clock_monotonic_ns() + LAB_WAIT_NS, &added,
			sizeof(added), NULL, 0, NULL),
		(int)sizeof(added));
	assert_int_equal(added.header.kind, MESSAGE_SANDBOX_ADDED);
}

/** A connection of sandbox 127.0.0.@last. */
static int connect_as(const struct fixture *f, uint32_t last)
{
	struct sockaddr_in own = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + last)};
	struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(f->world.port)};
	struct timeval limit = {.tv_sec = 10};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	return fd;
}

static void assert_served(struct fixture *f, uint32_t last)
{
	char text[256];
	int fd = connect_as(f, last);
	(void)snprintf(text, sizeof(text),
		"GET http://origin.test:%u/x HTTP/1.1\r\nHost: origin.test:%u\r\n"
		"Connection: close\r\n\r\n",
		f->plain.port, f->plain.port);
	assert_int_equal(file_write_all(fd, slice_of(text)), 0);
	(void)lab_drain(fd, f->answer, ANSWER_BYTES);
	assert_says(f->answer, "HTTP/1.1 200 OK\r\n");
	fd_close(&fd);
}

static void parked_connections_are_one_sandboxs_own(void **state)
{
	struct fixture *f = *state;
	int parked[CONNECTIONS];
	world_start(f, "connections=20");
	for (size_t i = 0; i < CONNECTIONS; i++) {
		parked[i] = connect_as(f, 1);
		assert_int_equal(file_write_all(parked[i], SLICE("GET ")), 0);
	}
	for (size_t i = 0; i < FLOOD; i++) { /* each of them ends, whatever the others do */
		int fd = connect_as(f, 1);
		(void)lab_drain(fd, f->answer, ANSWER_BYTES);
		if (f->answer[0] != '\0')
			assert_says(f->answer, "HTTP/1.1 503 deny.limit");
		fd_close(&fd);
		if (i % 50 == 0)
			assert_served(f, 2);
	}
	assert_served(f, 2);
	for (size_t i = 0; i < CONNECTIONS; i++)
		fd_close(&parked[i]);
	const char *lines = lab_recorded(&f->world);
	assert_recorded(lines, "deny.limit", FLOOD);
	assert_recorded(lines, "allow.rule", FLOOD / 50 + 1);
}

/** A tunnel whose client sends the start of a ClientHello. @return the first byte of what comes back, 0: nothing yet. */
static char begin_handshake(struct fixture *f, uint32_t last, int *ret_fd)
{
	static const char hello[] = "\x16\x03\x01\x02";
	char text[256];
	char byte = 0;
	*ret_fd = connect_as(f, last);
	(void)snprintf(text, sizeof(text),
		"CONNECT origin.test:%u HTTP/1.1\r\nHost: origin.test:%u\r\n\r\n", f->tls.port,
		f->tls.port);
	assert_int_equal(file_write_all(*ret_fd, slice_of(text)), 0);
	for (size_t ends = 0; ends < 4;) {
		assert_int_equal(read(*ret_fd, &byte, 1), 1);
		ends = byte == "\r\n\r\n"[ends] ? ends + 1 : 0;
	}
	assert_int_equal(file_write_all(*ret_fd, (struct slice){hello, sizeof(hello) - 1}), 0);
	assert_served(f, last); /* an exchange later the worker has read it */
	byte = 0;
	(void)recv(*ret_fd, &byte, 1, MSG_DONTWAIT);
	return byte;
}

static void handshakes_in_a_second_are_one_sandboxs_own(void **state)
{
	struct fixture *f = *state;
	int fds[2 * HANDSHAKES];
	size_t refused = 0;
	world_start(f, "handshakes=5");
	uint64_t from_ns = clock_monotonic_ns();
	for (size_t i = 0; i < 2 * HANDSHAKES; i++)
		refused += begin_handshake(f, 1, &fds[i]) == 21; /* an alert */
	uint64_t more = (clock_monotonic_ns() - from_ns) / (NS_PER_SEC / HANDSHAKES) + 1;
	assert_true(refused <= HANDSHAKES);
	assert_true(refused + more >= HANDSHAKES); /* a slow machine has time for some more */
	int fd;
	assert_int_equal(begin_handshake(f, 2, &fd), 0);
	fd_close(&fd);
	for (size_t i = 0; i < 2 * HANDSHAKES; i++)
		fd_close(&fds[i]);
	assert_recorded(lab_recorded(&f->world), "deny.limit", refused);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			parked_connections_are_one_sandboxs_own, fixture_open, fixture_close),
		cmocka_unit_test_setup_teardown(
			handshakes_in_a_second_are_one_sandboxs_own, fixture_open, fixture_close),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
