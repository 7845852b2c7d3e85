/*
 * The launcher's side of the network, against a netd and a proxy that are this very file under
 * other names: what they are given, whose word is believed when something fails, and that nothing
 * of them outlives the run.
 */
#include "tests/unit/cmocka_setup.h"

#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "ipc/channel.h"
#include "policy/policy.h"
#include "policy/source.h"
#include "sandbox-launcher/network.h"
#include "common/uids.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define ID       "sb-0123456789"
#define PEM      "-----BEGIN CERTIFICATE-----\n"
#define SOON_NS  (60 * NS_PER_SEC)
#define SCENARIO "ECLUSA_FAULT" /* the one variable that reaches the programs */

extern char **environ;

union any_message {
	struct message_header header;
	struct message_netd_start netd_start;
	struct message_lease lease;
	struct message_proxy_start proxy_start;
	char bytes[CHANNEL_BYTES_MAX];
};

/* The programs. A wrong input is told by MESSAGE_FAILED, which fails the test with its text. */

static bool scenario_is(const char *name)
{
	const char *value = getenv(SCENARIO);
	return value != NULL && strcmp(value, name) == 0;
}

static int say(const char *text)
{
	message_send_failed(3, -EIO, text);
	return 1;
}

/**
 * What a started program must not have: descriptors, variables, a terminal session of the launcher.
 */
static const char *surplus(void)
{
	for (int fd = 5; fd < 256; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			return "a descriptor above 4 was inherited";
	}
	for (char **v = environ; *v != NULL; v++) {
		if (strncmp(*v, SCENARIO "=", sizeof(SCENARIO)) != 0 &&
			strncmp(*v, "ASAN_", 5) != 0 && strncmp(*v, "UBSAN_", 6) != 0)
			return "a variable of the caller was inherited";
	}
	char byte;
	if (getsid(0) != getpid())
		return "no session of its own";
	return read(0, &byte, 1) == 0 ? NULL : "standard input is not empty";
}

static int fake_netd_grant(enum message_kind kind)
{
	auto_fd ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	const struct message_lease_granted granted = {.header = {kind, 0},
		.sandbox = {.family = 4, .bytes = {10, 0, 0, 3}},
		.service = {.family = 4, .bytes = {10, 255, 255, 254}},
		.explicit_port = 3128};
	return channel_send(3, &granted, sizeof(granted), &ns, 1);
}

/**
 * Whether the message opens 10.1.0.0/16:8443 by TCP and the resolver at 192.0.2.53:5353 by both.
 */
static bool opens_what_it_should(const struct message_netd_start *start)
{
	bool rule = false;
	bool resolver = false;
	for (uint32_t i = 0; i < start->opened_count; i++) {
		const struct message_opened *o = &start->opened[i];
		rule = rule ||
			(o->prefix.bits == 16 && o->prefix.base.bytes[1] == 1 &&
				o->protocol == IPPROTO_TCP && o->port_first == 8443 &&
				o->port_last == 8443);
		resolver = resolver ||
			(o->prefix.bits == 32 && o->prefix.base.bytes[3] == 53 &&
				o->protocol == 0 && o->port_first == 5353 && o->port_last == 5353);
	}
	return rule && resolver && start->opened_count == 2;
}

static int fake_netd_serve(void)
{
	static union any_message m;
	while (channel_receive(3, &m, sizeof(m), NULL, 0, NULL) > 0) {
		struct message_counters_read read = {.header = {MESSAGE_COUNTERS_READ, 0}};
		read.packets[PACKET_UDP] = 40;
		if (scenario_is("netd-dies-late"))
			(void)kill(getpid(), SIGKILL);
		if (m.header.kind == MESSAGE_NETD_FINISH)
			return 0;
		if (m.header.kind != MESSAGE_COUNTERS ||
			channel_send(3, &read, sizeof(read), NULL, 0) < 0)
			return say("unexpected message to netd");
	}
	return 0;
}

