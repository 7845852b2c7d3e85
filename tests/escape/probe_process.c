/* See probe.h: the processes and terminals around, the rights of this one, and what goes on after it. */
#include "tests/escape/probe.h"

#include "common/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define LINGER_SECONDS 10

/* CVE-2017-5226; CVE-2019-10063: the request in 64 bits; CVE-2023-28100: TIOCLINUX. The letter goes to the driver's terminal. */
static void terminal(struct attempt *a)
{
	static const struct {
		const char *name;
		unsigned long request;
	} requests[] = {{"TIOCSTI", TIOCSTI}, {"TIOCSTI | 1 << 32", TIOCSTI | 1UL << 32},
		{"TIOCLINUX", TIOCLINUX}};
	auto_fd own = open("/dev/tty", O_RDWR | O_CLOEXEC);
	if (own >= 0)
		attempt_reached(a, "/dev/tty: opened");
	else
		attempt_refused(a, "/dev/tty: %s", strerrorname_np(errno));
	for (size_t i = 0; i < array_size(requests); i++) {
		int error = 0;
		bool worked = false;
		for (int fd = 0; fd <= 3 && !worked; fd++) {
			char letter[] = "\2"; /* as TIOCLINUX, 2 would be a selection: nothing */
			worked = syscall(SYS_ioctl, fd == 3 ? own : fd, requests[i].request,
					 letter) == 0;
			error = errno;
		}
		if (worked)
			attempt_reached(a, "%s: worked", requests[i].name);
		else
			attempt_refused(a, "%s: %s", requests[i].name, strerrorname_np(error));
	}
}

static bool trace_one(struct attempt *a, pid_t pid)
{
	char what[32];
	(void)snprintf(what, sizeof(what), "seize %d", (int)pid);
	long r = ptrace(PTRACE_SEIZE, pid, NULL, NULL);
	attempt_call(a, what, r); /* it does not stop, and is let go at our end */
	(void)snprintf(what, sizeof(what), "/proc/%d/mem", (int)pid);
	attempt_open(a, what, O_RDONLY);
	return !a->reached;
}

/* GHSA-q7w7-m7vg-xxg8: a helper without the filter, in reach of a program with one. */
static void tracing(struct attempt *a)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)0x400000, 1};
	attempt_others(a, trace_one);
	if (attempt_is_own(1)) {
		attempt_refused(a, "no program but this one");
		return;
	}
	auto_fd first = (int)syscall(SYS_pidfd_open, 1, 0);
	attempt_call(a, "pidfd_getfd", first < 0 ? -1 : syscall(SYS_pidfd_getfd, first, 0, 0));
	if (process_vm_readv(1, &here, 1, &there, 1, 0) < 0 && errno != EFAULT && errno != EIO)
		attempt_refused(a, "process_vm_readv: %s", strerrorname_np(errno));
	else
		attempt_reached(a, "process_vm_readv: worked");
}

static bool read_one(struct attempt *a, pid_t pid)
{
	static const char *const names[] = {"environ", "cmdline", "maps"};
	for (size_t i = 0; i < array_size(names); i++) {
		char path[48], text[16];
		(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, names[i]);
		auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, text, sizeof(text)) > 0)
			attempt_reached(a, "%s: read", path);
	}
	return !a->reached;
}

/* Secrets of whoever runs this. */
static void supervisor_secrets(struct attempt *a)
{
	char path[48];
	attempt_others(a, read_one);
	if (a->reached)
		return;
	for (int i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "/proc/%d/environ", i == 0 ? 1 : (int)getsid(0));
		auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
		attempt_refused(
			a, "%s: %s", path, fd < 0 ? strerrorname_np(errno) : "this program's own");
	}
}

static const char *status_field(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	return at == NULL ? "" : at + strlen(name);
}

/* CVE-2022-29162: the inheritable set, and the four others. */
static void capabilities(struct attempt *a)
{
	static const char *const sets[] = {
		"CapInh:\t", "CapPrm:\t", "CapEff:\t", "CapBnd:\t", "CapAmb:\t"};
	char text[4096] = {0};
	auto_fd fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0) {
		attempt_refused(a, "no /proc/self/status");
		return;
	}
	for (size_t i = 0; i < array_size(sets); i++) {
		const char *value = status_field(text, sets[i]);
		if (strtoull(value, NULL, 16) != 0)
			attempt_reached(a, "%.6s %.16s", sets[i], value);
	}
	if (!a->reached)
		attempt_refused(a, "all five sets are empty");
}

