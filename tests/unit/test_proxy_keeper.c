/* The keeper while the policy changes: it signs names of both between the two steps, and of the new one alone behind them. */
#include "tests/unit/cmocka_setup.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "ipc/channel.h"
#include "ipc/message.h"
#include "policy/source.h"
#include "proxy/keeper.h"
#include "proxy/leaf.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define WAIT_NS (60 * NS_PER_SEC)

struct lab {
	int worker_fd, super_fd;
	pid_t pid;
	struct leaf_key *key;
};

static void bundle_of(const char *rule, struct buf *to)
{
	assert_int_equal(policy_source_rules(&rule, 1, to, NULL), 0);
}

static int setup(void **state)
{
	static struct lab l;
	int worker[2], super[2];
	struct buf bundle = {0};
	struct policy_report report = {0};
	struct policy *policy;
	struct message_proxy_ready ready;
	bundle_of("old.test GET /**", &bundle);
	assert_int_equal(policy_compile(buf_slice(&bundle), &policy, &report), 0);
	buf_fini(&bundle);
	assert_int_equal(channel_pair(worker), 0);
	assert_int_equal(channel_pair(super), 0);
	l.pid = fork();
	assert_true(l.pid >= 0);
	if (l.pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* nothing survives a test */
		fd_close(&worker[0]);
		fd_close(&super[0]);
		struct keeper_context context = {.worker_fds = &worker[1],
			.worker_count = 1,
			.super_fd = super[1],
			.policy = policy,
			.ca_fd = -1,
			.ca_key_fd = -1};
		context.audit_key_fd = context.attest_fd = -1;
		_exit(keeper_run(&context));
	}
	policy_free(policy);
	fd_close(&worker[1]);
	fd_close(&super[1]);
	l.worker_fd = worker[0];
	l.super_fd = super[0];
	assert_int_equal(leaf_key_new(&l.key, NULL), 0);
	assert_int_equal(channel_receive_until(l.super_fd, clock_monotonic_ns() + WAIT_NS, &ready,
				 sizeof(ready), NULL, 0, NULL),
		(int)sizeof(ready));
	*state = &l;
	return 0;
}

static int teardown(void **state)
{
	struct lab *l = *state;
	int status;
	fd_close(&l->worker_fd);
	assert_int_equal(waitpid(l->pid, &status, 0), l->pid);
	assert_int_equal(status, 0);
	fd_close(&l->super_fd);
	leaf_key_free(l->key);
	return 0;
}

static bool signs(const struct lab *l, const char *name)
{
	struct keeper_request request = {0};
	struct keeper_reply reply;
	struct slice key = leaf_key_public(l->key);
	(void)snprintf(request.name, sizeof(request.name), "%s", name);
	memcpy(request.public_key, key.ptr, key.len);
	request.public_key_len = (uint16_t)key.len;
	assert_int_equal(channel_send(l->worker_fd, &request, sizeof(request), NULL, 0), 0);
	assert_int_equal(channel_receive_until(l->worker_fd, clock_monotonic_ns() + WAIT_NS, &reply,
				 sizeof(reply), NULL, 0, NULL),
		(int)sizeof(reply));
	return reply.der_len > 0;
}

static void tell(const struct lab *l, uint32_t kind, uint32_t version)
{
	const struct message_policy_step m = {.header = {.kind = kind}, .version = version};
	struct buf bundle = {0};
	bundle_of("new.test GET /**", &bundle);
	auto_fd fd = file_memory("policy", buf_slice(&bundle));
	buf_fini(&bundle);
	bool prepare = kind == MESSAGE_POLICY_PREPARE;
	assert_int_equal(channel_send(l->super_fd, &m, sizeof(m), &fd, prepare ? 1 : 0), 0);
	if (!prepare)
		return;
	struct message_policy_step got;
	assert_int_equal(channel_receive_until(l->super_fd, clock_monotonic_ns() + WAIT_NS, &got,
				 sizeof(got), NULL, 0, NULL),
		(int)sizeof(got));
	assert_int_equal(got.code, 0);
}

static void a_commit_replaces_the_policy(void **state)
{
	struct lab *l = *state;
	assert_true(signs(l, "old.test") && !signs(l, "new.test"));
	tell(l, MESSAGE_POLICY_PREPARE, 1);
	assert_true(signs(l, "old.test") && signs(l, "new.test") && !signs(l, "other.test"));
	tell(l, MESSAGE_POLICY_COMMIT, 1);
	assert_true(!signs(l, "old.test") && signs(l, "new.test"));
}

static void a_drop_leaves_the_policy(void **state)
{
	struct lab *l = *state;
	tell(l, MESSAGE_POLICY_PREPARE, 1);
	tell(l, MESSAGE_POLICY_DROP, 1);
	assert_true(signs(l, "old.test") && !signs(l, "new.test"));
	tell(l, MESSAGE_POLICY_COMMIT, 1);
	assert_true(signs(l, "old.test") && !signs(l, "new.test"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_commit_replaces_the_policy, setup, teardown),
		cmocka_unit_test_setup_teardown(a_drop_leaves_the_policy, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