static int fake_netd(void)
{
	static union any_message m;
	const char *wrong = surplus();
	if (wrong != NULL)
		return say(wrong);
	if (scenario_is("netd-dies"))
		return 70;
	if (channel_receive(3, &m, sizeof(m), NULL, 0, NULL) != sizeof(m.netd_start) ||
		m.header.kind != MESSAGE_NETD_START || m.netd_start.workers != 1)
		return say("no start message");
	if (m.netd_start.dial_guard != 0 &&
		(m.netd_start.proxy_uid < ECLUSA_UID_BASE ||
			m.netd_start.proxy_uid >= ECLUSA_UID_BASE + ECLUSA_UID_COUNT ||
			!opens_what_it_should(&m.netd_start)))
		return say("the dial guard is told something else");
	if (channel_receive(3, &m, sizeof(m), NULL, 0, NULL) != sizeof(m.lease) ||
		strcmp(m.lease.sandbox_id, ID) != 0 || strcmp(m.lease.profile, "run") != 0)
		return say("no lease message");
	if (scenario_is("netd-fails"))
		return say("can't make the gateway's network namespace: Operation not permitted");
	if (scenario_is("proxy-fails-late"))
		return channel_receive(4, &m, sizeof(m), NULL, 0, NULL) == 0 ? 0 : 2;
	if (scenario_is("proxy-fails")) /* it quits in silence because the proxy did */
		return channel_receive(4, &m, sizeof(m), NULL, 0, NULL) == 0 ? 1 : 2;
	if (!scenario_is("netd-late") && fake_netd_grant(MESSAGE_LEASE_PLACED) < 0)
		return 1;
	if (!scenario_is("netd-late") && !scenario_is("not-served") &&
		fake_netd_grant(MESSAGE_LEASE_GRANTED) < 0)
		return 1;
	return fake_netd_serve();
}

/** A worker that would outlive its super. */
static void leave_a_child(void)
{
	pid_t child = fork();
	if (child != 0)
		return;
	(void)close(3);
	(void)close(4);
	for (;;)
		(void)pause();
}

static int fake_proxy_ready(void)
{
	struct message_proxy_ready ready = {
		.header = {MESSAGE_PROXY_READY, 0}, .ca_len = sizeof(PEM) - 1};
	memcpy(ready.ca_pem, PEM, sizeof(PEM) - 1);
	return channel_send(3, &ready, sizeof(ready), NULL, 0);
}

static int fake_proxy(void)
{
	static union any_message m;
	int fds[8];
	size_t count = 0;
	const char *wrong = surplus();
	if (wrong != NULL)
		return say(wrong);
	if (scenario_is("proxy-dies"))
		(void)kill(getpid(), SIGKILL);
	if (channel_receive(3, &m, sizeof(m), fds, 8, &count) != sizeof(m.proxy_start) ||
		m.header.kind != MESSAGE_PROXY_START || m.proxy_start.workers != 1)
		return say("no start message");
	size_t expected = 4 + m.proxy_start.has_hosts + m.proxy_start.has_upstream_ca +
		m.proxy_start.has_audit_key;
	if (count != expected || m.proxy_start.resolver_count != 1 ||
		m.proxy_start.resolvers[0].port != 5353)
		return say("not the descriptors or resolvers that were announced");
	char text[16] = "";
	if (m.proxy_start.has_hosts &&
		(pread(fds[count - 1 - m.proxy_start.has_audit_key], text, sizeof(text) - 1, 0) <
				0 ||
			strcmp(text, "hosts\n") != 0))
		return say("not the hosts file");
	for (size_t i = 0; i < count; i++)
		fd_close(&fds[i]);
	if (scenario_is("proxy-fails")) {
		(void)close(4);
		(void)poll(NULL, 0, 50); /* netd's end is seen before our word */
		return say("no CA key");
	}
	leave_a_child();
	if (scenario_is("proxy-fails-late")) { /* while the lease waits for its worker */
		(void)fake_proxy_ready();
		return say("the worker ended 11 times in a row");
	}
	if (fake_proxy_ready() < 0 ||
		channel_receive(3, &m, sizeof(m), NULL, 0, NULL) != sizeof(m.header))
		return 0;
	const struct message_header finished = {MESSAGE_PROXY_FINISHED, 0};
	return m.header.kind == MESSAGE_PROXY_FINISH
		? -channel_send(3, &finished, sizeof(finished), NULL, 0)
		: say("unexpected message to the proxy");
}

/* The tests. */

struct stage {
	char folder[64];
	int folder_fd;
	int segment_fd;
	struct buf bundle;
	struct policy *policy;
	struct network_options options;
};

static struct stage stage;
static char links[2][PATH_MAX];

static int open_stage(void **state)
{
	(void)state;
	char self[PATH_MAX];
	const char *names[] = {"eclusa-netd", "eclusa-proxy"};
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (len < 0)
		return -1;
	self[len] = '\0';
	char *slash = strrchr(self, '/');
	for (size_t i = 0; i < 2; i++) {
		(void)snprintf(
			links[i], sizeof(links[i]), "%.*s/%s", (int)(slash - self), self, names[i]);
		(void)unlink(links[i]);
		if (symlink(slash + 1, links[i]) < 0)
			return -1;
	}
	return 0;
}

