/* Look-ups against a server of our own: what is asked, how often, and what its answers become. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/resolve.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define QUESTIONS_MAX 32
#define TYPE_A        1
#define TYPE_AAAA     28

/** A name server in the test's own loop. */
struct server {
	uv_poll_t poll;
	int fd;
	uint16_t port;
	char names[QUESTIONS_MAX][256];
	uint16_t types[QUESTIONS_MAX];
	uint16_t ids[QUESTIONS_MAX];
	size_t count;
};

struct lab {
	uv_loop_t loop;
	struct server server;
	struct resolve_channel *channel;
	struct limits limits;
	bool woken;
};

/** The question's name as text; @return the offset behind it. */
static size_t name_text(const uint8_t *wire, char to[static 256])
{
	size_t at = 12, len = 0;
	while (wire[at] != 0 && len + wire[at] + 2 < 256) {
		memcpy(to + len, wire + at + 1, wire[at]);
		len += wire[at];
		to[len++] = '.';
		at += (size_t)wire[at] + 1;
	}
	to[len > 0 ? len - 1 : 0] = '\0';
	return at + 1;
}

static size_t put_answer(uint8_t *wire, size_t len, uint16_t type, const char *text)
{
	const uint8_t head[] = {
		0xc0, 12, 0, (uint8_t)type, 0, 1, 0, 0, 0, 0, 0, type == TYPE_A ? 4 : 16};
	memcpy(wire + len, head, sizeof(head));
	len += sizeof(head);
	assert_int_equal(inet_pton(type == TYPE_A ? AF_INET : AF_INET6, text, wire + len), 1);
	wire[7]++;
	return len + (type == TYPE_A ? 4 : 16);
}

/** Behaviour by name. @return length of the answer, 0: none. */
static size_t behave(const char *name, uint16_t type, uint8_t *wire, size_t len)
{
	wire[2] = 0x81;
	wire[3] = 0x80;
	if (strcmp(name, "silent.test") == 0)
		return 0;
	if (strcmp(name, "half.test") == 0 && type == TYPE_AAAA)
		return 0;
	if (strcmp(name, "none.test") == 0)
		wire[3] |= 3;
	else if (strcmp(name, "refused.test") == 0)
		wire[3] |= 5;
	else if (strcmp(name, "empty.test") == 0)
		return len;
	else if (type == TYPE_A)
		len = put_answer(wire, len, TYPE_A, "203.0.113.10");
	else if (strcmp(name, "both.test") == 0)
		len = put_answer(wire, len, TYPE_AAAA, "2001:db8::1");
	if (strcmp(name, "many.test") == 0 && type == TYPE_A)
		len = put_answer(wire, len, TYPE_A, "127.0.0.1");
	return len;
}

static void on_question(uv_poll_t *poll, int status, int events)
{
	struct server *s = poll->data;
	uint8_t wire[512];
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	(void)status;
	(void)events;
	ssize_t got =
		recvfrom(s->fd, wire, sizeof(wire) - 64, 0, (struct sockaddr *)&from, &from_len);
	assert_true(got > 12 && s->count < QUESTIONS_MAX);
	size_t end = name_text(wire, s->names[s->count]) + 4;
	uint16_t type = (uint16_t)(wire[end - 4] << 8 | wire[end - 3]);
	s->ids[s->count] = (uint16_t)(wire[0] << 8 | wire[1]);
	s->types[s->count] = type;
	size_t len = behave(s->names[s->count++], type, wire, end);
	if (len > 0)
		assert_int_equal(
			sendto(s->fd, wire, len, 0, (struct sockaddr *)&from, from_len), (int)len);
}

static void server_start(struct lab *lab)
{
	struct server *s = &lab->server;
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sa);
	s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(s->fd >= 0);
	assert_int_equal(bind(s->fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(getsockname(s->fd, (struct sockaddr *)&sa, &len), 0);
	s->port = ntohs(sa.sin_port);
	assert_int_equal(uv_poll_init(&lab->loop, &s->poll, s->fd), 0);
	s->poll.data = s;
	assert_int_equal(uv_poll_start(&s->poll, UV_READABLE, on_question), 0);
}

static int lab_open(void **state)
{
	struct lab *lab = calloc(1, sizeof(*lab));
	struct failure why = {0};
	/* None of these may matter (case B10). */
	(void)setenv("LOCALDOMAIN", "corp.test", 1);
	(void)setenv("RES_OPTIONS", "ndots:15 attempts:9", 1);
	assert_int_equal(uv_loop_init(&lab->loop), 0);
	server_start(lab);
	lab->limits = limits_default();
	lab->limits.dns_ms = 400;
	lab->limits.dns_grace_ms = 20;
	struct resolve_server server = {{4, {127, 0, 0, 1}}, lab->server.port};
	struct resolve_options options = {.loop = &lab->loop,
		.servers = &server,
		.server_count = 1,
		.hosts = SLICE("# lab\n10.1.2.3 lab.test other.test # not.test\n\n"
			       "::1 v6.test\t Capital.Test. v6.test\n"
			       "10.1.2.4\tlab.test\nnonsense bad.test\n10.1.2.5 lab.test"),
		.limits = &lab->limits};
	assert_int_equal(resolve_channel_new(&options, &lab->channel, &why), 0);
	*state = lab;
	return 0;
}

static int lab_close(void **state)
{
	struct lab *lab = *state;
	resolve_channel_free(lab->channel);
	uv_close((uv_handle_t *)&lab->server.poll, NULL);
	(void)uv_run(&lab->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&lab->loop), 0);
	fd_close(&lab->server.fd);
	free(lab);
	return 0;
}

