/* See confine.h. Landlock restricts paths, the filter of system calls everything else. */
#include "export/confine.h"

#include "common/call_filter.h"
#include "common/cleanup.h"
#include "common/privilege.h"
#include "common/slice.h"
#include "export/sink.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define NETWORK SINK_NEEDS_NETWORK
#define UNIX    SINK_NEEDS_UNIX
#define THREADS SINK_NEEDS_THREADS
#define EVERY   CALL_FILTER_EVERYBODY
#define PLAIN   (1U << 31) /* one that needs nothing is somebody, too */
#define SOCKETS (NETWORK | UNIX)

/** Rights that are handled, up to the third version; what is not granted is refused. */
#define HANDLED_1   ((UINT64_C(1) << 13) - 1)
#define RIGHTS_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHTS_WRITE                                                                               \
	(RIGHTS_READ | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |               \
		LANDLOCK_ACCESS_FS_REMOVE_FILE)
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (UINT64_C(1) << 14)
#endif

/** Where look-ups of names find what they need, as far as it is there. */
static const char *const lookup_folders[] = {
	"/etc", "/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf"};

static const struct call_rule allowed[] = {
	/* descriptors and the files that Landlock leaves */
	{EVERY, SCMP_SYS(read)},
	{EVERY, SCMP_SYS(write)},
	{EVERY, SCMP_SYS(writev)},
	{EVERY, SCMP_SYS(pread64)},
	{EVERY, SCMP_SYS(lseek)},
	{EVERY, SCMP_SYS(close)},
	{EVERY, SCMP_SYS(openat)},
	{EVERY, SCMP_SYS(fstat)},
	{EVERY, SCMP_SYS(newfstatat)},
	{EVERY, SCMP_SYS(getdents64)},
	{EVERY, SCMP_SYS(renameat)},
	{EVERY, SCMP_SYS(renameat2)},
	{EVERY, SCMP_SYS(fsync)},
	{EVERY, SCMP_SYS(fdatasync)},
	{EVERY, SCMP_SYS(poll)},
	{EVERY, SCMP_SYS(ppoll)},
	{EVERY, SCMP_SYS(sendmsg)},
	{EVERY, SCMP_SYS(recvmsg)},
	{UNIX, SCMP_SYS(memfd_create)},
	{NETWORK, SCMP_SYS(pipe2)},
	{NETWORK, SCMP_SYS(eventfd2)},
	{NETWORK, SCMP_SYS(epoll_create1)},
	{NETWORK, SCMP_SYS(epoll_ctl)},
	{NETWORK, SCMP_SYS(epoll_wait)},
	{NETWORK, SCMP_SYS(epoll_pwait)},
	{NETWORK, SCMP_SYS(select)},
	{NETWORK, SCMP_SYS(pselect6)},
	/* sockets; which ones can be made is below */
	{SOCKETS, SCMP_SYS(connect)},
	{SOCKETS, SCMP_SYS(getsockopt)},
	{SOCKETS, SCMP_SYS(setsockopt)},
	{SOCKETS, SCMP_SYS(sendto)},
	{SOCKETS, SCMP_SYS(recvfrom)},
	{NETWORK, SCMP_SYS(bind)},
	{NETWORK, SCMP_SYS(getsockname)},
	{NETWORK, SCMP_SYS(getpeername)},
	{NETWORK, SCMP_SYS(sendmmsg)},
	{NETWORK, SCMP_SYS(recvmmsg)},
	{NETWORK, SCMP_SYS(shutdown)},
	{THREADS, SCMP_SYS(socketpair)},
	/* memory; executable memory is not, below */
	{EVERY, SCMP_SYS(brk)},
	{EVERY, SCMP_SYS(munmap)},
	{EVERY, SCMP_SYS(mremap)},
	{EVERY, SCMP_SYS(madvise)},
	/* time, randomness, and what the process is told about itself */
	{EVERY, SCMP_SYS(clock_gettime)},
	{EVERY, SCMP_SYS(clock_nanosleep)},
	{EVERY, SCMP_SYS(nanosleep)},
	{EVERY, SCMP_SYS(gettimeofday)},
	{EVERY, SCMP_SYS(time)},
	{EVERY, SCMP_SYS(getrandom)},
	{EVERY, SCMP_SYS(uname)},
	{EVERY, SCMP_SYS(getpid)},
	{EVERY, SCMP_SYS(gettid)},
	{EVERY, SCMP_SYS(getuid)},
	{EVERY, SCMP_SYS(geteuid)},
	{EVERY, SCMP_SYS(getgid)},
	{EVERY, SCMP_SYS(getegid)},
	{EVERY, SCMP_SYS(sysinfo)},
	{EVERY, SCMP_SYS(sched_yield)},
	{EVERY, SCMP_SYS(sched_getaffinity)},
	/* signals, threads, and the end */
	{EVERY, SCMP_SYS(rt_sigaction)},
	{EVERY, SCMP_SYS(rt_sigprocmask)},
	{EVERY, SCMP_SYS(rt_sigreturn)},
	{EVERY, SCMP_SYS(sigaltstack)},
	{EVERY, SCMP_SYS(restart_syscall)},
	{EVERY, SCMP_SYS(futex)},
	{EVERY, SCMP_SYS(exit)},
	{EVERY, SCMP_SYS(exit_group)},
	{THREADS, SCMP_SYS(set_robust_list)},
	{THREADS, SCMP_SYS(rseq)},
};