static int close_stage(void **state)
{
	(void)state;
	(void)unlink(links[0]);
	(void)unlink(links[1]);
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	static const char *const rules[] = {"example.com:8443 addr=10.1.0.0/16"};
	char name[256];
	struct failure why = {0};
	(void)snprintf(stage.folder, sizeof(stage.folder), "/tmp/eclusa-network-XXXXXX");
	assert_non_null(mkdtemp(stage.folder));
	stage.folder_fd = audit_folder_open(stage.folder, &why);
	stage.segment_fd = audit_segment_create(stage.folder_fd, ID, name, sizeof(name), &why);
	buf_init(&stage.bundle, 0);
	assert_int_equal(policy_source_rules(rules, 1, &stage.bundle, &why), 0);
	assert_true(stage.segment_fd >= 0);
	struct policy_report report = {0};
	assert_int_equal(policy_compile(buf_slice(&stage.bundle), &stage.policy, &report), 0);
	stage.options = (struct network_options){.sandbox_id = ID,
		.profile = "run",
		.bundle = buf_slice(&stage.bundle),
		.policy = stage.policy,
		.resolver = "192.0.2.53:5353",
		.segment_fd = stage.segment_fd,
		.audit_folder_fd = stage.folder_fd};
	(void)unsetenv(SCENARIO);
	return setenv("XDG_STATE_HOME", stage.folder, 1); /* where the log's key is made */
}

static int tear_down(void **state)
{
	(void)state;
	char command[128];
	fd_close(&stage.folder_fd);
	fd_close(&stage.segment_fd);
	buf_fini(&stage.bundle);
	policy_free(stage.policy);
	(void)snprintf(command, sizeof(command), "rm -r %s", stage.folder);
	return system(command); /* a folder that this test made */
}

static void assert_no_ring_is_left(void)
{
	assert_int_equal(faccessat(stage.folder_fd, "open/" ID ".ring", F_OK, 0), -1);
}

