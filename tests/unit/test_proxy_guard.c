/* What may be dialled: nothing that policy does not open, and nothing that is the host's own. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/guard.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct address parsed(const char *text)
{
	struct address a;
	assert_int_equal(address_parse(slice_of(text), &a), 0);
	return a;
}

static struct rule rule_with(const struct cidr *opened, size_t count)
{
	return (struct rule){.id = "r",
		.file = "--allow",
		.line = 1,
		.text = "origin.test",
		.allow = true,
		.addresses = opened,
		.address_count = count};
}

static enum guard_result admit(
	struct guard *g, const struct rule *rule, const char *text, enum reason *ret_reason)
{
	struct address a = parsed(text);
	struct admitted_address admitted;
	struct guard_target target = {.address = &a, .port = 443};
	enum guard_result r = guard_admit(g, rule, &target, &admitted, ret_reason);
	if (r == GUARD_ADMITTED) {
		assert_true(address_equal(&admitted.checked.address, &a));
		assert_int_equal(admitted.checked.port, 443);
	}
	return r;
}

static void special_addresses_are_refused_whatever_the_name(void **state)
{
	static const struct {
		const char *address;
		enum reason reason;
	} cases[] = {
		{"127.0.0.1", REASON_DENY_ADDRESS_PRIVATE},
		{"10.0.0.5", REASON_DENY_ADDRESS_PRIVATE},
		{"172.16.0.1", REASON_DENY_ADDRESS_PRIVATE},
		{"192.168.1.1", REASON_DENY_ADDRESS_PRIVATE},
		{"169.254.169.254", REASON_DENY_ADDRESS_METADATA},
		{"100.64.0.1", REASON_DENY_ADDRESS_PRIVATE},
		{"168.63.129.16", REASON_DENY_ADDRESS_METADATA},
		{"192.0.2.1", REASON_DENY_ADDRESS_PRIVATE},
		{"198.18.0.1", REASON_DENY_ADDRESS_PRIVATE},
		{"0.0.0.0", REASON_DENY_ADDRESS_PRIVATE},
		{"224.0.0.1", REASON_DENY_ADDRESS_PRIVATE},
		{"255.255.255.255", REASON_DENY_ADDRESS_PRIVATE},
		{"::1", REASON_DENY_ADDRESS_PRIVATE},
		{"::ffff:127.0.0.1", REASON_DENY_ADDRESS_PRIVATE},
		{"::ffff:a9fe:a9fe", REASON_DENY_ADDRESS_PRIVATE},
		{"64:ff9b::7f00:1", REASON_DENY_ADDRESS_PRIVATE},
		{"fe80::1", REASON_DENY_ADDRESS_PRIVATE},
		{"fc00::1", REASON_DENY_ADDRESS_PRIVATE},
	};
	struct guard g;
	struct rule rule = rule_with(NULL, 0);
	(void)state;
	assert_int_equal(guard_open(&g, NULL), 0);
	for (size_t i = 0; i < array_size(cases); i++) {
		enum reason reason = REASON_ALLOW_RULE;
		assert_int_equal(admit(&g, &rule, cases[i].address, &reason), GUARD_REFUSED);
		assert_int_equal(reason, cases[i].reason);
	}
	guard_close(&g);
}

static void a_prefix_that_the_rule_names_opens_that_and_nothing_else(void **state)
{
	struct cidr opened;
	struct guard g;
	enum reason reason;
	(void)state;
	assert_int_equal(cidr_parse(SLICE("127.0.0.2/32"), &opened), 0);
	struct rule rule = rule_with(&opened, 1);
	assert_int_equal(guard_open(&g, NULL), 0);
	assert_int_equal(admit(&g, &rule, "127.0.0.2", &reason), GUARD_ADMITTED);
	assert_int_equal(admit(&g, &rule, "127.0.0.1", &reason), GUARD_REFUSED);
	guard_close(&g);
}

/** In a network namespace of its own, give lo this address. */
static void own_address(const char *text)
{
	struct ifreq request = {.ifr_name = "lo:1"};
	struct sockaddr_in sa = {.sin_family = AF_INET};
	auto_fd fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(inet_pton(AF_INET, text, &sa.sin_addr), 1);
	memcpy(&request.ifr_addr, &sa, sizeof(sa));
	assert_int_equal(ioctl(fd, SIOCSIFADDR, &request), 0);
	assert_int_equal(inet_pton(AF_INET, "255.255.255.0", &sa.sin_addr), 1);
	memcpy(&request.ifr_addr, &sa, sizeof(sa));
	assert_int_equal(ioctl(fd, SIOCSIFNETMASK, &request), 0);
	request.ifr_flags = IFF_UP;
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &request), 0);
}

