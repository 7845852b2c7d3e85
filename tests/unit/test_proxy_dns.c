/* The DNS server of a whole worker: datagrams and connections, limits, and what the log gets to know. */
#include "tests/unit/flow_lab.h"

#include "proxy/dns_message.h"
#include "proxy/limits.h"

#include <poll.h>
#include <stdarg.h>

#define ANSWER_BYTES 1500

static const char *const rules[] = {"allowed.test", "*.wild.test"};

static struct lab_world world;

static void begin(const char *limits)
{
	const struct lab_options options = {.rules = rules,
		.rule_count = array_size(rules),
		.hosts = "",
		.origin_ca = SLICE(""),
		.limits = limits,
		.dns = true};
	lab_start(&world, &options);
}

/** In order: what was noted is in the log by then. */
static void end(void)
{
	lab_finish(&world);
}

static void assert_logged(const char *first, ...)
{
	va_list list;
	va_start(list, first);
	struct slice all = buf_slice(&world.events), line;
	char text[AUDIT_LINE_BYTES_MAX];
	while (slice_split(all, '\n', &line, &all)) {
		assert_int_equal(slice_copy(line, text, sizeof(text)), 0);
		if (strstr(text, first) == NULL)
			continue;
		for (const char *what = va_arg(list, const char *); what != NULL;
			what = va_arg(list, const char *)) {
			if (strstr(text, what) == NULL)
				fail_msg("%s is not in %s", what, text);
		}
		va_end(list);
		return;
	}
	fail_msg("no event has %s", first);
}

static size_t count_logged(const char *what)
{
	size_t count = 0;
	(void)buf_append(&world.events, (struct slice){"", 1});
	for (const char *at = world.events.data; (at = strstr(at, what)) != NULL; at++)
		count++;
	buf_drop_end(&world.events, 1);
	return count;
}

/** A question for an address. @return its length. */
static size_t question(const char *name, uint16_t id, char *to)
{
	struct slice rest = slice_of(name), label;
	size_t len = 12;
	memcpy(to, "\0\0\x01\0\0\x01\0\0\0\0\0\0", len);
	to[0] = (char)(id >> 8);
	to[1] = (char)id;
	while (rest.len > 0) {
		if (!slice_split(rest, '.', &label, &rest)) {
			label = rest;
			rest.len = 0;
		}
		to[len++] = (char)label.len;
		memcpy(to + len, label.ptr, label.len);
		len += label.len;
	}
	memcpy(to + len, "\0\0\x01\0\x01", 5);
	return len + 5;
}

static int open_socket(int type, uint16_t port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return fd;
}

static int open_udp(void)
{
	return open_socket(SOCK_DGRAM, world.dns_udp_port);
}

static int open_tcp(void)
{
	return open_socket(SOCK_STREAM, world.dns_tcp_port);
}

static void send_all(int fd, const char *bytes, size_t len)
{
	assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, (int)(LAB_WAIT_NS / NS_PER_MS)) == 1;
}

static int rcode_of(const char *answer)
{
	return answer[3] & 0xf;
}

/** One datagram there and back. @return its rcode. */
static int ask_udp(int fd, const char *name)
{
	char out[512], in[ANSWER_BYTES];
	size_t len = question(name, 0x4711, out);
	send_all(fd, out, len);
	assert_true(readable(fd));
	ssize_t got = recv(fd, in, sizeof(in), 0);
	assert_true(got >= 12);
	assert_memory_equal(in, out, 2);
	return rcode_of(in);
}

/** Exactly so many bytes. @return false: the end came before. */
static bool read_exactly(int fd, char *to, size_t len)
{
	for (size_t have = 0; have < len;) {
		if (!readable(fd))
			fail_msg("nothing came");
		ssize_t n = recv(fd, to + have, len - have, 0);
		if (n <= 0)
			return false;
		have += (size_t)n;
	}
	return true;
}