/* A program that gains rights by being run, which no_new_privs forbids; and a file made one. */
static void new_rights(struct attempt *a)
{
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
		attempt_refused(a, "no_new_privs is set");
	else
		attempt_reached(a, "no_new_privs is not set");
	if (getuid() != 0)
		attempt_call(a, "setuid(0)", setuid(0));
	long mode = prctl(PR_GET_SECCOMP, 0, 0, 0, 0);
	if (mode == 2)
		attempt_refused(a, "calls are filtered");
	else
		attempt_reached(a, "calls are not filtered");
}

/* CVE-2022-0492: a hierarchy of its own, whose release_agent the host runs. Nothing is written. */
static void release_agent(struct attempt *a)
{
	(void)mkdir("/tmp/groups", 0700); /* may be there */
	static const char *const kinds[] = {"cgroup", "cgroup2"};
	for (size_t i = 0; i < array_size(kinds); i++) {
		/* a hierarchy without a controller: nothing is taken from the host's */
		long r = mount(
			"none", "/tmp/groups", kinds[i], 0, i == 0 ? "none,name=escape" : NULL);
		attempt_call(a, kinds[i], r);
		if (r == 0)
			(void)umount2("/tmp/groups", MNT_DETACH);
	}
	(void)rmdir("/tmp/groups");
	attempt_open(a, "/sys/fs/cgroup/memory/release_agent", O_WRONLY);
	attempt_open(a, "/sys/fs/cgroup/pids/release_agent", O_WRONLY);
	attempt_open(a, "/sys/fs/cgroup/systemd/release_agent", O_WRONLY);
}

/* CVE-2023-25809, nsjail 199: groups that can be made or changed from inside. What is made is removed. */
static void own_groups(struct attempt *a)
{
	static const char *const folders[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory",
		"/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"};
	for (size_t i = 0; i < array_size(folders); i++) {
		char path[64];
		(void)snprintf(path, sizeof(path), "%s/escape", folders[i]);
		long r = mkdir(path, 0700);
		attempt_call(a, folders[i], r);
		if (r == 0)
			(void)rmdir(path);
	}
}

/* A core that the host's handler takes holds what the limit of memory does not count. */
static void core_dump(struct attempt *a)
{
	struct rlimit limit;
	char folder[] = "/tmp/escape-core-XXXXXX";
	int status = 0;
	if (mkdtemp(folder) == NULL || chdir(folder) < 0)
		attempt_refused(a, "no folder: %s", strerrorname_np(errno));
	if (getrlimit(RLIMIT_CORE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_CORE, &limit); /* as far as it goes */
	}
	pid_t pid = fork();
	if (pid == 0) {
		(void)kill(getpid(), SIGQUIT);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
		attempt_refused(a, "no crash");
	else if (WCOREDUMP(status))
		attempt_reached(a, "a core was written");
	else
		attempt_refused(
			a, "no core, the limit is %llu", (unsigned long long)limit.rlim_max);
	(void)unlink("core");
	(void)rmdir(folder);
}

/* A process that goes on alone, under a name the driver looks for, with the streams open. */
static void survivors(struct attempt *a)
{
	char name[64], byte;
	int ends[2];
	(void)snprintf(name, sizeof(name), "linger-%.50s", a->token);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	pid_t pid = fork();
	if (pid == 0) {
		if (setsid() < 0 || fork() != 0)
			_exit(0);
		(void)signal(SIGTERM, SIG_IGN);
		(void)signal(SIGHUP, SIG_IGN);
		(void)alarm(LINGER_SECONDS); /* not for ever, where it does get away */
		(void)execl("/proc/self/exe", name, "linger", (char *)NULL);
		_exit(0);
	}
	(void)close(ends[1]);
	(void)!read(ends[0], &byte, 1); /* until it has its name */
	(void)close(ends[0]);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	attempt_refused(a, "started %s", name); /* the driver judges */
}

const struct probe PROBES_PROCESS[] = {{"terminal", terminal}, {"tracing", tracing},
	{"supervisor-secrets", supervisor_secrets}, {"capabilities", capabilities},
	{"new-rights", new_rights}, {"release-agent", release_agent}, {"own-groups", own_groups},
	{"core-dump", core_dump}, {"survivors", survivors}, {NULL, NULL}};