static void on_woken(void *arg)
{
	struct lab *lab = arg;
	assert_false(lab->woken);
	lab->woken = true;
}

static struct resolve_query *ask(struct lab *lab, const char *name)
{
	struct host host;
	assert_int_equal(host_parse(slice_of(name), &host), 0);
	lab->woken = false;
	struct resolve_query *q = resolve_ask(lab->channel, &host, on_woken, lab);
	assert_non_null(q);
	return q;
}

static enum resolve_status answer(struct lab *lab, struct resolve_query *q, size_t *ret_count)
{
	const struct address *addresses;
	*ret_count = 0;
	while (resolve_answer(q, &addresses, ret_count) == RESOLVE_WAIT)
		(void)uv_run(&lab->loop, UV_RUN_ONCE);
	return resolve_answer(q, &addresses, ret_count);
}

static void answers_become_a_status_and_addresses(void **state)
{
	static const struct {
		const char *name;
		enum resolve_status status;
		size_t count;
		size_t questions;
	} cases[] = {
		{"allowed.test", RESOLVE_FOUND, 1, 2},
		{"both.test", RESOLVE_FOUND, 2, 2},
		{"many.test", RESOLVE_FOUND, 2, 2},
		{"none.test", RESOLVE_NONE, 0, 2},
		{"empty.test", RESOLVE_NONE, 0, 2},
		{"refused.test", RESOLVE_FAILED, 0, 4}, /* the one server is tried twice */
		{"half.test", RESOLVE_FOUND, 1, 2},
		{"lab.test", RESOLVE_FOUND, 3, 0},
		{"other.test", RESOLVE_FOUND, 1, 0},
		{"v6.test", RESOLVE_FOUND, 1, 0},
		{"capital.test", RESOLVE_FOUND, 1, 0},
	};
	struct lab *lab = *state;
	for (size_t i = 0; i < array_size(cases); i++) {
		size_t count;
		lab->server.count = 0;
		struct resolve_query *q = ask(lab, cases[i].name);
		assert_int_equal(answer(lab, q, &count), cases[i].status);
		assert_int_equal(count, cases[i].count);
		assert_true(lab->server.count <= cases[i].questions);
		resolve_drop(q);
	}
}

static void a_name_is_asked_once_for_each_family_and_only_as_it_is(void **state)
{
	struct lab *lab = *state;
	size_t count;
	struct resolve_query *q = ask(lab, "none.test");
	assert_int_equal(answer(lab, q, &count), RESOLVE_NONE);
	assert_int_equal(lab->server.count, 2);
	assert_string_equal(lab->server.names[0], "none.test");
	assert_string_equal(lab->server.names[1], "none.test");
	assert_int_equal(lab->server.types[0] + lab->server.types[1], TYPE_A + TYPE_AAAA);
	assert_int_not_equal(lab->server.ids[0], lab->server.ids[1]);
	resolve_drop(q);
}

static void silence_ends_at_the_deadline(void **state)
{
	struct lab *lab = *state;
	size_t count;
	struct resolve_query *q = ask(lab, "silent.test");
	assert_int_equal(answer(lab, q, &count), RESOLVE_TIMEOUT);
	assert_true(lab->woken);
	resolve_drop(q);
}

static void a_dropped_query_wakes_nobody(void **state)
{
	struct lab *lab = *state;
	size_t count;
	resolve_drop(ask(lab, "allowed.test"));
	struct resolve_query *q = ask(lab, "both.test");
	assert_int_equal(answer(lab, q, &count), RESOLVE_FOUND);
	resolve_drop(q);
	resolve_drop(ask(lab, "silent.test")); /* outstanding when the channel ends */
}

static void without_servers_nothing_is_asked(void **state)
{
	struct lab *lab = *state;
	struct failure why = {0};
	struct resolve_channel *alone;
	struct host host;
	const struct address *addresses;
	size_t count;
	struct resolve_options options = {.loop = &lab->loop, .limits = &lab->limits};
	assert_int_equal(resolve_channel_new(&options, &alone, &why), 0);
	assert_int_equal(host_parse(SLICE("allowed.test"), &host), 0);
	struct resolve_query *q = resolve_ask(alone, &host, on_woken, lab);
	assert_non_null(q);
	assert_int_equal(resolve_answer(q, &addresses, &count), RESOLVE_FAILED);
	resolve_drop(q);
	resolve_channel_free(alone);
	assert_int_equal(lab->server.count, 0);
}

#define LAB_TEST(f) cmocka_unit_test_setup_teardown(f, lab_open, lab_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LAB_TEST(answers_become_a_status_and_addresses),
		LAB_TEST(a_name_is_asked_once_for_each_family_and_only_as_it_is),
		LAB_TEST(silence_ends_at_the_deadline),
		LAB_TEST(a_dropped_query_wakes_nobody),
		LAB_TEST(without_servers_nothing_is_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