/** @return its rcode; -1: the connection has ended. */
static int read_tcp(int fd, uint16_t id)
{
	char in[ANSWER_BYTES], length[2];
	if (!read_exactly(fd, length, 2))
		return -1;
	size_t len = (size_t)(uint8_t)length[0] << 8 | (uint8_t)length[1];
	assert_true(len >= 12 && len <= sizeof(in));
	assert_true(read_exactly(fd, in, len));
	assert_int_equal((uint8_t)in[0] << 8 | (uint8_t)in[1], id);
	return rcode_of(in);
}

static size_t framed(const char *name, uint16_t id, char *to)
{
	size_t len = question(name, id, to + 2);
	to[0] = (char)(len >> 8);
	to[1] = (char)len;
	return len + 2;
}

static void assert_ended(int fd)
{
	char byte;
	assert_true(readable(fd));
	assert_true(recv(fd, &byte, 1, 0) <= 0);
}

static void questions_are_answered_and_told(void **state)
{
	(void)state;
	begin(NULL);
	auto_fd udp = open_udp(), tcp = open_tcp();
	char out[512];
	assert_int_equal(ask_udp(udp, "allowed.test"), DNS_NOERROR);
	assert_int_equal(ask_udp(udp, "allowed.test"), DNS_NOERROR);
	assert_int_equal(ask_udp(udp, "denied.test"), DNS_NXDOMAIN);
	assert_int_equal(ask_udp(udp, "DENIED.test"), DNS_NXDOMAIN);
	send_all(tcp, out, framed("denied.test", 1, out));
	assert_int_equal(read_tcp(tcp, 1), DNS_NXDOMAIN);
	send_all(tcp, out, framed("other.test", 2, out));
	assert_int_equal(read_tcp(tcp, 2), DNS_NXDOMAIN);
	end();
	assert_logged("\"message\":\"allow.rule A allowed.test\"", "\"class_uid\":4003",
		"\"rdata\":\"198.18.0.1\"", "\"protocol_name\":\"udp\"", "\"uid\":\"--allow:1\"",
		"\"intercept\":\"dns\"", "\"rcode\":\"NoError\"", NULL);
	/* the same name again, in whatever letters and by whatever way, is one more */
	assert_logged("\"message\":\"deny.default A denied.test (3)\"", "\"action_id\":2",
		"\"rcode\":\"NXDomain\"", "\"count\":3", "\"allow\":\"denied.test\"",
		"\"query\":{\"hostname\":\"denied.test\",\"type\":\"A\",\"class\":\"IN\"}", NULL);
	assert_logged(
		"\"message\":\"deny.default A other.test\"", "\"protocol_name\":\"tcp\"", NULL);
	assert_int_equal(count_logged("\"class_uid\":4003"), 3);
	world_free(&world);
}

static void notes_do_not_wait_for_the_end(void **state)
{
	(void)state;
	begin("note_ms=1");
	auto_fd udp = open_udp();
	assert_int_equal(ask_udp(udp, "denied.test"), DNS_NXDOMAIN);
	uint64_t deadline_ns = clock_monotonic_ns() + LAB_WAIT_NS;
	while (lab_events(&world).len == 0) {
		struct pollfd p = {.fd = world.wake[0], .events = POLLIN};
		assert_true(clock_monotonic_ns() < deadline_ns);
		(void)poll(&p, 1, 20);
	}
	assert_logged("\"message\":\"deny.default A denied.test\"", NULL);
	end();
	world_free(&world);
}

