/*
 * Several sandboxes in one gateway: apart from one another, each at its worker, gone when evicted.
 * Needs namespaces.
 */
#include "tests/unit/cmocka_setup.h"
#include "tests/unit/half_open.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/privilege.h"
#include "netd/gateway.h"
#include "netd/listener.h"
#include "netd/netns.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define WORKERS 3
#define WAIT_MS 10000

struct tenant {
	struct address_slot slot;
	int namespace_fd;
};

static int home_fd = -1; /* the namespace that the tests start from */

static int enter_own_namespaces(void **state)
{
	(void)state;
	if (geteuid() != 0 && privilege_enter_user_namespace() < 0)
		return 0; /* every test skips itself */
	home_fd = netns_create();
	return 0;
}

static struct gateway *open_gateway(void)
{
	struct gateway *g = NULL;
	struct failure why = {0};
	if (home_fd < 0)
		skip();
	assert_int_equal(netns_enter(home_fd), 0);
	const struct gateway_options options = {.workers = WORKERS};
	if (gateway_open(&options, &g, &why) < 0)
		fail_msg("%s", why.text);
	return g;
}

static struct tenant add_tenant(struct gateway *g)
{
	struct tenant t;
	struct failure why = {0};
	if (gateway_add_sandbox(g, &t.slot, &t.namespace_fd, &why) < 0)
		fail_msg("%s", why.text);
	return t;
}

/** A socket in the tenant's namespace; the process comes back. */
static int socket_inside(const struct tenant *t, int type, int protocol)
{
	int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_true(here >= 0);
	assert_int_equal(netns_enter(t->namespace_fd), 0);
	int fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
	assert_true(fd >= 0);
	assert_int_equal(netns_enter(here), 0);
	fd_close(&here);
	return fd;
}

static int start_connecting(const struct tenant *t, const struct address *to, uint16_t port)
{
	int fd = socket_inside(t, SOCK_STREAM, 0);
	struct sockaddr_storage where;
	socklen_t len = address_to_sockaddr(to, port, &where);
	int r = connect(fd, (struct sockaddr *)&where, len);
	assert_true(r == 0 || errno == EINPROGRESS || errno == ECONNREFUSED);
	return fd;
}

/** What became of a connection: 0 or errno. */
static int connect_outcome(const struct tenant *t, const struct address *to, uint16_t port)
{
	auto_fd fd = start_connecting(t, to, port);
	struct pollfd wait = {.fd = fd, .events = POLLOUT};
	assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
	int code = -1;
	socklen_t len = sizeof(code);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len), 0);
	if (code == 0) {
		struct sockaddr_storage peer;
		len = sizeof(peer);
		code = getpeername(fd, (struct sockaddr *)&peer, &len) == 0 ? 0 : errno;
	}
	/* SO_ERROR was taken by connect() when it failed at once */
	return code == ENOTCONN ? ECONNREFUSED : code;
}

