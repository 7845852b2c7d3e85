/*
 * See confine.h. Order in the child: namespaces (by clone), root, capabilities, filter; each step can only be taken
 * while what the next one removes is still there.
 */
#include "proxy/confine.h"

#include "common/call_filter.h"
#include "common/cleanup.h"
#include "common/privilege.h"

#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define KEEP_MAX 64
#define ROLE(r)  (1U << (r))
#define WORKER   ROLE(CONFINE_WORKER)
#define KEEPER   ROLE(CONFINE_KEEPER)
#define RECORDER ROLE(CONFINE_RECORDER)
#define EVERY    (WORKER | KEEPER | RECORDER)

/* What pthread_create() asks clone(2) for: all is shared, nothing is new. */
#define THREAD_FLAGS                                                                               \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |        \
		CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

static const struct {
	const char *name;
	int namespaces;
} roles[] = {
	[CONFINE_WORKER] = {"eclusa-worker", CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS},
	[CONFINE_KEEPER] = {"eclusa-keeper",
		CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET},
	[CONFINE_RECORDER] = {"eclusa-recorder", CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS},
};

static_assert(array_size(roles) == CONFINE_ROLE_COUNT, "a line for every role");

/** Calls that are allowed whatever their arguments. */
static const struct call_rule allowed[] = {
	/* descriptors that are there */
	{EVERY, SCMP_SYS(read)},
	{EVERY, SCMP_SYS(write)},
	{EVERY, SCMP_SYS(close)},
	{EVERY, SCMP_SYS(fstat)},
	{EVERY, SCMP_SYS(newfstatat)}, /* glibc's fstat; there is no file to name */
	{EVERY, SCMP_SYS(poll)},
	{EVERY, SCMP_SYS(ppoll)},
	{EVERY, SCMP_SYS(sendmsg)},
	{EVERY, SCMP_SYS(recvmsg)},
	{WORKER | RECORDER, SCMP_SYS(pread64)},
	{WORKER | RECORDER, SCMP_SYS(lseek)},
	{RECORDER, SCMP_SYS(ftruncate)},
	{RECORDER, SCMP_SYS(fdatasync)},
	{RECORDER, SCMP_SYS(set_robust_list)}, /* of the thread that waits for it */
	{RECORDER, SCMP_SYS(rseq)},
	{RECORDER, SCMP_SYS(fallocate)},
	{RECORDER, SCMP_SYS(sync_file_range)},
	{WORKER, SCMP_SYS(readv)},
	{WORKER, SCMP_SYS(writev)},
	{WORKER, SCMP_SYS(pipe2)},
	{WORKER, SCMP_SYS(splice)},
	{WORKER, SCMP_SYS(eventfd2)},
	{WORKER, SCMP_SYS(timerfd_create)},
	{WORKER, SCMP_SYS(timerfd_settime)},
	{WORKER, SCMP_SYS(timerfd_gettime)},
	{WORKER, SCMP_SYS(epoll_create1)},
	{WORKER, SCMP_SYS(epoll_ctl)},
	{WORKER, SCMP_SYS(epoll_wait)},
	{WORKER, SCMP_SYS(epoll_pwait)},
	{WORKER, SCMP_SYS(epoll_pwait2)},
	{WORKER, SCMP_SYS(select)},
	{WORKER, SCMP_SYS(pselect6)},
	/* sockets; which ones can be made is below */
	{WORKER, SCMP_SYS(connect)},
	{WORKER, SCMP_SYS(bind)},
	{WORKER, SCMP_SYS(accept)},
	{WORKER, SCMP_SYS(accept4)},
	{WORKER, SCMP_SYS(getsockname)},
	{WORKER, SCMP_SYS(getpeername)},
	{WORKER, SCMP_SYS(getsockopt)},
	{WORKER, SCMP_SYS(setsockopt)},
	{WORKER, SCMP_SYS(sendto)},
	{WORKER, SCMP_SYS(recvfrom)},
	{WORKER, SCMP_SYS(sendmmsg)},
	{WORKER, SCMP_SYS(recvmmsg)},
	{WORKER, SCMP_SYS(shutdown)},
	/* memory; executable memory is not, below */
	{EVERY, SCMP_SYS(brk)},
	{EVERY, SCMP_SYS(munmap)},
	{EVERY, SCMP_SYS(mremap)},
	{EVERY, SCMP_SYS(madvise)},
	/* time, randomness, and what the process is told about itself */
	{EVERY, SCMP_SYS(clock_gettime)},
	{EVERY, SCMP_SYS(clock_getres)},
	{EVERY, SCMP_SYS(clock_nanosleep)},
	{EVERY, SCMP_SYS(nanosleep)},
	{EVERY, SCMP_SYS(gettimeofday)},
	{EVERY, SCMP_SYS(time)},
	{EVERY, SCMP_SYS(getrandom)},
	{KEEPER, SCMP_SYS(adjtimex)}, /* without the capability it only reads */
	{KEEPER, SCMP_SYS(clock_adjtime)},
	{EVERY, SCMP_SYS(uname)},
	{EVERY, SCMP_SYS(getpid)},
	{EVERY, SCMP_SYS(gettid)},
	{EVERY, SCMP_SYS(getppid)},
	{EVERY, SCMP_SYS(getuid)},
	{EVERY, SCMP_SYS(geteuid)},
	{EVERY, SCMP_SYS(getgid)},
	{EVERY, SCMP_SYS(getegid)},
	{EVERY, SCMP_SYS(getrusage)},
	{EVERY, SCMP_SYS(sysinfo)},
	{EVERY, SCMP_SYS(getcpu)},
	{EVERY, SCMP_SYS(sched_yield)},
	{EVERY, SCMP_SYS(sched_getaffinity)},
	/* signals and the end */
	{EVERY, SCMP_SYS(rt_sigaction)},
	{EVERY, SCMP_SYS(rt_sigprocmask)},
	{EVERY, SCMP_SYS(rt_sigreturn)},
	{EVERY, SCMP_SYS(sigaltstack)},
	{EVERY, SCMP_SYS(restart_syscall)},
	{EVERY, SCMP_SYS(futex)},
	{EVERY, SCMP_SYS(exit)},
	{EVERY, SCMP_SYS(exit_group)},
};

