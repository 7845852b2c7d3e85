/* See crew.h. The child side of each fork is here as well: from the fork to the role's own run function. */
#include "proxy/crew.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "ipc/channel.h"
#include "proxy/budget.h"
#include "proxy/confine.h"
#include "proxy/keeper.h"
#include "proxy/metrics.h"
#include "proxy/recorder.h"
#include "proxy/synthetic.h"
#include "proxy/worker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void member_init(struct crew_member *m)
{
	*m = (struct crew_member){.pidfd = -1, .channel_fd = -1};
}

void crew_init(struct crew *c)
{
	*c = (struct crew){.segment_fd = -1,
		.next_fd = -1,
		.ca_bundle_fd = -1,
		.upstream_ca_fd = -1,
		.guard_fd = -1,
		.own_ring_fd = -1,
		.ca_fd = -1,
		.ca_key_fd = -1,
		.audit_key_fd = -1,
		.attest_ends = {-1, -1},
		.wake = {-1, -1}};
	for (size_t i = 0; i < MESSAGE_WORKERS_MAX; i++) {
		c->ring_fds[i] = -1;
		c->budget_fds[i] = -1;
		c->metrics_fds[i] = -1;
		c->synthetic_fds[i] = -1;
		c->commit_fds[i] = -1;
		for (size_t kind = 0; kind < LISTENER_KIND_COUNT; kind++)
			c->listener_fds[kind][i] = -1;
		c->keeper_ends[i][0] = -1;
		c->keeper_ends[i][1] = -1;
		member_init(&c->worker[i]);
	}
	member_init(&c->keeper);
	member_init(&c->recorder);
}

static void member_fini(struct crew_member *m)
{
	fd_close(&m->pidfd);
	fd_close(&m->channel_fd);
}

void crew_fini(struct crew *c)
{
	int *fds[] = {&c->segment_fd, &c->next_fd, &c->ca_bundle_fd, &c->upstream_ca_fd,
		&c->guard_fd, &c->own_ring_fd, &c->ca_fd, &c->ca_key_fd, &c->audit_key_fd,
		&c->attest_ends[0], &c->attest_ends[1], &c->wake[0], &c->wake[1]};
	for (size_t i = 0; i < array_size(fds); i++)
		fd_close(fds[i]);
	for (size_t i = 0; i < MESSAGE_WORKERS_MAX; i++) {
		fd_close(&c->ring_fds[i]);
		fd_close(&c->budget_fds[i]);
		fd_close(&c->metrics_fds[i]);
		fd_close(&c->synthetic_fds[i]);
		fd_close(&c->commit_fds[i]);
		for (size_t kind = 0; kind < LISTENER_KIND_COUNT; kind++)
			fd_close(&c->listener_fds[kind][i]);
		fd_close(&c->keeper_ends[i][0]);
		fd_close(&c->keeper_ends[i][1]);
		member_fini(&c->worker[i]);
	}
	member_fini(&c->keeper);
	member_fini(&c->recorder);
	audit_ring_free(ptr_take(c->own_ring));
	audit_segment_free(ptr_take(c->segment));
	policy_free(ptr_take(c->policy));
	buf_fini(&c->hosts);
}

int crew_open(struct crew *c, struct failure *why)
{
	uint8_t raw[(CREW_INSTANCE_BYTES - 1) / 2];
	random_bytes(raw, sizeof(raw));
	for (size_t i = 0; i < sizeof(raw); i++)
		(void)snprintf(c->instance + 2 * i, 3, "%02x", raw[i]);
	for (unsigned i = 0; i < c->workers; i++) {
		int r = channel_pair(c->keeper_ends[i]);
		if (r < 0)
			return failure_errno(why, r, "proxy: channel");
		r = c->budget_fds[i] = budget_create();
		if (r < 0)
			return failure_errno(why, r, "proxy: memory for budgets");
		r = c->synthetic_fds[i] = synthetic_create();
		if (r < 0)
			return failure_errno(why, r, "proxy: memory for synthetic addresses");
		c->commit_fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (c->commit_fds[i] < 0)
			return failure_errno(why, -errno, "proxy: eventfd");
	}
	int r = channel_pair(c->attest_ends);
	if (r < 0)
		return failure_errno(why, r, "proxy: channel");
	if (pipe2(c->wake, O_CLOEXEC | O_NONBLOCK) < 0)
		return failure_errno(why, -errno, "proxy: pipe");
	return 0;
}

