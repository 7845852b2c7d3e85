/* See attest.h. */
#include "proxy/attest.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/clock.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "ipc/fault.h"

#include <fcntl.h>

#define KEY_BYTES 4096

int attest_start(struct attest *a, int fd, int key_fd, struct failure *why)
{
	char pem[KEY_BYTES];
	a->fd = fd;
	if (fd >= 0 && fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return failure_errno(why, -errno, "the recorder's channel");
	if (key_fd < 0)
		return 0;
	int len = file_read_short(key_fd, pem, sizeof(pem));
	int r = len < 0 ? len : sign_key_read((struct slice){pem, (size_t)len}, &a->key);
	explicit_bzero(pem, sizeof(pem));
	return r < 0 ? failure_set(why, r, "the audit key is no Ed25519 private key in PEM") : 0;
}

void attest_fini(struct attest *a)
{
	sign_key_free(a->key);
	a->key = NULL;
	fd_close(&a->fd);
}

/** The policy in force, by the digest that its other events have. */
static void tell_policy(const struct attest *a, const struct policy *policy, struct checkpoint *c)
{
	const struct profile *profile;
	c->policy[0] = '\0';
	if (a->profile != NULL && policy != NULL &&
		policy_profile(policy, a->profile, &profile, NULL) == 0)
		(void)slice_copy(slice_of(profile_digest(profile)), c->policy, sizeof(c->policy));
}

void attest_hear(struct attest *a, const struct policy *policy)
{
	struct attest_message m;
	int got = channel_receive(a->fd, &m, sizeof(m), NULL, 0, NULL);
	if (got == -EAGAIN)
		return;
	if (got != (int)sizeof(m) ||
		memchr(m.checkpoint.chain, '\0', sizeof(m.checkpoint.chain)) == NULL ||
		memchr(m.checkpoint.head, '\0', sizeof(m.checkpoint.head)) == NULL) {
		fd_close(&a->fd); /* its end, or no recorder of ours */
		return;
	}
	tell_policy(a, policy, &m.checkpoint);
	m.result = checkpoint_sign(&m.checkpoint, a->key);
	if (channel_send(a->fd, &m, sizeof(m), NULL, 0) < 0)
		log_event(LOG_LEVEL_WARN, "checkpoint-not-sent", "last=%llu",
			(unsigned long long)m.checkpoint.last);
	fault_point("keeper-signed");
}

int attest_ask(int fd, struct checkpoint *c, int wait_ms)
{
	struct attest_message asked = {.checkpoint = *c}, answer;
	uint64_t deadline = clock_monotonic_ns() + (uint64_t)wait_ms * NS_PER_MS;
	int r = channel_send(fd, &asked, sizeof(asked), NULL, 0);
	while (r == 0) {
		int got =
			channel_receive_until(fd, deadline, &answer, sizeof(answer), NULL, 0, NULL);
		if (got != (int)sizeof(answer))
			return got < 0 ? got : -EPIPE;
		if (answer.checkpoint.last != c->last ||
			memcmp(answer.checkpoint.head, c->head, sizeof(c->head)) != 0)
			continue; /* what a predecessor, or an earlier question, waited for */
		if (answer.result < 0)
			return answer.result;
		*c = answer.checkpoint;
		return 0;
	}
	return r;
}