static void assert_no_child_is_left(void)
{
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static struct network *start(void)
{
	struct network *n = NULL;
	struct failure why = {0};
	if (network_begin(&n, &why) < 0 || network_start(n, &stage.options, &why) < 0)
		fail_msg("%s", why.text);
	return n;
}

static void a_run_leases_finishes_and_leaves_nothing(void **state)
{
	(void)state;
	struct failure why = {0};
	struct message_counters_read counters;
	struct network *n = start();
	if (network_wait(n, clock_monotonic_ns() + SOON_NS, &why) < 0)
		fail_msg("%s", why.text);
	assert_true(fcntl(network_namespace_fd(n), F_GETFD) >= 0);
	assert_int_equal(network_lease(n)->explicit_port, 3128);
	assert_int_equal(network_lease(n)->sandbox.bytes[3], 3);
	assert_true(slice_equal(network_ca_pem(n), SLICE(PEM)));
	struct pollfd fds[NETWORK_POLL_COUNT];
	network_poll(n, fds);
	assert_int_equal(poll(fds, NETWORK_POLL_COUNT, 0), 0);
	assert_int_equal(network_finish(n, &counters), 0);
	assert_int_equal(counters.packets[PACKET_UDP], 40);
	assert_int_equal(counters.packets[PACKET_PUBLIC], 0);
	network_free(n);
	assert_no_ring_is_left();
	assert_no_child_is_left();
}

static void optional_files_are_announced_and_sent(void **state)
{
	(void)state;
	struct failure why = {0};
	char path[128];
	(void)snprintf(path, sizeof(path), "%s/hosts", stage.folder);
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(file_write_all(fd, SLICE("hosts\n")), 0);
	stage.options.hosts = path;
	stage.options.upstream_ca = path;
	struct network *n = start();
	if (network_wait(n, clock_monotonic_ns() + SOON_NS, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(network_finish(n, NULL), 0);
	network_free(n);
}

static void root_tells_the_guard_what_is_open(void **state)
{
	(void)state;
	struct failure why = {0};
	stage.options.root = true;
	struct network *n = start();
	if (network_wait(n, clock_monotonic_ns() + SOON_NS, &why) < 0)
		fail_msg("%s", why.text);
	network_free(n);
	assert_no_ring_is_left();
	assert_no_child_is_left();
}

static void the_one_that_knows_why_is_believed(void **state)
{
	(void)state;
	static const struct {
		const char *scenario;
		const char *line;
	} cases[] = {
		{"netd-fails",
			"eclusa-netd: can't make the gateway's network namespace: "
			"Operation not permitted"},
		{"netd-dies", "eclusa-netd ended with status 70 before the network was ready"},
		{"proxy-dies", "eclusa-proxy was killed by signal 9 before the network was ready"},
		{"proxy-fails", "eclusa-proxy: no CA key"},
		{"proxy-fails-late", "eclusa-proxy: the worker ended 11 times in a row"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct failure why = {0};
		assert_int_equal(setenv(SCENARIO, cases[i].scenario, 1), 0);
		struct network *n = start();
		assert_true(network_wait(n, clock_monotonic_ns() + SOON_NS, &why) < 0);
		assert_string_equal(why.text, cases[i].line);
		assert_int_equal(network_finish(n, NULL), -EPIPE);
		network_free(n);
		assert_no_ring_is_left();
		assert_no_child_is_left();
	}
}

static void a_late_program_is_named(void **state)
{
	(void)state;
	struct failure why = {0};
	assert_int_equal(setenv(SCENARIO, "netd-late", 1), 0);
	struct network *n = start();
	assert_int_equal(network_wait(n, clock_monotonic_ns() + NS_PER_SEC / 10, &why), -ETIMEDOUT);
	assert_string_equal(why.text, "the network was not ready in time: eclusa-netd is late");
	network_free(n);
	assert_no_child_is_left();
}

/** Enough to make the sandbox, and not to let its program start. */
static void a_place_is_known_before_it_is_served(void **state)
{
	(void)state;
	struct failure why = {0};
	assert_int_equal(setenv(SCENARIO, "not-served", 1), 0);
	struct network *n = start();
	assert_int_equal(network_wait_place(n, clock_monotonic_ns() + SOON_NS, &why), 0);
	assert_true(fcntl(network_namespace_fd(n), F_GETFD) >= 0);
	assert_int_equal(network_lease(n)->explicit_port, 3128);
	assert_int_equal(network_wait(n, clock_monotonic_ns() + NS_PER_SEC / 10, &why), -ETIMEDOUT);
	assert_string_equal(why.text, "the network was not ready in time: eclusa-netd is late");
	network_free(n);
	assert_no_child_is_left();
}

static void a_death_during_the_run_is_seen_and_reported(void **state)
{
	(void)state;
	struct failure why = {0};
	struct message_counters_read counters;
	assert_int_equal(setenv(SCENARIO, "netd-dies-late", 1), 0);
	struct network *n = start();
	assert_int_equal(network_wait(n, clock_monotonic_ns() + SOON_NS, &why), 0);
	assert_int_equal(network_finish(n, &counters), -EPIPE);
	assert_int_equal(counters.packets[PACKET_UDP], 0);
	network_free(n);
	assert_no_ring_is_left();
	assert_no_child_is_left();
}

static void bad_options_start_nothing(void **state)
{
	(void)state;
	struct network *n = NULL;
	static const struct {
		const char *resolver, *hosts, *upstream_ca, *line;
	} cases[] = {
		{"example.com", NULL, NULL, "--resolver example.com: not ADDR[:PORT]"},
		{"192.0.2.1", "/nonexistent", NULL,
			"--hosts: can't read /nonexistent: No such file or directory"},
		{"192.0.2.1", NULL, "/nonexistent",
			"--upstream-ca: can't open /nonexistent: No such file or directory"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct failure why = {0};
		stage.options.resolver = cases[i].resolver;
		stage.options.hosts = cases[i].hosts;
		stage.options.upstream_ca = cases[i].upstream_ca;
		assert_int_equal(network_begin(&n, &why), 0);
		assert_true(network_start(n, &stage.options, &why) < 0);
		network_free(n);
		assert_string_equal(why.text, cases[i].line);
		assert_no_ring_is_left();
		assert_no_child_is_left();
	}
}

int main(int argc, char **argv)
{
	const char *name = argc == 1 ? basename(argv[0]) : "";
	if (strcmp(name, "eclusa-netd") == 0)
		return fake_netd();
	if (strcmp(name, "eclusa-proxy") == 0)
		return fake_proxy();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_run_leases_finishes_and_leaves_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			optional_files_are_announced_and_sent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			root_tells_the_guard_what_is_open, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			the_one_that_knows_why_is_believed, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_late_program_is_named, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_place_is_known_before_it_is_served, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_death_during_the_run_is_seen_and_reported, set_up, tear_down),
		cmocka_unit_test_setup_teardown(bad_options_start_nothing, set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, open_stage, close_stage);
}