int crew_take_segment(struct crew *c, struct failure *why)
{
	struct audit_segment *next = NULL;
	int r = audit_segment_attach(c->next_fd, NULL, &next, why);
	if (r < 0)
		return r;
	audit_segment_free(c->segment);
	c->segment = next;
	fd_close(&c->segment_fd);
	c->segment_fd = fd_take(&c->next_fd);
	return 0;
}

/** What every child does first. @return whether it may go on. */
static bool child_enter(enum confine_role role, const int *fds, size_t count, struct failure *why)
{
	sigset_t none;
	(void)sigemptyset(&none);                    /* can't fail on a set of ours */
	(void)sigprocmask(SIG_SETMASK, &none, NULL); /* can't fail with these arguments */
	int r = confine_keep_only(fds, count);
	if (r < 0)
		(void)failure_errno(why, r, "proxy: can't close descriptors");
	else
		r = confine_enter(role, why);
	if (r < 0)
		log_event(LOG_LEVEL_ERROR, "not-confined", "process=%s error=%s",
			confine_role_name(role), why->text);
	return r == 0;
}

static int keeper_child(struct crew *c, int channel_fd)
{
	int keep[MESSAGE_WORKERS_MAX + 5], ends[MESSAGE_WORKERS_MAX];
	struct failure why = {0};
	for (unsigned i = 0; i < c->workers; i++)
		keep[i] = ends[i] = c->keeper_ends[i][1];
	keep[c->workers] = channel_fd;
	keep[c->workers + 1] = c->ca_fd;
	keep[c->workers + 2] = c->ca_key_fd;
	keep[c->workers + 3] = c->audit_key_fd;
	keep[c->workers + 4] = c->attest_ends[1];
	if (!child_enter(CONFINE_KEEPER, keep, c->workers + 5, &why))
		return 1;
	return keeper_run(&(struct keeper_context){.worker_fds = ends,
		.worker_count = c->workers,
		.super_fd = channel_fd,
		.policy = ptr_take(c->policy),
		.ca_fd = c->ca_fd,
		.ca_key_fd = c->ca_key_fd,
		.ca_lifetime_s = c->start.ca_lifetime_s,
		.audit_key_fd = c->audit_key_fd,
		.attest_fd = c->attest_ends[1],
		.profile = c->start.profile});
}

static int recorder_child(struct crew *c, int channel_fd)
{
	struct disk disk;
	disk_open(&disk);
	int keep[MESSAGE_WORKERS_MAX + 7] = {channel_fd, c->wake[0], c->segment_fd, c->next_fd,
		c->attest_ends[0], disk.event_fd, disk.ask_fd};
	memcpy(keep + 7, c->commit_fds, c->workers * sizeof(keep[0]));
	struct audit_ring *rings[MESSAGE_WORKERS_MAX + 1];
	struct failure why = {0};
	unsigned count = 0;
	for (; count < c->workers; count++) {
		rings[count] = audit_ring_map(c->ring_fds[count]);
		if (rings[count] == NULL)
			return 1;
	}
	if (c->own_ring != NULL)
		rings[count++] = c->own_ring;
	if (!child_enter(CONFINE_RECORDER, keep, c->workers + 7, &why))
		return 1;
	return recorder_run(&(struct recorder_context){.channel_fd = channel_fd,
		.wake_fd = c->wake[0],
		.segment = c->segment,
		.segment_fd = c->segment_fd,
		.disk = &disk,
		.segment_bytes = (off_t)c->start.segment_bytes,
		.next = c->next_fd >= 0 ? &c->next : NULL,
		.next_fd = c->next_fd,
		.attest_fd = c->attest_ends[0],
		.commit_fds = c->commit_fds,
		.commit_count = c->workers,
		.rings = rings,
		.ring_count = count});
}