static void what_is_no_question_gets_no_answer(void **state)
{
	(void)state;
	begin(NULL);
	auto_fd udp = open_udp();
	char answer[64] = "\x47\x11\x81\x80";
	send_all(udp, "", 0);
	send_all(udp, "x", 1);
	send_all(udp, answer, sizeof(answer)); /* an answer to an answer would have no end */
	assert_int_equal(ask_udp(udp, "denied.test"), DNS_NXDOMAIN); /* and it goes on */
	auto_fd tcp = open_tcp(), empty = open_tcp(), huge = open_tcp();
	char framed_answer[66] = "\0\x40\x47\x11\x81\x80";
	send_all(tcp, framed_answer, sizeof(framed_answer));
	assert_ended(tcp);
	send_all(empty, "\0\0", 2);
	assert_ended(empty);
	send_all(huge, "\xff\xff", 2);
	assert_ended(huge);
	end();
	assert_logged("deny.protocol", "what came is no question", NULL);
	assert_logged("the question is longer than one may be", "\"protocol_name\":\"tcp\"", NULL);
	world_free(&world);
}

static void a_datagram_that_is_too_long_is_malformed(void **state)
{
	(void)state;
	begin(NULL);
	auto_fd udp = open_udp();
	char out[DNS_MESSAGE_BYTES_MAX + 100] = {0}, in[ANSWER_BYTES];
	(void)question("allowed.test", 7, out);
	send_all(udp, out, sizeof(out));
	assert_true(readable(udp));
	assert_int_equal(recv(udp, in, sizeof(in), 0), 12);
	assert_int_equal(rcode_of(in), DNS_FORMERR);
	end();
	world_free(&world);
}

static void questions_of_a_connection_are_answered_in_order(void **state)
{
	(void)state;
	begin(NULL);
	char out[16384];
	size_t len = 0;
	auto_fd tcp = open_tcp();
	for (uint16_t id = 1; id <= 200; id++)
		len += framed(id % 2 == 0 ? "allowed.test" : "denied.test", id, out + len);
	/* at once, but for the last byte */
	send_all(tcp, out, len - 1);
	for (uint16_t id = 1; id < 200; id++)
		assert_int_equal(read_tcp(tcp, id), id % 2 == 0 ? DNS_NOERROR : DNS_NXDOMAIN);
	send_all(tcp, out + len - 1, 1);
	assert_int_equal(read_tcp(tcp, 200), DNS_NOERROR);
	/* byte by byte */
	len = framed("allowed.test", 300, out);
	for (size_t i = 0; i < len; i++)
		send_all(tcp, out + i, 1);
	assert_int_equal(read_tcp(tcp, 300), DNS_NOERROR);
	/* an end behind a question is no end of its answer */
	len = framed("allowed.test", 301, out);
	send_all(tcp, out, len);
	assert_int_equal(shutdown(tcp, SHUT_WR), 0);
	assert_int_equal(read_tcp(tcp, 301), DNS_NOERROR);
	assert_ended(tcp);
	end();
	world_free(&world);
}

static void a_connection_without_a_question_is_closed(void **state)
{
	(void)state;
	begin("question_ms=200");
	auto_fd silent = open_tcp(), half = open_tcp();
	send_all(half, "\0\x20\x47", 3);
	assert_ended(silent);
	assert_ended(half);
	end();
	world_free(&world);
}

static void connections_are_limited(void **state)
{
	(void)state;
	begin(NULL);
	int fds[DNS_CONNECTIONS_MAX];
	char out[512];
	for (size_t i = 0; i < array_size(fds); i++) {
		fds[i] = open_tcp();
		send_all(fds[i], out, framed("allowed.test", 1, out));
		assert_int_equal(read_tcp(fds[i], 1), DNS_NOERROR);
	}
	auto_fd beyond = open_tcp();
	assert_ended(beyond);
	/* one that ends makes room, once the worker has seen it */
	fd_close(&fds[0]);
	uint64_t deadline_ns = clock_monotonic_ns() + LAB_WAIT_NS;
	for (int rcode = -1; rcode != DNS_NOERROR;) {
		auto_fd next = open_tcp();
		assert_true(clock_monotonic_ns() < deadline_ns);
		(void)send(next, out, framed("allowed.test", 2, out), MSG_NOSIGNAL);
		rcode = read_tcp(next, 2);
	}
	end(); /* with connections open */
	assert_logged("deny.limit", "as many connections", NULL);
	for (size_t i = 0; i < array_size(fds); i++)
		fd_close(&fds[i]);
	world_free(&world);
}

