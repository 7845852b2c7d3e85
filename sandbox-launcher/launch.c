/* See launch.h. */
#include "sandbox-launcher/launch.h"

#include "common/cleanup.h"
#include "ipc/channel.h"
#include "ipc/fault.h"
#include "sandbox-launcher/userns.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { PIPE_GO, PIPE_REPORT, PIPE_INPUT, PIPE_OUTPUT, PIPE_ERROR, PIPE_COUNT };

struct pipes {
	int end[PIPE_COUNT][2]; /* read, write */
};

static void pipes_close(struct pipes *p)
{
	for (int i = 0; i < PIPE_COUNT; i++) {
		fd_close(&p->end[i][0]);
		fd_close(&p->end[i][1]);
	}
}

static int pipes_open(struct pipes *p, bool wants_input)
{
	for (int i = 0; i < PIPE_COUNT; i++)
		p->end[i][0] = p->end[i][1] = -1;
	for (int i = 0; i < PIPE_COUNT; i++) {
		if (i == PIPE_INPUT && !wants_input)
			continue;
		int r = 0;
		if (i == PIPE_REPORT) /* a descriptor comes by it, too */
			r = channel_pair(p->end[i]);
		else if (pipe2(p->end[i], O_CLOEXEC) < 0)
			r = -errno;
		if (r < 0) {
			pipes_close(p);
			return r;
		}
	}
	return 0;
}

/* Programs open /dev/stdout, which asks for permission anew: the pipes are the sandbox's. */
static int pipes_give(const struct pipes *p, uid_t uid, gid_t gid)
{
	for (int i = PIPE_INPUT; i < PIPE_COUNT; i++)
		if (p->end[i][0] >= 0 && fchown(p->end[i][0], uid, gid) < 0)
			return -errno;
	return 0;
}

static int set_nonblocking(int fd)
{
	if (fd < 0)
		return 0;
	int flags = fcntl(fd, F_GETFL);
	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* Our ends go to @l, the other ends are closed. */
static int pipes_take(struct pipes *p, struct launched *l)
{
	l->go = fd_take(&p->end[PIPE_GO][1]);
	l->report = fd_take(&p->end[PIPE_REPORT][0]);
	l->input = fd_take(&p->end[PIPE_INPUT][1]);
	l->output[0] = fd_take(&p->end[PIPE_OUTPUT][0]);
	l->output[1] = fd_take(&p->end[PIPE_ERROR][0]);
	pipes_close(p);
	const int polled[] = {l->report, l->input, l->output[0], l->output[1]};
	for (size_t i = 0; i < array_size(polled); i++) {
		int r = set_nonblocking(polled[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static void child_ends(struct init_job *job, struct pipes *p)
{
	/* our ends, or the child would keep its own pipes open */
	fd_close(&p->end[PIPE_GO][1]);
	fd_close(&p->end[PIPE_REPORT][0]);
	fd_close(&p->end[PIPE_INPUT][1]);
	fd_close(&p->end[PIPE_OUTPUT][0]);
	fd_close(&p->end[PIPE_ERROR][0]);
	job->go = p->end[PIPE_GO][0];
	job->report = p->end[PIPE_REPORT][1];
	job->streams[0] = p->end[PIPE_INPUT][0];
	job->streams[1] = p->end[PIPE_OUTPUT][1];
	job->streams[2] = p->end[PIPE_ERROR][1];
}

static pid_t clone_init(const struct init_job *job, int *ret_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_PIDFD | CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC |
			CLONE_NEWUTS,
		.pidfd = (uint64_t)(uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
	};
	if (job->cgroup->kind == CGROUP_V2) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned long long)job->cgroup->group[0];
	}
	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* What init waits for. */
static int send_go(const struct launched *l, const struct cgroup *g)
{
	struct init_go message = {0};
	int fds[CGROUP_PART_COUNT];
	size_t count = 0;
	for (int i = 0; i < CGROUP_PART_COUNT; i++) {
		if (g->join[i] < 0)
			continue;
		message.groups |= 1U << i;
		fds[count++] = g->join[i];
	}
	return channel_send(l->report, &message, sizeof(message), fds, count);
}

static int finish_launch(const struct init_job *job, const struct launch_options *options,
	const struct launched *l, struct failure *why)
{
	int r = userns_map(l->pid, SANDBOX_UID, options->uid, SANDBOX_GID, options->gid);
	if (r < 0)
		return failure_errno(why, r, "can't map the sandbox's user");
	r = cgroup_fill(job->cgroup, job->spec, why);
	if (r == 0)
		r = send_go(l, job->cgroup);
	return r < 0 ? failure_errno(why, r, "the sandbox's first process is gone") : 0;
}

/*
 * should: leave the launcher outside all of it.
 * must not be possible: that the program starts before its uid is mapped, or when any step failed.
 */
int launch(struct init_job *job, const struct launch_options *options, struct launched *ret,
	struct failure *why)
{
	struct pipes pipes;
	struct launched l = {.pid = -1, .pidfd = -1};
	bool own_network = options->network_namespace < 0;
	int r = pipes_open(&pipes, options->wants_input);
	if (r == 0)
		r = pipes_give(&pipes, options->uid, options->gid);
	if (r < 0) {
		pipes_close(&pipes);
		return failure_errno(why, r, "can't make the pipes of the sandbox");
	}
	/*
	 * The sandbox can't enter the leased namespace itself: it has no power over it, and must not. So the launcher
	 * does, which opens no socket, and stays there, as an ordinary user could not come back.
	 */
	if (!own_network && setns(options->network_namespace, CLONE_NEWNET) < 0) {
		r = failure_errno(why, -errno, "can't enter the leased network namespace");
		pipes_close(&pipes);
		return r;
	}
	job->own_network = own_network;
	l.pid = clone_init(job, &l.pidfd);
	if (l.pid == 0) {
		child_ends(job, &pipes);
		init_main(job);
	}
	if (l.pid < 0) {
		r = failure_errno(why, -errno,
			"can't make the sandbox's namespaces (`eclusa doctor` says what helps)");
		pipes_close(&pipes);
		return r;
	}
	fault_point("launch-cloned");
	r = pipes_take(&pipes, &l);
	if (r < 0)
		r = failure_errno(why, r, "can't take the pipes of the sandbox");
	else
		r = finish_launch(job, options, &l, why);
	if (r < 0) {
		launched_kill(&l);
		launched_reap(&l);
		launched_fini(&l);
		return r;
	}
	*ret = l;
	return 0;
}

void launched_release(const struct launched *l)
{
	(void)!write(l->go, "", 1); /* it fails when the sandbox died, which its report tells */
}

void launched_kill(const struct launched *l)
{
	if (l->pidfd >= 0)
		(void)syscall(SYS_pidfd_send_signal, l->pidfd, SIGKILL, NULL,
			0); /* gone already is as good */
}

void launched_reap(struct launched *l)
{
	while (l->pid > 0 && waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
		;
	l->pid = -1;
}

void launched_fini(struct launched *l)
{
	fd_close(&l->pidfd);
	fd_close(&l->go);
	fd_close(&l->report);
	fd_close(&l->input);
	fd_close(&l->output[0]);
	fd_close(&l->output[1]);
}