static int judge_own_addresses(void)
{
	struct guard g;
	enum reason reason = REASON_ALLOW_RULE;
	struct rule rule = rule_with(NULL, 0);
	own_address("8.8.4.4"); /* looks public, and is this host */
	if (guard_open(&g, NULL) < 0)
		return 10;
	if (admit(&g, &rule, "8.8.4.4", &reason) != GUARD_REFUSED ||
		reason != REASON_DENY_ADDRESS_PRIVATE)
		return 11;
	if (admit(&g, &rule, "8.8.4.255", &reason) == GUARD_ADMITTED) /* broadcast */
		return 12;
	if (admit(&g, &rule, "9.9.9.9", &reason) != GUARD_UNREACHABLE)
		return 13;
	guard_close(&g);
	return 0;
}

/** Run `ip`, with what it shall do. @return 0, or its failure. */
static int ip(const char *const *words)
{
	int status;
	pid_t pid = fork();
	if (pid == 0) {
		(void)execvp("ip", (char *const *)words);
		_exit(127);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid ? -1 : status;
}

#define IP(...) ip((const char *const[]){"ip", __VA_ARGS__, NULL})

/** What the kernel said before is not believed once anything has changed. */
static int judge_changes(void)
{
	struct guard g;
	enum reason reason = REASON_ALLOW_RULE;
	struct rule rule = rule_with(NULL, 0);
	if (IP("link", "add", "v0", "type", "veth", "peer", "name", "v1") != 0)
		return 77;
	if (IP("link", "set", "v1", "up") != 0 || IP("link", "set", "v0", "up") != 0 ||
		IP("addr", "add", "9.9.9.1/24", "dev", "v0") != 0 || guard_open(&g, NULL) < 0)
		return 10;
	if (g.changes_fd < 0)
		return 11;
	for (int i = 0; i < 3; i++) {
		if (admit(&g, &rule, "9.9.9.9", &reason) != GUARD_ADMITTED)
			return 12;
	}
	if (IP("addr", "add", "9.9.9.9/32", "dev", "lo") != 0)
		return 13;
	if (admit(&g, &rule, "9.9.9.9", &reason) != GUARD_REFUSED)
		return 14;
	if (IP("addr", "del", "9.9.9.9/32", "dev", "lo") != 0)
		return 15;
	if (admit(&g, &rule, "9.9.9.9", &reason) != GUARD_ADMITTED)
		return 16;
	if (IP("route", "add", "local", "9.9.9.9/32", "dev", "lo") != 0)
		return 17;
	if (admit(&g, &rule, "9.9.9.9", &reason) != GUARD_REFUSED)
		return 18;
	if (IP("route", "del", "local", "9.9.9.9/32", "dev", "lo") != 0 ||
		IP("rule", "add", "to", "9.9.9.9", "unreachable") != 0)
		return 19;
	if (admit(&g, &rule, "9.9.9.9", &reason) != GUARD_UNREACHABLE)
		return 20;
	if (IP("rule", "del", "to", "9.9.9.9", "unreachable") != 0)
		return 21;
	if (admit(&g, &rule, "9.9.9.9", &reason) != GUARD_ADMITTED)
		return 22;
	if (IP("link", "set", "v0", "down") != 0)
		return 23;
	if (admit(&g, &rule, "9.9.9.9", &reason) != GUARD_UNREACHABLE)
		return 24;
	guard_close(&g);
	return 0;
}

/** In a network namespace of its own. */
static void judge_apart(int (*judge)(void))
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
			_exit(77);
		_exit(judge());
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void the_hosts_own_public_addresses_are_refused(void **state)
{
	(void)state;
	judge_apart(judge_own_addresses);
}

static void what_changes_is_asked_anew(void **state)
{
	(void)state;
	judge_apart(judge_changes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(special_addresses_are_refused_whatever_the_name),
		cmocka_unit_test(a_prefix_that_the_rule_names_opens_that_and_nothing_else),
		cmocka_unit_test(the_hosts_own_public_addresses_are_refused),
		cmocka_unit_test(what_changes_is_asked_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
