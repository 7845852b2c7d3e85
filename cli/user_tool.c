/* See user_tool.h. What the program answers is its user's word, parsed as any other text. */
#include "cli/user_tool.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define VARIABLES_MAX   256
#define ERROR_BYTES_MAX ((size_t)64 << 10)

extern char **environ;

/** A program that runs. */
struct running {
	const char *name;
	pid_t pid;
	int out, error; /* our ends; -1: the program closed its end */
	struct buf *to;
	struct buf said; /* standard error */
};

/** The first executable file of that name in an absolute folder of PATH. */
static int find_program(const char *name, char ret[static PATH_MAX])
{
	const char *path = getenv("PATH");
	struct slice rest = slice_of(path == NULL ? "/usr/bin:/bin" : path);
	while (rest.len > 0) {
		struct stat st;
		struct slice folder = rest;
		if (!slice_split(rest, ':', &folder, &rest))
			rest = (struct slice){0};
		if (folder.len == 0 || folder.ptr[0] != '/')
			continue; /* not whatever lies in the working folder */
		int len = snprintf(ret, PATH_MAX, "%.*s/%s", (int)folder.len, folder.ptr, name);
		if (len > 0 && len < PATH_MAX && access(ret, X_OK) == 0 && stat(ret, &st) == 0 &&
			S_ISREG(st.st_mode))
			return 0;
	}
	return -ENOENT;
}

static bool is_roots(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && st.st_uid == 0 && (st.st_mode & 022) == 0;
}

/** Root obeys nobody else's files: neither a program, nor what is in a home or beside the caller. */
static int check_owner(const char *program, struct failure *why)
{
	const char *home = getenv("HOME");
	const char *const places[] = {program, home == NULL ? "/" : home, "."};
	if (geteuid() != 0)
		return 0;
	for (size_t i = 0; i < array_size(places); i++) {
		if (!is_roots(places[i]))
			return failure_set(why, -EPERM,
				"%s is not root's alone, and root would obey it: import as the user whose it is, or from "
				"another folder",
				places[i]);
	}
	return 0;
}

static bool is_passed(const struct user_tool *tool, const char *variable)
{
	static const char *const always[] = {"PATH=", "HOME=", "USER=", "LOGNAME=", "TMPDIR=",
		"XDG_CONFIG_HOME=", "XDG_CONFIG_DIRS=", "XDG_CACHE_HOME="};
	static const char *const network[] = {"http_proxy=", "https_proxy=", "no_proxy=",
		"HTTP_PROXY=", "HTTPS_PROXY=", "NO_PROXY=", "SSL_CERT_FILE=", "SSL_CERT_DIR=",
		"REQUESTS_CA_BUNDLE=", "CURL_CA_BUNDLE="};
	struct slice text = slice_of(variable);
	bool passed = false;
	for (size_t i = 0; i < array_size(always); i++)
		passed |= slice_starts(text, slice_of(always[i]));
	for (size_t i = 0; i < array_size(network); i++)
		passed |= tool->network && slice_starts(text, slice_of(network[i]));
	for (size_t i = 0; i < USER_TOOL_PREFIXES_MAX && tool->prefixes[i] != NULL; i++)
		passed |= slice_starts(text, slice_of(tool->prefixes[i]));
	return passed;
}

/** One language, and lines that are not folded. */
static void choose_variables(const struct user_tool *tool, char *to[static VARIABLES_MAX])
{
	static char language[] = "LC_ALL=C.UTF-8", columns[] = "COLUMNS=4000";
	size_t count = 0;
	to[count++] = language;
	to[count++] = columns;
	for (char **v = environ; *v != NULL && count + 1 < VARIABLES_MAX; v++) {
		if (is_passed(tool, *v))
			to[count++] = *v;
	}
	to[count] = NULL;
}