/** Accept one on that worker's listener. @return the peer. */
static struct address accept_at(struct gateway *g, unsigned worker)
{
	unsigned count;
	const int *listeners = gateway_listeners(g, LISTENER_EXPLICIT, &count);
	struct pollfd wait = {.fd = listeners[worker], .events = POLLIN};
	assert_int_equal(poll(&wait, 1, WAIT_MS), 1);
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);
	auto_fd fd = accept4(listeners[worker], (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	struct address a;
	uint16_t port;
	assert_int_equal(address_from_sockaddr((struct sockaddr *)&peer, &a, &port), 0);
	return a;
}

static void assert_nobody_waits(struct gateway *g)
{
	unsigned count;
	const int *listeners = gateway_listeners(g, LISTENER_EXPLICIT, &count);
	for (unsigned i = 0; i < count; i++) {
		struct pollfd wait = {.fd = listeners[i], .events = POLLIN};
		assert_int_equal(poll(&wait, 1, 0), 0);
	}
}

static void a_connection_reaches_the_worker_of_its_sandbox(void **state)
{
	(void)state;
	struct gateway *g = open_gateway();
	const struct address service = address_plan_service();
	for (int i = 0; i < 7; i++) {
		struct tenant t = add_tenant(g);
		assert_int_equal(connect_outcome(&t, &service, ADDRESS_PLAN_EXPLICIT_PORT), 0);
		struct address peer = accept_at(g, listener_worker(&t.slot.sandbox, WORKERS));
		assert_true(address_equal(&peer, &t.slot.sandbox));
		assert_nobody_waits(g);
		fd_close(&t.namespace_fd);
	}
	gateway_close(g);
}

static void sandboxes_cannot_reach_one_another(void **state)
{
	(void)state;
	struct gateway *g = open_gateway();
	struct tenant a = add_tenant(g);
	struct tenant b = add_tenant(g);
	assert_false(address_equal(&a.slot.sandbox, &b.slot.sandbox));
	auto_fd server = socket_inside(&b, SOCK_STREAM, 0);
	struct sockaddr_storage where;
	socklen_t len = address_to_sockaddr(&b.slot.sandbox, 80, &where);
	assert_int_equal(bind(server, (struct sockaddr *)&where, len), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(connect_outcome(&b, &b.slot.sandbox, 80), 0); /* it is there */
	assert_int_equal(connect_outcome(&a, &b.slot.sandbox, 80), ECONNREFUSED);
	uint64_t packets[PACKET_CLASS_COUNT];
	assert_int_equal(gateway_count_sandbox(g, &a.slot, packets, NULL), 0);
	assert_int_equal(packets[PACKET_PRIVATE], 1);
	assert_int_equal(gateway_count_sandbox(g, &b.slot, packets, NULL), 0);
	assert_int_equal(packets[PACKET_PRIVATE], 0);
	fd_close(&a.namespace_fd);
	fd_close(&b.namespace_fd);
	gateway_close(g);
}

/** A SYN for the service that claims to come from @source, put on @t's wire. */
static void forge_syn(const struct tenant *t, const struct address *source)
{
	const struct address service = address_plan_service();
	const struct syn packet = syn_make(source, 4000);
	auto_fd fd = socket_inside(t, SOCK_RAW, IPPROTO_RAW);
	struct sockaddr_storage where;
	socklen_t len = address_to_sockaddr(&service, 0, &where);
	assert_int_equal(sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&where, len),
		(ssize_t)sizeof(packet));
}

static void a_sandbox_cannot_speak_with_anothers_address(void **state)
{
	(void)state;
	struct gateway *g = open_gateway();
	const struct address service = address_plan_service();
	struct tenant a = add_tenant(g);
	struct tenant b = add_tenant(g);
	forge_syn(&b, &a.slot.sandbox);
	assert_int_equal(connect_outcome(&b, &service, ADDRESS_PLAN_EXPLICIT_PORT), 0);
	struct address peer = accept_at(g, listener_worker(&b.slot.sandbox, WORKERS));
	assert_true(address_equal(&peer, &b.slot.sandbox));
	assert_nobody_waits(g);
	/*
	 * the same packet from its rightful owner opens a connection: the forgery failed for who
	 * sent it
	 */
	forge_syn(&a, &a.slot.sandbox);
	uint64_t packets[PACKET_CLASS_COUNT];
	assert_int_equal(gateway_count_sandbox(g, &a.slot, packets, NULL), 0);
	for (size_t i = 0; i < PACKET_CLASS_COUNT; i++)
		assert_int_equal(packets[i], 0);
	fd_close(&a.namespace_fd);
	fd_close(&b.namespace_fd);
	gateway_close(g);
}

static void an_evicted_sandbox_is_heard_no_more(void **state)
{
	(void)state;
	struct gateway *g = open_gateway();
	const struct address service = address_plan_service();
	struct tenant gone = add_tenant(g);
	struct tenant stays = add_tenant(g);
	assert_int_equal(gateway_remove_sandbox(g, &gone.slot, NULL), 0);
	auto_fd knocking = start_connecting(&gone, &service, ADDRESS_PLAN_EXPLICIT_PORT);
	auto_fd elsewhere = start_connecting(&gone, &stays.slot.sandbox, 80);
	assert_int_equal(connect_outcome(&stays, &service, ADDRESS_PLAN_EXPLICIT_PORT), 0);
	(void)accept_at(g, listener_worker(&stays.slot.sandbox, WORKERS));
	assert_nobody_waits(g);
	struct pollfd silence[] = {
		{.fd = knocking, .events = POLLOUT}, {.fd = elsewhere, .events = POLLOUT}};
	assert_int_equal(poll(silence, 2, 0), 0);
	uint64_t packets[PACKET_CLASS_COUNT];
	assert_int_equal(gateway_count_sandbox(g, &gone.slot, packets, NULL), -ENOENT);
	/* an address is used once in a gateway's life */
	struct tenant next = add_tenant(g);
	assert_false(address_equal(&next.slot.sandbox, &gone.slot.sandbox));
	assert_int_not_equal(next.slot.gateway_index, gone.slot.gateway_index);
	fd_close(&gone.namespace_fd);
	fd_close(&stays.namespace_fd);
	fd_close(&next.namespace_fd);
	gateway_close(g);
}

/** Another sandbox whose connections go to the same worker, so that they wait in the same queue. */
static struct tenant add_neighbour_of(struct gateway *g, const struct tenant *t)
{
	struct tenant other = add_tenant(g);
	while (listener_worker(&other.slot.sandbox, WORKERS) !=
		listener_worker(&t->slot.sandbox, WORKERS)) {
		fd_close(&other.namespace_fd);
		other = add_tenant(g);
	}
	return other;
}

static void handshakes_that_never_end_leave_room_for_anothers(void **state)
{
	(void)state;
	enum { CROWD = 10000 };
	struct gateway *g = open_gateway();
	const struct address service = address_plan_service();
	struct tenant crowd = add_tenant(g);
	struct tenant other = add_neighbour_of(g, &crowd);
	auto_fd here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	assert_int_equal(netns_enter(crowd.namespace_fd), 0);
	auto_fd wire = half_open_begin();
	assert_true(wire >= 0);
	assert_int_equal(netns_enter(here), 0);
	assert_int_equal(half_open_send(wire, &crowd.slot, CROWD), CROWD);
	assert_true(half_open_count() > 100); /* as many as the queue takes */
	for (int i = 0; i < 20; i++) {
		assert_int_equal(connect_outcome(&other, &service, ADDRESS_PLAN_EXPLICIT_PORT), 0);
		struct address peer = accept_at(g, listener_worker(&other.slot.sandbox, WORKERS));
		assert_true(address_equal(&peer, &other.slot.sandbox));
	}
	assert_int_equal(half_open_dropped(), 0); /* they got cookies */
	assert_nobody_waits(g);                   /* nor is any of the others a connection */
	uint64_t packets[PACKET_CLASS_COUNT];
	assert_int_equal(gateway_count_sandbox(g, &crowd.slot, packets, NULL), 0);
	assert_true(packets[PACKET_CONNECTIONS] > 0); /* beyond those of a second */
	assert_int_equal(gateway_count_sandbox(g, &other.slot, packets, NULL), 0);
	assert_int_equal(packets[PACKET_CONNECTIONS], 0);
	fd_close(&crowd.namespace_fd);
	fd_close(&other.namespace_fd);
	gateway_close(g);
}

/**
 * More pairs than the host-wide ARP table holds dynamic entries (1,024 a family), all reachable.
 */
static void every_one_of_six_hundred_pairs_is_reached(void **state)
{
	(void)state;
	enum { PAIRS = 600 };
	struct gateway *g = open_gateway();
	const struct address service = address_plan_service();
	static struct tenant tenants[PAIRS];
	for (size_t i = 0; i < PAIRS; i++)
		tenants[i] = add_tenant(g);
	for (size_t i = 0; i < PAIRS; i++) {
		assert_int_equal(
			connect_outcome(&tenants[i], &service, ADDRESS_PLAN_EXPLICIT_PORT), 0);
		(void)accept_at(g, listener_worker(&tenants[i].slot.sandbox, WORKERS));
		fd_close(&tenants[i].namespace_fd);
	}
	gateway_close(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_reaches_the_worker_of_its_sandbox),
		cmocka_unit_test(sandboxes_cannot_reach_one_another),
		cmocka_unit_test(a_sandbox_cannot_speak_with_anothers_address),
		cmocka_unit_test(an_evicted_sandbox_is_heard_no_more),
		cmocka_unit_test(handshakes_that_never_end_leave_room_for_anothers),
		cmocka_unit_test(every_one_of_six_hundred_pairs_is_reached),
	};
	return cmocka_run_group_tests(tests, enter_own_namespaces, NULL);
}