static int worker_child(struct crew *c, unsigned index, int channel_fd)
{
	struct worker_context context = {.index = index,
		.channel_fd = channel_fd,
		.keeper_fd = c->keeper_ends[index][0],
		.recorder_fd = c->wake[1],
		.commit_fd = c->commit_fds[index],
		.explicit_fd = c->listener_fds[LISTENER_EXPLICIT][index],
		.transparent_fd = c->listener_fds[LISTENER_TRANSPARENT][index],
		.dns_udp_fd = c->listener_fds[LISTENER_DNS_UDP][index],
		.dns_tcp_fd = c->listener_fds[LISTENER_DNS_TCP][index],
		.guard_fd = c->guard_fd,
		.ca_bundle_fd = c->ca_bundle_fd,
		.upstream_ca_fd = c->upstream_ca_fd,
		.hosts = buf_slice(&c->hosts),
		.upstream_proxy = c->upstream_proxy.count > 0 ? &c->upstream_proxy : NULL,
		.ring = audit_ring_map(c->ring_fds[index]),
		.budget = budget_open(c->budget_fds[index]),
		.synthetic = synthetic_open(c->synthetic_fds[index]),
		.metrics = metrics_open(c->metrics_fds[index]),
		.policy = ptr_take(c->policy),
		.policy_origin = c->policy_origin,
		.start = &c->start,
		.instance = c->instance};
	int keep[] = {context.channel_fd, context.keeper_fd, context.recorder_fd, context.commit_fd,
		context.explicit_fd, context.transparent_fd, context.dns_udp_fd, context.dns_tcp_fd,
		context.guard_fd, context.ca_bundle_fd, context.upstream_ca_fd};
	struct failure why = {0};
	if (context.ring == NULL)
		(void)failure_set(&why, -EBADMSG, "proxy: a ring of the audit log is not one");
	else if (context.budget == NULL || context.synthetic == NULL || context.metrics == NULL)
		(void)failure_set(
			&why, -ENOMEM, "proxy: memory for budgets, addresses and metrics");
	if (why.code != 0 || !child_enter(CONFINE_WORKER, keep, array_size(keep), &why)) {
		message_send_failed(channel_fd, why.code, why.text);
		return 1;
	}
	struct message_header ready = {.kind = MESSAGE_PROXY_READY};
	if (channel_send(channel_fd, &ready, sizeof(ready), NULL, 0) < 0)
		return 1;
	return worker_run(&context);
}

/** Fork into a role. @return 0 in the child, 1 in the parent, negative errno. */
static int member_fork(
	struct crew_member *m, enum confine_role role, int *ret_child_fd, struct failure *why)
{
	int ends[2];
	int r = channel_pair(ends);
	if (r < 0)
		return failure_errno(why, r, "proxy: channel");
	int pidfd = -1;
	pid_t pid = confine_fork(role, &pidfd);
	if (pid == 0) {
		*ret_child_fd = ends[1];
		return 0;
	}
	fd_close(&ends[1]);
	if (pid < 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
		r = pid < 0 ? pid : -errno;
		fd_close(&ends[0]);
		fd_close(&pidfd);
		return failure_errno(why, r,
			"proxy: can't start %s in namespaces of its own (is "
			"user.max_user_namespaces 0, or are unprivileged user namespaces "
			"forbidden?)",
			confine_role_name(role));
	}
	member_fini(m);
	*m = (struct crew_member){.state = MEMBER_STARTING,
		.pid = pid,
		.pidfd = pidfd,
		.channel_fd = ends[0],
		.starts = m->starts + 1,
		.started_ns = clock_monotonic_ns()};
	return 1;
}

int crew_start_keeper(struct crew *c, struct failure *why)
{
	int fd = -1;
	int r = member_fork(&c->keeper, CONFINE_KEEPER, &fd, why);
	if (r == 0)
		_exit(keeper_child(c, fd));
	for (unsigned i = 0; r > 0 && i < c->workers; i++)
		fd_close(&c->keeper_ends[i][1]); /* so that its death is an end */
	fd_close(&c->ca_fd);
	fd_close(&c->ca_key_fd); /* nobody else may read it */
	fd_close(&c->audit_key_fd);
	fd_close(&c->attest_ends[1]);
	return r < 0 ? r : 0;
}

int crew_start_recorder(struct crew *c, struct failure *why)
{
	int fd = -1;
	int r = member_fork(&c->recorder, CONFINE_RECORDER, &fd, why);
	if (r == 0)
		_exit(recorder_child(c, fd));
	return r < 0 ? r : 0;
}

/** Answers to a dead predecessor's requests. */
static void drop_replies(int fd)
{
	struct keeper_reply reply;
	while (recv(fd, &reply, sizeof(reply), MSG_DONTWAIT) > 0)
		continue;
}

int crew_start_worker(struct crew *c, unsigned index, struct failure *why)
{
	int fd = -1;
	drop_replies(c->keeper_ends[index][0]);
	int r = member_fork(&c->worker[index], CONFINE_WORKER, &fd, why);
	if (r == 0)
		_exit(worker_child(c, index, fd));
	return r < 0 ? r : 0;
}

void crew_kill(struct crew_member *m)
{
	if (m->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, m->pidfd, SIGKILL, NULL, 0); /* or it ended */
}

int crew_reap(struct crew_member *m)
{
	siginfo_t info = {0};
	(void)waitid(P_PIDFD, (id_t)m->pidfd, &info, WEXITED); /* the pidfd said that it ended */
	m->state = MEMBER_DEAD;
	member_fini(m);
	return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
}