/** Libraries look for what they do well without. */
static const int absent[] = {SCMP_SYS(open), SCMP_SYS(openat2), SCMP_SYS(stat), SCMP_SYS(lstat),
	SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2),
	SCMP_SYS(readlink), SCMP_SYS(readlinkat)};

/** No honest bug leads here. Everything else that is not listed fails with EPERM. */
static const int fatal_calls[] = {SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(pidfd_open),
	SCMP_SYS(pidfd_getfd), SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(mount), SCMP_SYS(bpf),
	SCMP_SYS(io_uring_setup), SCMP_SYS(userfaultfd), SCMP_SYS(keyctl), SCMP_SYS(add_key),
	SCMP_SYS(request_key)};

static int grant(int ruleset, int folder, uint64_t rights)
{
	const struct landlock_path_beneath_attr rule = {
		.allowed_access = rights, .parent_fd = folder};
	return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0
		? -errno
		: 0;
}

/** @return 0, also where there is no such folder. */
static int grant_path(int ruleset, const char *path, uint64_t rights)
{
	auto_fd folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
	return grant(ruleset, folder, rights);
}

static int grant_output(int ruleset, const char *output, uint64_t rights)
{
	char folder[EXPORT_VALUE_BYTES];
	const char *slash = strrchr(output, '/');
	size_t len = slash == output ? 1 : (size_t)(slash - output);
	int r = slice_copy((struct slice){output, len}, folder, sizeof(folder));
	return r < 0 ? r : grant_path(ruleset, folder, rights);
}

/** Should not be possible afterwards: to open any file but those of the folders that are granted here. */
static int confine_files(const struct confine_setup *setup)
{
	long version =
		syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (version < 0)
		return errno == ENOSYS || errno == EOPNOTSUPP
			? 0
			: -errno; /* the user id is all there is */
	uint64_t more = version >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0;
	const struct landlock_ruleset_attr attributes = {.handled_access_fs = HANDLED_1 | more};
	auto_fd ruleset = (int)syscall(
		SYS_landlock_create_ruleset, &attributes, sizeof(attributes.handled_access_fs), 0);
	if (ruleset < 0)
		return -errno;
	int r = grant(ruleset, setup->state_fd, RIGHTS_WRITE | more);
	if (r == 0 && setup->output != NULL)
		r = grant_output(ruleset, setup->output, RIGHTS_WRITE | more);
	for (size_t i = 0;
		r == 0 && (setup->needs & NETWORK) != 0 && i < array_size(lookup_folders); i++)
		r = grant_path(ruleset, lookup_folders[i], RIGHTS_READ);
	if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
		r = -errno;
	return r;
}

static const struct call_command commands[] = {
	{EVERY, SCMP_SYS(fcntl), F_GETFL, 1},
	{EVERY, SCMP_SYS(fcntl), F_SETFL, 1},
	{EVERY, SCMP_SYS(fcntl), F_GETFD, 1},
	{EVERY, SCMP_SYS(fcntl), F_SETFD, 1},
	{EVERY, SCMP_SYS(fcntl), F_DUPFD_CLOEXEC, 1},
	{EVERY, SCMP_SYS(fcntl), F_ADD_SEALS, 1},
	{EVERY, SCMP_SYS(ioctl), FIONBIO, 1},
	{EVERY, SCMP_SYS(ioctl), FIONREAD, 1},
	{EVERY, SCMP_SYS(ioctl), SIOCOUTQ, 1},
	{EVERY, SCMP_SYS(prctl), PR_SET_NAME, 0},
};

static int confine_calls(unsigned needs)
{
	struct call_filter f;
	call_filter_begin(&f, needs | PLAIN);
	call_filter_allow(&f, allowed, array_size(allowed));
	call_filter_absent(&f, absent, array_size(absent));
	call_filter_fatal(&f, fatal_calls, array_size(fatal_calls));
	call_filter_data_memory(&f);
	if ((needs & THREADS) != 0) /* where a library makes them; never a process */
		call_filter_threads(&f, CLONE_THREAD, CLONE_THREAD);
	call_filter_allow_commands(&f, commands, array_size(commands));
	if ((needs & NETWORK) != 0) {
		call_filter_sockets(&f, AF_INET);
		call_filter_sockets(&f, AF_INET6);
	}
	if ((needs & UNIX) != 0)
		call_filter_sockets(&f, AF_UNIX);
	if ((needs & NETWORK) != 0)
		call_filter_route_socket(&f);
	return call_filter_load(&f);
}

int confine_sink(const struct confine_setup *setup, struct failure *why)
{
	int r = privilege_drop_all();
	if (r == 0)
		r = privilege_hide();
	if (r < 0)
		return failure_errno(why, r, "can't drop privileges");
	r = confine_files(setup);
	if (r < 0)
		return failure_errno(why, r, "can't restrict files");
	r = confine_calls(setup->needs);
	return r < 0 ? failure_errno(why, r, "can't load the system call filter") : 0;
}
