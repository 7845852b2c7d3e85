/*
 * See program.h. posix_spawn() shares our memory until exec, so a large launcher costs nothing
 * here.
 */
#include "ipc/program.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#define PROGRAM_FIRST_FD  3
#define PROGRAM_SECOND_FD 4
#define PROGRAM_KILL_NS   NS_PER_SEC
/* between looks at children that die, if none says so */
#define PROGRAM_LOOK_NS (10 * NS_PER_MS)

/* what a test may tell our programs; sanitizers' options for its own builds */
static const char *const passed_variables[] = {
	"ECLUSA_FAULT", "ECLUSA_LIMITS", "ASAN_OPTIONS", "UBSAN_OPTIONS"};

/** Fill @to with NAME=VALUE strings that the caller frees, NULL at the end. */
static int program_environment(char *to[static array_size(passed_variables) + 1])
{
	size_t used = 0;
	for (size_t i = 0; i < array_size(passed_variables); i++) {
		const char *value = getenv(passed_variables[i]);
		if (value == NULL)
			continue;
		if (asprintf(&to[used], "%s=%s", passed_variables[i], value) < 0) {
			to[used] = NULL;
			return -ENOMEM;
		}
		used++;
	}
	to[used] = NULL;
	return 0;
}

/**
 * Descriptors as the child shall have them. @first and @second are 5 or above, so that none
 * overwrites the other.
 */
static int program_actions(posix_spawn_file_actions_t *actions, int first, int second)
{
	int r = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_addopen(
			actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(actions, first, PROGRAM_FIRST_FD);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(actions, second, PROGRAM_SECOND_FD);
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(actions, PROGRAM_SECOND_FD + 1);
	return -r;
}

/**
 * No signal blocked or ignored, and a session of its own: a terminal's ^C is the launcher's to
 * handle.
 */
static int program_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none;
	sigset_t all;
	(void)sigemptyset(&none); /* can't fail on valid memory */
	(void)sigfillset(&all);
	int r = posix_spawnattr_setsigmask(attributes, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(attributes, &all);
	if (r == 0)
		r = posix_spawnattr_setflags(attributes,
			POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
	return -r;
}

static int program_exec(const char *path, int first, int second, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	char *environment[array_size(passed_variables) + 1] = {NULL};
	char *arguments[] = {(char *)(uintptr_t)path, NULL};
	int r = -posix_spawn_file_actions_init(&actions);
	if (r < 0)
		return r;
	r = -posix_spawnattr_init(&attributes);
	if (r == 0) {
		r = program_actions(&actions, first, second);
		if (r == 0)
			r = program_attributes(&attributes);
		if (r == 0)
			r = program_environment(environment);
		if (r == 0)
			r = -posix_spawn(
				ret_pid, path, &actions, &attributes, arguments, environment);
		(void)posix_spawnattr_destroy(&attributes); /* can't fail */
	}
	(void)posix_spawn_file_actions_destroy(&actions); /* can't fail */
	for (size_t i = 0; i < array_size(environment); i++)
		free(environment[i]);
	return r;
}

int program_spawn(
	const char *name, int first_fd, int second_fd, struct program *ret, struct failure *why)
{
	char path[PATH_MAX];
	int r = file_sibling_program(name, path, sizeof(path));
	if (r < 0)
		return failure_errno(why, r, "can't find %s beside this program or in %s", name,
			ECLUSA_LIBEXECDIR);
	auto_fd first = fcntl(first_fd, F_DUPFD_CLOEXEC, PROGRAM_SECOND_FD + 1);
	auto_fd second = fcntl(second_fd, F_DUPFD_CLOEXEC, PROGRAM_SECOND_FD + 1);
	if (first < 0 || second < 0)
		return failure_errno(why, -errno, "can't start %s", name);
	struct program p = {.name = name, .channel_fd = ret->channel_fd};
	r = program_exec(path, first, second, &p.pid);
	if (r < 0)
		return failure_errno(why, r, "can't start %s", path);
	p.pidfd = pidfd_open(p.pid, 0); /* not reaped yet: the pid is still its own */
	if (p.pidfd < 0) {
		r = -errno;
		(void)kill(p.pid, SIGKILL);
		(void)waitpid(p.pid, NULL, 0);
		return failure_errno(why, r, "can't watch %s", name);
	}
	*ret = p;
	return 0;
}

/** Whether it ended before the deadline. */
static bool program_ends(const struct program *p, uint64_t deadline_ns)
{
	for (;;) {
		uint64_t now = clock_monotonic_ns();
		uint64_t left_ms =
			now >= deadline_ns ? 0 : (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS;
		struct pollfd wait = {.fd = p->pidfd, .events = POLLIN};
		int r = poll(&wait, 1, left_ms > INT_MAX ? INT_MAX : (int)left_ms);
		if (r > 0)
			return true;
		if (r == 0 && left_ms == 0)
			return false;
	}
}

/** Until some child has ended, or for a while: what is looked at then may have ended long ago. */
static void program_await_child(const sigset_t *child_ends)
{
	const struct timespec limit = {.tv_nsec = (long)PROGRAM_LOOK_NS};
	(void)sigtimedwait(child_ends, NULL, &limit);
}

/**
 * Reap the leader and the children of its group that came to us, until none is left. @return whether that was before the deadline.
 */
static bool program_reap_group(struct program *p, uint64_t deadline_ns)
{
	sigset_t child_ends, before;
	int status;
	bool gone = false;
	(void)sigemptyset(&child_ends); /* can't fail on a set of ours, as the next ones */
	(void)sigaddset(&child_ends, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &child_ends, &before);
	for (;;) {
		pid_t got = waitpid(-p->pid, &status, WNOHANG | __WALL);
		if (got == p->pid)
			p->status = status;
		gone = got < 0 && errno == ECHILD;
		if (gone || clock_monotonic_ns() >= deadline_ns)
			break;
		if (got == 0)
			program_await_child(&child_ends); /* killed, and dying */
	}
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return gone;
}

bool program_end(struct program *p, uint64_t deadline_ns)
{
	if (p->pid <= 0)
		return true;
	bool ended = program_ends(p, deadline_ns);
	/* the leader is not reaped yet, so the group's number can't be another's */
	(void)kill(-p->pid, SIGKILL);
	uint64_t last_ns = clock_monotonic_ns() + PROGRAM_KILL_NS;
	if (!ended)
		(void)program_ends(p, last_ns);
	bool gone = program_reap_group(p, last_ns);
	p->pid = 0;
	return gone;
}

void program_kill(const struct program *p)
{
	if (p->pid > 0)
		(void)kill(-p->pid, SIGKILL); /* not reaped yet, so the number is its own */
}

char *program_ending(const struct program *p, char *to, size_t capacity)
{
	if (WIFSIGNALED(p->status))
		(void)snprintf(to, capacity, "was killed by signal %d", WTERMSIG(p->status));
	else
		(void)snprintf(to, capacity, "ended with status %d", WEXITSTATUS(p->status));
	return to;
}

void program_fini(struct program *p)
{
	fd_close(&p->pidfd);
	fd_close(&p->channel_fd);
}
