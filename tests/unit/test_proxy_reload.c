/* Super's part of a change of policy: in force when all have it, in nobody's hands when one can't. The test is launcher and members. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "ipc/channel.h"
#include "policy/source.h"
#include "proxy/reload.h"
#include "proxy/reload_source.h"

#include <stdio.h>
#include <sys/stat.h>

#define MEMBERS  3 /* two workers and the keeper */
#define WAIT_NS  (60 * NS_PER_SEC)
#define OLD_RULE "old.test GET /**"
#define NEW_RULE "new.test GET /**"

struct lab {
	struct crew crew;
	struct reload reload;
	int launcher;
	int member[MEMBERS]; /* the far ends; the last one is the keeper's */
};

static int bundle_of(const char *rule, struct policy **ret_policy)
{
	struct buf bundle = {0};
	struct policy_report report = {0};
	assert_int_equal(policy_source_rules(&rule, 1, &bundle, NULL), 0);
	if (ret_policy != NULL)
		assert_int_equal(policy_compile(buf_slice(&bundle), ret_policy, &report), 0);
	int fd = file_memory("policy", buf_slice(&bundle));
	assert_true(fd >= 0);
	buf_fini(&bundle);
	return fd;
}

static int connect_to(int *ret_far)
{
	int ends[2];
	assert_int_equal(channel_pair(ends), 0);
	*ret_far = ends[1];
	return ends[0];
}

static int setup(void **state)
{
	struct lab *l = calloc(1, sizeof(*l));
	assert_non_null(l);
	crew_init(&l->crew);
	l->crew.workers = 2;
	int fd = bundle_of(OLD_RULE, &l->crew.policy);
	fd_close(&fd);
	l->crew.worker[0].channel_fd = connect_to(&l->member[0]);
	l->crew.worker[1].channel_fd = connect_to(&l->member[1]);
	l->crew.keeper.channel_fd = connect_to(&l->member[2]);
	reload_init(&l->reload, connect_to(&l->launcher));
	*state = l;
	return 0;
}

static int teardown(void **state)
{
	struct lab *l = *state;
	fd_close(&l->reload.launcher_fd);
	fd_close(&l->launcher);
	for (size_t i = 0; i < MEMBERS; i++)
		fd_close(&l->member[i]);
	reload_fini(&l->reload);
	crew_fini(&l->crew);
	free(l);
	return 0;
}

static void begin(struct lab *l)
{
	const struct message_policy m = {
		.header = {.kind = MESSAGE_POLICY}, .profile = "run", .text = ""};
	reload_begin(&l->reload, &l->crew, &m, bundle_of(NEW_RULE, NULL));
}

/** What a member was told next; 0: nothing. */
static uint32_t told(struct lab *l, unsigned member, struct message_policy_step *ret)
{
	auto_fd fd = -1;
	size_t count = 0;
	struct message_policy_step m = {0};
	int got = channel_receive_until(
		l->member[member], clock_monotonic_ns(), &m, sizeof(m), &fd, 1, &count);
	if (got == -ETIMEDOUT)
		return 0;
	assert_int_equal(got, (int)sizeof(m));
	assert_int_equal(count, m.header.kind == MESSAGE_POLICY_PREPARE ? 1 : 0);
	if (ret != NULL)
		*ret = m;
	return m.header.kind;
}

static void answer(struct lab *l, unsigned member, uint32_t version, int code)
{
	const struct message_policy_step m = {
		.header = {.kind = MESSAGE_POLICY_PREPARED}, .version = version, .code = code};
	reload_heard(&l->reload, &l->crew, member == 2 ? RELOAD_KEEPER : member, &m);
}

/** What the launcher was told; fails if it was told nothing. */
static struct message_policy_answer launcher_told(struct lab *l)
{
	struct message_policy_answer m;
	int got = channel_receive_until(
		l->launcher, clock_monotonic_ns() + WAIT_NS, &m, sizeof(m), NULL, 0, NULL);
	assert_int_equal(got, (int)sizeof(m));
	assert_int_equal(m.header.kind, MESSAGE_POLICY_ANSWER);
	return m;
}

