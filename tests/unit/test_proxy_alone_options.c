/* What the command line of the proxy alone means, and what it refuses. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "proxy/alone.h"

#include <fcntl.h>
#include <stdio.h>

#define WORDS_MAX 16
#define NEEDED    "--policy", "p.allow", "--profile", "p"

/** Standard error is not the test's matter. */
static int parse(const char *const *words, struct alone_options *ret)
{
	char *argv[WORDS_MAX + 2] = {(char *)(uintptr_t) "eclusa-proxy"};
	int argc = 1;
	while (words[argc - 1] != NULL) {
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
		argc++;
	}
	int kept = dup(STDERR_FILENO);
	auto_fd null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_true(kept >= 0 && null >= 0 && dup2(null, STDERR_FILENO) >= 0);
	int r = alone_parse(argc, argv, ret);
	assert_true(dup2(kept, STDERR_FILENO) >= 0);
	fd_close(&kept);
	return r;
}

static const struct {
	const char *words[WORDS_MAX];
	int result;
	uint16_t port;
} cases[] = {
	{{"--listen", "127.0.0.1:3128", NEEDED}, 0, 3128},
	{{"--listen", "127.0.0.1", NEEDED}, 0, 3128},
	{{"--listen", "127.0.0.1:0", NEEDED}, 0, 0},
	{{"--listen", "127.200.0.9:80", NEEDED}, 0, 80},
	{{"--listen", "[::1]:9", NEEDED}, 0, 9},
	{{"--listen", "0.0.0.0:1", NEEDED}, -EINVAL, 0}, /* every interface */
	{{"--listen", "[::]:1", NEEDED}, -EINVAL, 0},
	{{"--listen", "0.1.2.3:1", NEEDED}, -EINVAL, 0},
	{{"--listen", "[::ffff:127.0.0.1]:1", NEEDED}, -EINVAL, 0},
	{{"--listen", "10.0.0.1:1", NEEDED}, -EINVAL, 0},
	{{"--listen", "0.0.0.0:1", "--remote-clients", NEEDED}, 0, 1},
	{{"--listen", "[2001:db8::1]:1", "--remote-clients", NEEDED}, 0, 1},
	{{"--listen", "localhost:1", NEEDED}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:65536", NEEDED}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:00", NEEDED}, -EINVAL, 0},
	{{"--listen", ":0", NEEDED}, -EINVAL, 0},
	{{"--listen", "", NEEDED}, -EINVAL, 0},
	{{NEEDED}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--audit-decisions", "64"}, 0, 1},
	{{"--listen", "127.0.0.1:1", NEEDED, "--audit-decisions", "63"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--audit-decisions", "32769"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--audit-decisions", "many"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", "--policy", "p"}, 0, 1},
	{{"--listen", "127.0.0.1:1", "--profile", "p"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--policy", "q"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--ca", "c"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--ca-key", "c"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--ca", "c", "--ca-key", "k"}, 0, 1},
	{{"--listen", "127.0.0.1:1", NEEDED, "--ca", "c", "--ca-key", "k", "--ca-out", "o"},
		-EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--state-dir", ""}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--trust", "a", "--trust", "b"}, 0, 1},
	{{"--listen", "127.0.0.1:1", NEEDED, "--resolver", "127.0.0.1:53"}, 0, 1},
	{{"--listen", "127.0.0.1:1", NEEDED, "--resolver", "name"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "word"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--nonsense"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--watch=yes"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--state-dir"}, -EINVAL, 0},
	{{"--listen", "127.0.0.1:1", NEEDED, "--profile", "q"}, -EINVAL, 0},
	{{"--serve", "--listen", "127.0.0.1:1", NEEDED}, -EINVAL, 0},
	{{"--serve", "--profile", "p"}, -EINVAL, 0},
	{{"--serve", NEEDED, "--workers", "0"}, -EINVAL, 0},
	{{"--serve", NEEDED, "--workers", "9"}, -EINVAL, 0},
	{{"--serve", NEEDED, "--leases", "4097"}, -EINVAL, 0},
	{{"--serve", NEEDED, "--ready", "65"}, -EINVAL, 0},
	{{"--serve", NEEDED, "--ready", "none"}, -EINVAL, 0},
};

static void every_case(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		struct alone_options o = {.port = 7};
		int r = parse(cases[i].words, &o);
		if (r != cases[i].result || o.port != (r == 0 ? cases[i].port : 7))
			fail_msg("case %zu, %s: %d, port %u", i, cases[i].words[1], r, o.port);
	}
}

static void values_go_where_they_belong(void **state)
{
	(void)state;
	const char *const words[] = {"--listen", "127.0.0.1:1", NEEDED, "--trust", "a", "--trust",
		"b", "--watch", "--state-dir", "s", NULL};
	struct alone_options o;
	assert_int_equal(parse(words, &o), 0);
	assert_string_equal(o.policy, "p.allow");
	assert_string_equal(o.profile, "p");
	assert_string_equal(o.state_dir, "s");
	assert_int_equal(o.trust_count, 2);
	assert_string_equal(o.trust[1], "b");
	assert_true(o.watch);
	assert_null(o.audit_dir);
}

/** A service has several profiles, and a socket that need not be named. */
static void what_a_service_is_told(void **state)
{
	(void)state;
	const char *const words[] = {"--serve", NEEDED, "--profile", "q", "--workers", "8",
		"--leases", "4096", "--ready", "0", NULL};
	struct alone_options o;
	if (geteuid() != 0)
		skip();
	assert_int_equal(parse(words, &o), 0);
	assert_int_equal(o.profile_count, 2);
	assert_string_equal(o.profile, "p");
	assert_string_equal(o.profiles[1], "q");
	assert_string_equal(o.socket, "/run/eclusa/serve");
	assert_int_equal(o.workers, 8);
	assert_int_equal(o.leases, 4096);
	assert_int_equal(o.ready, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_case),
		cmocka_unit_test(values_go_where_they_belong),
		cmocka_unit_test(what_a_service_is_told),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