static void questions_in_a_second_are_limited(void **state)
{
	(void)state;
	begin("questions=5");
	auto_fd udp = open_udp(), tcp = open_tcp();
	char out[512];
	size_t refused = 0;
	for (unsigned i = 0; i < 100 && refused == 0; i++) /* unless each takes 200 ms */
		refused += ask_udp(udp, "allowed.test") == DNS_REFUSED;
	assert_true(refused > 0);
	for (int rcode = DNS_NOERROR; rcode >= 0;) { /* told so, then closed */
		(void)send(tcp, out, framed("denied.test", 1, out), MSG_NOSIGNAL);
		rcode = read_tcp(tcp, 1);
	}
	end();
	assert_logged("deny.rate", "\"rcode\":\"Refused\"", NULL);
	world_free(&world);
}

/** Names as a way out: each is refused, few are told one by one, and all are counted. */
static void a_flood_of_names_is_counted(void **state)
{
	(void)state;
	begin("note_ms=60000,questions=100000");
	auto_fd udp = open_udp();
	char name[64], total[96];
	for (unsigned i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "c2VjcmV0%u.exfil.test", i);
		assert_int_equal(ask_udp(udp, name), DNS_NXDOMAIN);
	}
	end();
	assert_int_equal(count_logged("\"class_uid\":4003"), DNS_NOTES_MAX + 1);
	assert_int_equal(count_logged("\"status_code\":\"deny.default\""), DNS_NOTES_MAX);
	(void)snprintf(total, sizeof(total), "\"count\":%d", 1000 - DNS_NOTES_MAX);
	assert_logged("\"status_code\":\"deny.dns-name\"", total, "more names than are told",
		"c2vjcmv064.exfil.test", NULL);
	world_free(&world);
}

/** What can't be told one by one gets no address. */
static void new_names_wait_while_there_are_many(void **state)
{
	(void)state;
	begin("note_ms=60000,questions=100000");
	auto_fd udp = open_udp();
	char name[64];
	for (unsigned i = 0; i < DNS_NOTES_MAX; i++) {
		(void)snprintf(name, sizeof(name), "n%u.wild.test", i);
		assert_int_equal(ask_udp(udp, name), DNS_NOERROR);
	}
	assert_int_equal(ask_udp(udp, "beyond.wild.test"), DNS_REFUSED);
	assert_int_equal(ask_udp(udp, "denied.test"), DNS_NXDOMAIN);
	assert_int_equal(ask_udp(udp, "more.wild.test"), DNS_REFUSED);
	assert_int_equal(ask_udp(udp, "n0.wild.test"), DNS_NOERROR);
	end();
	assert_int_equal(count_logged("\"status_code\":\"allow.rule\""), DNS_NOTES_MAX);
	assert_logged("\"status_code\":\"deny.limit\"", "beyond.wild.test", "\"rcode\":\"Refused\"",
		"\"count\":2", NULL);
	assert_logged(
		"\"status_code\":\"deny.dns-name\"", "denied.test", "\"rcode\":\"NXDomain\"", NULL);
	world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(questions_are_answered_and_told),
		cmocka_unit_test(notes_do_not_wait_for_the_end),
		cmocka_unit_test(what_is_no_question_gets_no_answer),
		cmocka_unit_test(a_datagram_that_is_too_long_is_malformed),
		cmocka_unit_test(questions_of_a_connection_are_answered_in_order),
		cmocka_unit_test(a_connection_without_a_question_is_closed),
		cmocka_unit_test(connections_are_limited),
		cmocka_unit_test(questions_in_a_second_are_limited),
		cmocka_unit_test(a_flood_of_names_is_counted),
		cmocka_unit_test(new_names_wait_while_there_are_many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