/** Libraries look for configuration and do well without it: it is not there. */
static const int absent[] = {SCMP_SYS(open), SCMP_SYS(openat), SCMP_SYS(openat2), SCMP_SYS(stat),
	SCMP_SYS(lstat), SCMP_SYS(statx), SCMP_SYS(access), SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2), SCMP_SYS(readlink), SCMP_SYS(readlinkat)};

/** No honest bug leads here. Everything else that is not listed fails with EPERM. */
static const int fatal_calls[] = {SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev), SCMP_SYS(process_madvise),
	SCMP_SYS(pidfd_open), SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_send_signal), SCMP_SYS(unshare),
	SCMP_SYS(setns), SCMP_SYS(mount), SCMP_SYS(bpf), SCMP_SYS(io_uring_setup),
	SCMP_SYS(userfaultfd), SCMP_SYS(keyctl), SCMP_SYS(add_key), SCMP_SYS(request_key)};

const char *confine_role_name(enum confine_role role)
{
	return roles[role].name;
}

pid_t confine_fork(enum confine_role role, int *ret_pidfd)
{
	int pidfd = -1;
	/* Not fork(): the namespaces must be there from the first instruction, the pid namespace with this process as its init. */
	long pid = syscall(SYS_clone, (unsigned long)roles[role].namespaces | CLONE_PIDFD | SIGCHLD,
		0, &pidfd, 0, 0);
	if (pid < 0)
		return -errno;
	if (pid > 0)
		*ret_pidfd = pidfd;
	return (pid_t)pid;
}

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int confine_keep_only(const int *fds, size_t count)
{
	int keep[KEEP_MAX];
	size_t kept = 0;
	for (size_t i = 0; i < count; i++) {
		if (fds[i] > STDERR_FILENO) {
			if (kept == KEEP_MAX)
				return -E2BIG;
			keep[kept++] = fds[i];
		}
	}
	qsort(keep, kept, sizeof(keep[0]), compare_fds);
	int from = STDERR_FILENO + 1;
	for (size_t i = 0; i < kept; i++) {
		if (keep[i] > from && close_range((unsigned)from, (unsigned)keep[i] - 1, 0) < 0)
			return -errno;
		from = keep[i] + 1;
	}
	return privilege_close_from(from);
}

