/* See doctor.h: a check in a child of its own, and what checks share. */
#include "cli/doctor.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/privilege.h"
#include "common/uids.h"
#include "sandbox-launcher/run.h"
#include "sandbox-launcher/userns.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void say(struct doctor_finding *f, const char *remedy, const char *format, va_list arguments)
	__attribute__((format(printf, 3, 0)));
static void say(struct doctor_finding *f, const char *remedy, const char *format, va_list arguments)
{
	(void)vsnprintf(f->text, sizeof(f->text), format, arguments);
	(void)snprintf(f->remedy, sizeof(f->remedy), "%s", remedy == NULL ? "" : remedy);
}

void doctor_ok(struct doctor_finding *f, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	f->state = DOCTOR_OK;
	f->loses = false;
	say(f, NULL, format, arguments);
	va_end(arguments);
}

void doctor_warn(struct doctor_finding *f, bool loses, const char *remedy, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	f->state = DOCTOR_WARN;
	f->loses = loses;
	say(f, remedy, format, arguments);
	va_end(arguments);
}

void doctor_fail(struct doctor_finding *f, const char *remedy, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	f->state = DOCTOR_FAIL;
	f->loses = true;
	say(f, remedy, format, arguments);
	va_end(arguments);
}

/* A process group of its own, so that one signal ends whatever the check has started. */
static void check_main(doctor_check *check, pid_t parent, int to) __attribute__((noreturn));
static void check_main(doctor_check *check, pid_t parent, int to)
{
	struct doctor_finding f = {.state = DOCTOR_FAIL, .loses = true};
	(void)setpgid(0, 0); /* the parent does it, too */
	if (privilege_die_with_parent(parent, SIGKILL) < 0)
		_exit(1);
	check(&f);
	_exit(write(to, &f, sizeof(f)) == (ssize_t)sizeof(f) ? 0 : 1);
}

/* @return 0, -ETIMEDOUT, -EPIPE when the child ended without a word. A finding is shorter than PIPE_BUF: it comes whole. */
static int await(int from, struct doctor_finding *ret)
{
	static_assert(sizeof(*ret) <= PIPE_BUF, "a finding is one write");
	uint64_t deadline_ns = clock_monotonic_ns() + DOCTOR_CHECK_MS * NS_PER_MS;
	for (;;) {
		uint64_t now = clock_monotonic_ns();
		struct pollfd wait = {.fd = from, .events = POLLIN};
		int left_ms = now >= deadline_ns ? 0 : (int)((deadline_ns - now) / NS_PER_MS + 1);
		int r = poll(&wait, 1, left_ms);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r == 0 && left_ms == 0)
			return -ETIMEDOUT;
		if (r > 0)
			return read(from, ret, sizeof(*ret)) == (ssize_t)sizeof(*ret) ? 0 : -EPIPE;
	}
}

/* The check and what it has started, which comes to us as its parent dies. @return how the check ended. */
static int end_check(pid_t pid)
{
	int status = 0, one = 0;
	(void)kill(-pid, SIGKILL); /* not reaped yet: the number is still its own */
	for (;;) {
		pid_t got = waitpid(-pid, &one, 0);
		if (got == pid)
			status = one;
		if (got < 0 && errno != EINTR)
			return status; /* ECHILD: all are gone */
	}
}

int doctor_try(doctor_check *check, struct doctor_finding *ret)
{
	int ends[2];
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	auto_fd from = ends[0];
	auto_fd to = ends[1];
	pid_t parent = getpid(), pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		fd_close(&from);
		check_main(check, parent, to);
	}
	(void)setpgid(pid, pid); /* the child does it, too */
	fd_close(&to);
	struct doctor_finding f;
	int r = await(from, &f), status = end_check(pid);
	if (r == -ETIMEDOUT)
		doctor_fail(&f, NULL, "no answer within %d s", DOCTOR_CHECK_MS / 1000);
	else if (r == -EPIPE)
		doctor_fail(&f, NULL, "the check died (%s)",
			WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "without a word");
	else if (r < 0)
		return r;
	*ret = f;
	return 0;
}

int doctor_enter(struct doctor_finding *f)
{
	struct failure why = {0};
	int r = sandbox_enter(&why);
	if (r < 0)
		doctor_fail(f, userns_remedy(), "can't be tried: %s", strerror(-r));
	return r;
}

/* In a child that stays outside: waits for the namespace of its parent, and maps it as the launcher maps a sandbox. */
static void map_parent(pid_t parent, bool root, int from) __attribute__((noreturn));
static void map_parent(pid_t parent, bool root, int from)
{
	uid_t uid = root ? ECLUSA_UID_PROXY : 0;
	char byte;
	if (read(from, &byte, 1) != 1)
		_exit(EIO);
	_exit(-userns_map(parent, SANDBOX_UID, uid, SANDBOX_GID, (gid_t)uid));
}

/* @return 0 or negative errno; the exit status of the child is an errno, all of which are smaller than 256 here. */
static int become_sandbox(bool root)
{
	int ends[2], status = 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	auto_fd from = ends[0];
	auto_fd to = ends[1];
	pid_t self = getpid(), pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		fd_close(&to);
		map_parent(self, root, from);
	}
	int r = unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 ? -errno : 0;
	if (r == 0 && write(to, "", 1) != 1)
		r = -errno;
	fd_close(&to); /* without a byte it ends */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r == 0 && status != 0)
		r = WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
	if (r == 0 &&
		(setresgid(SANDBOX_GID, SANDBOX_GID, SANDBOX_GID) < 0 ||
			setresuid(SANDBOX_UID, SANDBOX_UID, SANDBOX_UID) < 0))
		r = -errno;
	return r;
}

int doctor_enter_sandbox(struct doctor_finding *f)
{
	bool root = userns_is_initial_root();
	int r = doctor_enter(f);
	if (r < 0)
		return r;
	r = become_sandbox(root);
	if (r < 0)
		doctor_fail(f, root && r == -EPERM ? DOCTOR_CAPABILITIES : userns_remedy(),
			"can't be tried: the sandbox's namespaces: %s", strerror(-r));
	return r;
}

/* In the grandchild, which holds nothing but its three streams. */
static void program_main(const char *path, const char *const *arguments, int to)
	__attribute__((noreturn));
static void program_main(const char *path, const char *const *arguments, int to)
{
	char *words[6] = {(char *)(uintptr_t)path, NULL};
	for (size_t i = 0; i < array_size(words) - 2 && arguments[i] != NULL; i++)
		words[i + 1] = (char *)(uintptr_t)arguments[i];
	if (dup2(to, STDOUT_FILENO) < 0 || dup2(to, STDERR_FILENO) < 0)
		_exit(127);
	(void)execv(path, words);
	(void)dprintf(STDOUT_FILENO, "%s", strerror(errno));
	_exit(127);
}

int doctor_program(const char *name, const char *const *arguments, char *ret_text, size_t capacity)
{
	char path[PATH_MAX];
	int ends[2], status = 0;
	int r = file_sibling_program(name, path, sizeof(path));
	if (r < 0)
		return r;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	auto_fd from = ends[0];
	auto_fd to = ends[1];
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0)
		program_main(path, arguments, to);
	fd_close(&to);
	struct buf text;
	buf_init(&text, (size_t)1 << 20);
	r = file_read_fd(from, 16384, &text);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r == 0) {
		struct slice line = buf_slice(&text);
		(void)slice_split(line, '\n', &line, &(struct slice){0});
		(void)slice_escape(line, ret_text, capacity);
	}
	buf_fini(&text);
	return r < 0 ? r : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