static int spawn(const struct user_tool *tool, const char *program, int out, int error, pid_t *ret)
{
	char *variables[VARIABLES_MAX];
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	choose_variables(tool, variables);
	int r = posix_spawn_file_actions_init(&files);
	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r == 0) {
		r = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
		if (r == 0)
			r = posix_spawn_file_actions_adddup2(&files, out, 1);
		if (r == 0)
			r = posix_spawn_file_actions_adddup2(&files, error, 2);
		if (r == 0)
			r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
		if (r == 0)
			r = posix_spawn(ret, program, &files, &attributes,
				(char *const *)tool->argv, variables);
		(void)posix_spawnattr_destroy(&attributes);
	}
	(void)posix_spawn_file_actions_destroy(&files);
	return -r;
}

/** Read what is there; closes *fd at the end. */
static int take_some(int *fd, struct buf *to, size_t limit)
{
	char *room;
	int r = buf_reserve(to, 65536, &room);
	if (r < 0)
		return r == -ENOBUFS ? -EFBIG : r;
	ssize_t got = read(*fd, room, 65536);
	if (got < 0)
		return errno == EINTR || errno == EAGAIN ? 0 : -errno;
	if (got == 0)
		fd_close(fd);
	buf_grew(to, (size_t)got);
	return buf_len(to) > limit ? -EFBIG : 0;
}

static int read_all(struct running *p, uint64_t deadline_ns)
{
	int r = 0;
	size_t before = buf_len(p->to);
	while (r == 0 && (p->out >= 0 || p->error >= 0)) {
		uint64_t now_ns = clock_monotonic_ns();
		struct pollfd fds[] = {
			{.fd = p->out, .events = POLLIN}, {.fd = p->error, .events = POLLIN}};
		if (now_ns >= deadline_ns)
			return -ETIMEDOUT;
		int ready = poll(fds, 2, (int)((deadline_ns - now_ns) / 1000000) + 1);
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (ready > 0 && fds[0].revents != 0)
			r = take_some(&p->out, p->to, before + USER_TOOL_BYTES_MAX);
		if (ready > 0 && fds[1].revents != 0 && r == 0)
			r = take_some(&p->error, &p->said, ERROR_BYTES_MAX);
	}
	return r;
}

/** Its own end, or the end of all that it started. */
static int finish(struct running *p, int r, struct failure *why)
{
	int status = 0;
	char shown[256];
	if (r < 0)
		(void)kill(-p->pid, SIGKILL); /* the group is its own; it may be gone */
	while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) {
	}
	if (r == -EFBIG)
		return failure_set(why, r, "%s wrote more than 8 MiB", p->name);
	if (r == -ETIMEDOUT)
		return failure_set(why, r, "%s did not end within 60 s", p->name);
	if (r < 0)
		return failure_errno(why, r, "%s", p->name);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	struct slice last = {0}, line, rest = buf_slice(&p->said);
	while (rest.len > 0) {
		line = rest;
		if (!slice_split(rest, '\n', &line, &rest))
			rest = (struct slice){0};
		if (slice_trim(line).len > 0)
			last = line;
	}
	return failure_set(
		why, -EIO, "%s failed: %s", p->name, slice_escape(last, shown, sizeof(shown)));
}

int user_tool_run(const struct user_tool *tool, struct buf *to, struct failure *why)
{
	char program[PATH_MAX];
	int out[2], error[2];
	struct running p = {
		.name = tool->argv[0], .to = to, .said = {.limit = 2 * ERROR_BYTES_MAX}};
	int r = find_program(p.name, program);
	if (r < 0)
		return failure_set(why, r, "there is no %s in PATH", p.name);
	r = check_owner(program, why);
	if (r < 0)
		return r;
	if (pipe2(out, O_CLOEXEC) < 0)
		return failure_errno(why, -errno, "%s", p.name);
	if (pipe2(error, O_CLOEXEC) < 0) {
		r = failure_errno(why, -errno, "%s", p.name);
		(void)close(out[0]);
		(void)close(out[1]);
		return r;
	}
	r = spawn(tool, program, out[1], error[1], &p.pid);
	(void)close(out[1]);
	(void)close(error[1]);
	p.out = out[0];
	p.error = error[0];
	if (r < 0)
		(void)failure_errno(why, r, "%s", program);
	else
		r = finish(
			&p, read_all(&p, clock_monotonic_ns() + USER_TOOL_TIME_MS * 1000000), why);
	fd_close(&p.out);
	fd_close(&p.error);
	buf_fini(&p.said);
	return r;
}