static bool launcher_waits(struct lab *l)
{
	char byte;
	return recv(l->launcher, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0;
}

static bool in_force(const struct lab *l, const char *host)
{
	struct host name;
	assert_int_equal(host_parse(slice_of(host), &name), 0);
	return policy_admits_name(l->crew.policy, &name, clock_wall_ms());
}

static void it_is_in_force_when_the_last_one_has_it(void **state)
{
	struct lab *l = *state;
	begin(l);
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_int_equal(told(l, i, NULL), MESSAGE_POLICY_PREPARE);
	for (unsigned i = 0; i < MEMBERS; i++) {
		assert_true(launcher_waits(l) && in_force(l, "old.test"));
		assert_int_equal(told(l, i, NULL), 0);
		answer(l, i, 1, 0);
	}
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_int_equal(told(l, i, NULL), MESSAGE_POLICY_COMMIT);
	struct message_policy_answer m = launcher_told(l);
	assert_int_equal(m.code, 0);
	assert_string_not_equal(m.before, m.after);
	assert_true(in_force(l, "new.test") && !in_force(l, "old.test"));
	assert_int_equal(reload_deadline_ns(&l->reload), UINT64_MAX);
}

static void nobody_takes_what_one_can_not(void **state)
{
	for (unsigned failing = 0; failing < MEMBERS; failing++) {
		struct lab *l = *state;
		begin(l);
		for (unsigned i = 0; i < MEMBERS; i++)
			assert_int_equal(told(l, i, NULL), MESSAGE_POLICY_PREPARE);
		answer(l, failing, l->reload.version, -ENOMEM);
		for (unsigned i = 0; i < MEMBERS; i++)
			assert_int_equal(told(l, i, NULL), MESSAGE_POLICY_DROP);
		assert_int_equal(launcher_told(l).code, -ENOMEM);
		assert_true(in_force(l, "old.test") && !in_force(l, "new.test"));
		answer(l, (failing + 1) % MEMBERS, l->reload.version, 0); /* too late */
		assert_true(launcher_waits(l));
	}
}

static void an_answer_to_an_older_one_is_none(void **state)
{
	struct lab *l = *state;
	begin(l);
	answer(l, 0, 1, -ENOMEM);
	assert_int_equal(launcher_told(l).code, -ENOMEM);
	begin(l);
	for (unsigned i = 0; i < MEMBERS; i++)
		answer(l, i, 1, 0);
	assert_true(launcher_waits(l) && in_force(l, "old.test"));
	for (unsigned i = 0; i < MEMBERS; i++)
		answer(l, i, 2, 0);
	assert_int_equal(launcher_told(l).code, 0);
}

static void a_dead_worker_is_not_waited_for(void **state)
{
	struct lab *l = *state;
	begin(l);
	answer(l, 0, 1, 0);
	answer(l, 2, 1, 0);
	fd_close(&l->crew.worker[1].channel_fd);
	reload_member_died(&l->reload, &l->crew, 1);
	assert_int_equal(launcher_told(l).code, 0);
	assert_true(in_force(l, "new.test"));
}

static void a_worker_that_began_meanwhile_is_waited_for(void **state)
{
	struct lab *l = *state;
	begin(l);
	fd_close(&l->crew.worker[1].channel_fd);
	fd_close(&l->member[1]);
	reload_member_died(&l->reload, &l->crew, 1);
	l->crew.worker[1].channel_fd = connect_to(&l->member[1]);
	reload_member_started(&l->reload, &l->crew, 1);
	assert_int_equal(told(l, 1, NULL), MESSAGE_POLICY_PREPARE);
	answer(l, 0, 1, 0);
	answer(l, 2, 1, 0);
	assert_true(launcher_waits(l));
	answer(l, 1, 1, 0);
	assert_int_equal(launcher_told(l).code, 0);
}

static void who_does_not_answer_in_time_stops_nobody_else(void **state)
{
	struct lab *l = *state;
	begin(l);
	answer(l, 0, 1, 0);
	assert_true(reload_deadline_ns(&l->reload) > clock_monotonic_ns());
	reload_expired(&l->reload, &l->crew);
	assert_int_equal(launcher_told(l).code, -ETIMEDOUT);
	assert_true(in_force(l, "old.test"));
	assert_int_equal(told(l, 0, NULL), MESSAGE_POLICY_PREPARE);
	assert_int_equal(told(l, 0, NULL), MESSAGE_POLICY_DROP);
}

static void what_does_not_compile_is_told_to_nobody(void **state)
{
	struct lab *l = *state;
	const struct message_policy m = {.header = {.kind = MESSAGE_POLICY}, .profile = "run"};
	int fd = file_memory("policy", SLICE("nonsense"));
	assert_true(fd >= 0);
	reload_begin(&l->reload, &l->crew, &m, fd);
	assert_int_equal(launcher_told(l).code, -EINVAL);
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_int_equal(told(l, i, NULL), 0);
	assert_true(in_force(l, "old.test"));
}

static void a_profile_that_is_not_there_is_refused(void **state)
{
	struct lab *l = *state;
	const struct message_policy m = {.header = {.kind = MESSAGE_POLICY}, .profile = "other"};
	reload_begin(&l->reload, &l->crew, &m, bundle_of(NEW_RULE, NULL));
	assert_true(launcher_told(l).code < 0);
	assert_true(in_force(l, "old.test"));
}

static void a_pipe_is_not_waited_for(void **state)
{
	(void)state;
	char folder[] = "/tmp/reload-XXXXXX";
	char path[64];
	struct reload_bundle bundle = {.text = {.limit = POLICY_BUNDLE_BYTES_MAX}};
	struct reload_fault fault;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/p.allow", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	const struct reload_source source = {
		.path = path, .profile = "run", .config = "/nonexistent"};
	assert_int_equal(reload_source_load(&source, &bundle, &fault), -EINVAL);
	assert_non_null(strstr(fault.text, "p.allow: not a file or a folder"));
	buf_fini(&bundle.text);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			it_is_in_force_when_the_last_one_has_it, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_takes_what_one_can_not, setup, teardown),
		cmocka_unit_test_setup_teardown(an_answer_to_an_older_one_is_none, setup, teardown),
		cmocka_unit_test_setup_teardown(a_dead_worker_is_not_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_worker_that_began_meanwhile_is_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(
			who_does_not_answer_in_time_stops_nobody_else, setup, teardown),
		cmocka_unit_test_setup_teardown(
			what_does_not_compile_is_told_to_nobody, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_profile_that_is_not_there_is_refused, setup, teardown),
		cmocka_unit_test(a_pipe_is_not_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