/**
 * An empty, read-only file system becomes the root. Afterwards no path leads anywhere; the old root is unreachable
 * but through descriptors. Should not be possible: to open, create or execute any file.
 */
static int confine_root(struct failure *why)
{
	/* Mounted over /proc, since that exists everywhere and is not needed anymore. */
	unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", "/proc", "tmpfs", flags, "mode=0555,size=4096,nr_inodes=1") < 0 ||
		chdir("/proc") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return failure_errno(why, -errno, "proxy: can't leave the file system");
	return 0;
}

/** fcntl commands: flags, pipe sizes; the recorder's lock. ioctl: none but non-blocking mode and how much is there. */
static const struct call_command commands[] = {
	{EVERY, SCMP_SYS(fcntl), F_GETFL, 1},
	{EVERY, SCMP_SYS(fcntl), F_SETFL, 1},
	{EVERY, SCMP_SYS(fcntl), F_GETFD, 1},
	{EVERY, SCMP_SYS(fcntl), F_SETFD, 1},
	{WORKER, SCMP_SYS(fcntl), F_DUPFD_CLOEXEC, 1},
	{WORKER, SCMP_SYS(fcntl), F_GETPIPE_SZ, 1},
	{WORKER, SCMP_SYS(fcntl), F_SETPIPE_SZ, 1},
	{RECORDER, SCMP_SYS(fcntl), F_SETLK, 1},
	{WORKER, SCMP_SYS(ioctl), FIONBIO, 1},
	{WORKER, SCMP_SYS(ioctl), FIONREAD, 1},
	{WORKER, SCMP_SYS(ioctl), FIOCLEX, 1},
};

static int confine_filter(enum confine_role role, struct failure *why)
{
	struct call_filter f;
	call_filter_begin(&f, ROLE(role));
	call_filter_allow(&f, allowed, array_size(allowed));
	call_filter_absent(&f, absent, array_size(absent));
	call_filter_fatal(&f, fatal_calls, array_size(fatal_calls));
	call_filter_data_memory(&f);
	call_filter_allow_commands(&f, commands, array_size(commands));
	if (role == CONFINE_WORKER) {
		call_filter_sockets(&f, AF_INET);
		call_filter_sockets(&f, AF_INET6);
		call_filter_route_socket(&f);
	}
	if (role == CONFINE_RECORDER) /* a thread, no process */
		call_filter_threads(&f, UINT64_MAX, THREAD_FLAGS);
	int r = call_filter_load(&f);
	return r < 0 ? failure_errno(why, r, "proxy: can't load the system call filter") : 0;
}

int confine_enter(enum confine_role role, struct failure *why)
{
	(void)prctl(PR_SET_NAME, roles[role].name, 0, 0, 0); /* for people only */
	/* The parent is outside the pid namespace, where its pid reads as 0. The recorder finishes what the rings hold first. */
	int r = role == CONFINE_RECORDER ? 0 : privilege_die_with_parent(0, SIGKILL);
	if (r < 0)
		return failure_errno(why, r, "proxy: the supervisor is gone");
	r = confine_root(why);
	if (r < 0)
		return r;
	r = privilege_drop_all();
	if (r == 0)
		r = privilege_hide();
	if (r < 0)
		return failure_errno(why, r, "proxy: can't drop privileges");
	return confine_filter(role, why);
}
