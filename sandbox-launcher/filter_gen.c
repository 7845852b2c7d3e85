/*
 * Run while Eclusa is built: prints the seccomp programs of filter.c, compiled by libseccomp. This file owns the table of
 * system calls. A call that is in no row does not exist (ENOSYS), which also holds for calls that a future kernel adds.
 */
#include "common/cleanup.h"

#include <inttypes.h>
#include <linux/filter.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* Calls that need no look at their arguments here. What CPython with numpy, pandas and matplotlib, node, git, curl, gcc
 * and shells use. */
static const int ALLOWED[] = {
	/* files */
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(readv),
	SCMP_SYS(writev),
	SCMP_SYS(pread64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(preadv),
	SCMP_SYS(pwritev),
	SCMP_SYS(preadv2),
	SCMP_SYS(pwritev2),
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(openat2),
	SCMP_SYS(creat),
	SCMP_SYS(close),
	SCMP_SYS(close_range),
	SCMP_SYS(lseek),
	SCMP_SYS(stat),
	SCMP_SYS(fstat),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(statfs),
	SCMP_SYS(fstatfs),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(getdents),
	SCMP_SYS(getdents64),
	SCMP_SYS(getcwd),
	SCMP_SYS(chdir),
	SCMP_SYS(fchdir),
	SCMP_SYS(rename),
	SCMP_SYS(renameat),
	SCMP_SYS(renameat2),
	SCMP_SYS(mkdir),
	SCMP_SYS(mkdirat),
	SCMP_SYS(rmdir),
	SCMP_SYS(link),
	SCMP_SYS(linkat),
	SCMP_SYS(unlink),
	SCMP_SYS(unlinkat),
	SCMP_SYS(symlink),
	SCMP_SYS(symlinkat),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(chmod),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(chown),
	SCMP_SYS(fchown),
	SCMP_SYS(lchown),
	SCMP_SYS(fchownat),
	SCMP_SYS(mknod),
	SCMP_SYS(mknodat),
	SCMP_SYS(umask),
	SCMP_SYS(truncate),
	SCMP_SYS(ftruncate),
	SCMP_SYS(fallocate),
	SCMP_SYS(utime),
	SCMP_SYS(utimes),
	SCMP_SYS(futimesat),
	SCMP_SYS(utimensat),
	SCMP_SYS(fsync),
	SCMP_SYS(fdatasync),
	SCMP_SYS(syncfs),
	SCMP_SYS(sync_file_range),
	SCMP_SYS(flock),
	SCMP_SYS(fcntl),
	SCMP_SYS(dup),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	SCMP_SYS(pipe),
	SCMP_SYS(pipe2),
	SCMP_SYS(sendfile),
	SCMP_SYS(splice),
	SCMP_SYS(tee),
	SCMP_SYS(vmsplice),
	SCMP_SYS(copy_file_range),
	SCMP_SYS(fadvise64),
	SCMP_SYS(readahead),
	SCMP_SYS(getxattr),
	SCMP_SYS(lgetxattr),
	SCMP_SYS(fgetxattr),
	SCMP_SYS(setxattr),
	SCMP_SYS(lsetxattr),
	SCMP_SYS(fsetxattr),
	SCMP_SYS(listxattr),
	SCMP_SYS(llistxattr),
	SCMP_SYS(flistxattr),
	SCMP_SYS(removexattr),
	SCMP_SYS(lremovexattr),
	SCMP_SYS(fremovexattr),
	/* waiting */
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(select),
	SCMP_SYS(pselect6),
	SCMP_SYS(epoll_create),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(epoll_pwait2),
	SCMP_SYS(eventfd),
	SCMP_SYS(eventfd2),
	SCMP_SYS(signalfd),
	SCMP_SYS(signalfd4),
	SCMP_SYS(timerfd_create),
	SCMP_SYS(timerfd_settime),
	SCMP_SYS(timerfd_gettime),
	SCMP_SYS(inotify_init),
	SCMP_SYS(inotify_init1),
	SCMP_SYS(inotify_add_watch),
	SCMP_SYS(inotify_rm_watch),
	SCMP_SYS(io_setup),
	SCMP_SYS(io_destroy),
	SCMP_SYS(io_submit),
	SCMP_SYS(io_cancel),
	SCMP_SYS(io_getevents),
	SCMP_SYS(nanosleep),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(pause),
	/* memory */
	SCMP_SYS(mmap),
	SCMP_SYS(munmap),
	SCMP_SYS(mprotect),
	SCMP_SYS(mremap),
	SCMP_SYS(msync),
	SCMP_SYS(mincore),
	SCMP_SYS(madvise),
	SCMP_SYS(brk),
	SCMP_SYS(mlock),
	SCMP_SYS(mlock2),
	SCMP_SYS(munlock),
	SCMP_SYS(mlockall),
	SCMP_SYS(munlockall),
	SCMP_SYS(memfd_create),
	SCMP_SYS(membarrier),
	SCMP_SYS(pkey_alloc),
	SCMP_SYS(pkey_free),
	SCMP_SYS(pkey_mprotect),
	SCMP_SYS(get_mempolicy),
	SCMP_SYS(remap_file_pages),
	/* processes and threads */
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	SCMP_SYS(clone),
	SCMP_SYS(unshare),
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(wait4),
	SCMP_SYS(waitid),
	SCMP_SYS(getpid),
	SCMP_SYS(getppid),
	SCMP_SYS(gettid),
	SCMP_SYS(getpgrp),
	SCMP_SYS(getpgid),
	SCMP_SYS(setpgid),
	SCMP_SYS(getsid),
	SCMP_SYS(setsid),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(get_robust_list),
	SCMP_SYS(futex),
	SCMP_SYS(futex_waitv),
	SCMP_SYS(rseq),
	SCMP_SYS(arch_prctl),
	SCMP_SYS(pidfd_open),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_setaffinity),
	SCMP_SYS(sched_getparam),
	SCMP_SYS(sched_setparam),
	SCMP_SYS(sched_getscheduler),
	SCMP_SYS(sched_setscheduler),
	SCMP_SYS(sched_getattr),
	SCMP_SYS(sched_setattr),
	SCMP_SYS(sched_get_priority_max),
	SCMP_SYS(sched_get_priority_min),
	SCMP_SYS(sched_rr_get_interval),
	SCMP_SYS(getpriority),
	SCMP_SYS(setpriority),
	SCMP_SYS(getcpu),
	SCMP_SYS(ioprio_get),
	SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(times),
	/* signals and timers */
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(rt_sigpending),
	SCMP_SYS(rt_sigsuspend),
	SCMP_SYS(rt_sigtimedwait),
	SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_tgsigqueueinfo),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(kill),
	SCMP_SYS(tkill),
	SCMP_SYS(tgkill),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(alarm),
	SCMP_SYS(getitimer),
	SCMP_SYS(setitimer),
	SCMP_SYS(timer_create),
	SCMP_SYS(timer_settime),
	SCMP_SYS(timer_gettime),
	SCMP_SYS(timer_getoverrun),
	SCMP_SYS(timer_delete),
	SCMP_SYS(time),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres),
	/* identity: there is one uid and no capability, so these can only repeat it */
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getresuid),
	SCMP_SYS(getresgid),
	SCMP_SYS(getgroups),
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setreuid),
	SCMP_SYS(setregid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(setfsuid),
	SCMP_SYS(setfsgid),
	SCMP_SYS(setgroups),
	SCMP_SYS(capget),
	SCMP_SYS(capset),
	SCMP_SYS(uname),
	SCMP_SYS(sysinfo),
	SCMP_SYS(getrandom),
	/* sockets */
	SCMP_SYS(socket),
	SCMP_SYS(socketpair),
	SCMP_SYS(connect),
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	SCMP_SYS(getsockname),
	SCMP_SYS(getpeername),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(sendto),
	SCMP_SYS(recvfrom),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(sendmmsg),
	SCMP_SYS(recvmmsg),
	SCMP_SYS(shutdown),
	SCMP_SYS(ioctl),
	SCMP_SYS(setrlimit),
	SCMP_SYS(prlimit64),
};

/* Calls that exist to gain or to inspect what a sandbox must not: EPERM says more than ENOSYS to a reader. */
static const int REFUSED[] = {
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(kcmp),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(process_madvise),
	SCMP_SYS(keyctl),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(chroot),
	SCMP_SYS(open_tree),
	SCMP_SYS(move_mount),
	SCMP_SYS(fsopen),
	SCMP_SYS(fsconfig),
	SCMP_SYS(fsmount),
	SCMP_SYS(fspick),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(setns),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(acct),
	SCMP_SYS(quotactl),
	SCMP_SYS(settimeofday),
	SCMP_SYS(clock_settime),
	SCMP_SYS(clock_adjtime),
	SCMP_SYS(adjtimex),
	SCMP_SYS(sethostname),
	SCMP_SYS(setdomainname),
	SCMP_SYS(vhangup),
	SCMP_SYS(iopl),
	SCMP_SYS(ioperm),
	SCMP_SYS(syslog),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(name_to_handle_at),
	SCMP_SYS(fanotify_init),
	SCMP_SYS(fanotify_mark),
	SCMP_SYS(move_pages),
	SCMP_SYS(migrate_pages),
	SCMP_SYS(mbind),
	SCMP_SYS(set_mempolicy),
	SCMP_SYS(modify_ldt),
	SCMP_SYS(seccomp),
	SCMP_SYS(shmget),
	SCMP_SYS(shmat),
	SCMP_SYS(shmctl),
	SCMP_SYS(shmdt),
	SCMP_SYS(msgget),
	SCMP_SYS(msgsnd),
	SCMP_SYS(msgrcv),
	SCMP_SYS(msgctl),
	SCMP_SYS(semget),
	SCMP_SYS(semop),
	SCMP_SYS(semtimedop),
	SCMP_SYS(semctl),
	SCMP_SYS(mq_open),
	SCMP_SYS(mq_unlink),
};

#define PRCTL_SET_VMA 0x53564d41 /* PR_SET_VMA: names of anonymous mappings */

/* prctl operations: what a program may say about itself. PR_SET_PTRACER, PR_SET_MM, PR_SET_SECCOMP stay out. */
static const unsigned PRCTLS[] = {
	PR_SET_NAME,
	PR_GET_NAME,
	PR_SET_PDEATHSIG,
	PR_GET_PDEATHSIG,
	PR_GET_DUMPABLE,
	PR_SET_DUMPABLE,
	PR_SET_NO_NEW_PRIVS,
	PR_GET_NO_NEW_PRIVS,
	PR_GET_KEEPCAPS,
	PR_GET_SECCOMP,
	PR_CAPBSET_READ,
	PR_CAP_AMBIENT,
	PR_GET_SECUREBITS,
	PR_SET_CHILD_SUBREAPER,
	PR_GET_CHILD_SUBREAPER,
	PR_SET_TIMERSLACK,
	PR_GET_TIMERSLACK,
	PR_SET_THP_DISABLE,
	PR_GET_THP_DISABLE,
	PR_GET_SPECULATION_CTRL,
	PR_SET_SPECULATION_CTRL,
	PR_GET_TID_ADDRESS,
	PRCTL_SET_VMA,
};

/* clone3 is in no table: its flags are in memory, where a filter can't look, so it must not exist. */
static const unsigned long NAMESPACE_FLAGS[] = {
	CLONE_NEWUSER,
	CLONE_NEWNS,
	CLONE_NEWPID,
	CLONE_NEWNET,
	CLONE_NEWIPC,
	CLONE_NEWUTS,
	CLONE_NEWCGROUP,
};

#define LOW_WORD UINT64_C(0xffffffff)

/* The kernel reads these arguments as 32 bits: compare 32 bits, or TIOCSTI + 2^32 passes (CVE-2019-10063). */
static int refuse_masked(
	scmp_filter_ctx ctx, int call, unsigned argument, uint64_t mask, uint64_t value)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), call, 1,
		SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, mask, value));
}

static int build_calls(scmp_filter_ctx ctx)
{
	int r = 0;
	for (size_t i = 0; i < array_size(ALLOWED) && r == 0; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, ALLOWED[i], 0);
	for (size_t i = 0; i < array_size(REFUSED) && r == 0; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), REFUSED[i], 0);
	for (size_t i = 0; i < array_size(PRCTLS) && r == 0; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(prctl), 1,
			SCMP_CMP(0, SCMP_CMP_MASKED_EQ, LOW_WORD, PRCTLS[i]));
	/* a change of personality can't be needed; asking for it and the default are harmless */
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
			SCMP_CMP(0, SCMP_CMP_MASKED_EQ, LOW_WORD, 0));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(personality), 1,
			SCMP_CMP(0, SCMP_CMP_MASKED_EQ, LOW_WORD, LOW_WORD));
	return r;
}

/* UNIX, INET, INET6 and route netlink; every other family does not exist. Upper bits set mean a value above NETLINK. */
static int refuse_families(scmp_filter_ctx ctx)
{
	const int calls[] = {SCMP_SYS(socket), SCMP_SYS(socketpair)};
	const uint32_t refuse = SCMP_ACT_ERRNO(EAFNOSUPPORT);
	for (size_t c = 0; c < array_size(calls); c++) {
		int r = seccomp_rule_add(
			ctx, refuse, calls[c], 1, SCMP_CMP(0, SCMP_CMP_GT, AF_NETLINK, 0));
		for (unsigned family = 0; family < AF_NETLINK && r == 0; family++) {
			if (family == AF_UNIX || family == AF_INET || family == AF_INET6)
				continue;
			r = seccomp_rule_add(
				ctx, refuse, calls[c], 1, SCMP_CMP(0, SCMP_CMP_EQ, family, 0));
		}
		if (r < 0)
			return r;
	}
	return seccomp_rule_add(ctx, refuse, SCMP_SYS(socket), 2,
		SCMP_CMP(0, SCMP_CMP_EQ, AF_NETLINK, 0),
		SCMP_CMP(2, SCMP_CMP_NE, 0 /* NETLINK_ROUTE */, 0));
}

/*
 * The sandbox's first process is always pid 1 and has the program's uid, which is all the right that these calls ask for.
 * A limit, a scheduling class or a priority that the program gives it would stop the clock that it keeps, or end the run
 * as if Eclusa had failed. Threads are addressed by number, so other numbers pass where it is usual.
 */
static int spare_init(scmp_filter_ctx ctx)
{
	static const int by_pid[] = {SCMP_SYS(sched_setaffinity), SCMP_SYS(sched_setscheduler),
		SCMP_SYS(sched_setparam), SCMP_SYS(sched_setattr)};
	static const unsigned many[] = {PRIO_PGRP, PRIO_USER};
	int r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 2,
		SCMP_CMP(0, SCMP_CMP_NE, 0, 0), SCMP_CMP(2, SCMP_CMP_NE, 0, 0));
	for (size_t i = 0; i < array_size(by_pid) && r == 0; i++)
		r = refuse_masked(ctx, by_pid[i], 0, LOW_WORD, 1);
	for (size_t i = 0; i < array_size(many) && r == 0; i++)
		r = refuse_masked(ctx, SCMP_SYS(setpriority), 0, LOW_WORD, many[i]);
	return r == 0 ? refuse_masked(ctx, SCMP_SYS(setpriority), 1, LOW_WORD, 1) : r;
}

static int build_arguments(scmp_filter_ctx ctx)
{
	int r = refuse_masked(ctx, SCMP_SYS(ioctl), 1, LOW_WORD, TIOCSTI);
	if (r == 0)
		r = refuse_masked(ctx, SCMP_SYS(ioctl), 1, LOW_WORD, TIOCLINUX);
	for (size_t i = 0; i < array_size(NAMESPACE_FLAGS) && r == 0; i++) {
		r = refuse_masked(ctx, SCMP_SYS(clone), 0, NAMESPACE_FLAGS[i], NAMESPACE_FLAGS[i]);
		if (r == 0)
			r = refuse_masked(
				ctx, SCMP_SYS(unshare), 0, NAMESPACE_FLAGS[i], NAMESPACE_FLAGS[i]);
	}
	if (r ==
		0) /* CLONE_NEWTIME shares its bit with clone's exit signal, so only unshare has it */
		r = refuse_masked(ctx, SCMP_SYS(unshare), 0, CLONE_NEWTIME, CLONE_NEWTIME);
	/* a core limit of 0 would let a core_pattern pipe on the host run; the launcher sets 1, which refuses both */
	if (r == 0)
		r = refuse_masked(ctx, SCMP_SYS(setrlimit), 0, LOW_WORD, RLIMIT_CORE);
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 2,
			SCMP_CMP(1, SCMP_CMP_MASKED_EQ, LOW_WORD, RLIMIT_CORE),
			SCMP_CMP(2, SCMP_CMP_NE, 0, 0));
	if (r == 0)
		r = spare_init(ctx);
	return r == 0 ? refuse_families(ctx) : r;
}

/* The program as a C array, so that a start costs no compilation (2 ms otherwise). */
static int print_program(scmp_filter_ctx ctx, const char *name)
{
	FILE *file = tmpfile();
	if (file == NULL)
		return -errno;
	int r = seccomp_export_bpf(ctx, fileno(file));
	rewind(file);
	struct sock_filter one;
	if (r == 0)
		printf("static const struct sock_filter %s[] = {\n", name);
	while (r == 0 && fread(&one, sizeof(one), 1, file) == 1)
		printf("\t{0x%04x, %u, %u, 0x%08" PRIx32 "},\n", one.code, one.jt, one.jf, one.k);
	if (r == 0)
		printf("};\n");
	(void)fclose(file); /* only read from */
	return r;
}

static int generate(const char *name, uint32_t otherwise, int (*build)(scmp_filter_ctx ctx))
{
	scmp_filter_ctx ctx = seccomp_init(otherwise);
	if (ctx == NULL)
		return -ENOMEM;
	int r = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0)
		r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* binary tree */
	if (r == 0)
		r = build(ctx);
	if (r == 0)
		r = print_program(ctx, name);
	seccomp_release(ctx);
	return r;
}

int main(void)
{
	printf("/* Made by filter_gen.c. */\n");
	int r = generate("FILTER_ARGUMENTS", SCMP_ACT_ALLOW, build_arguments);
	if (r == 0)
		r = generate("FILTER_CALLS", SCMP_ACT_ERRNO(ENOSYS), build_calls);
	if (r < 0 || fflush(stdout) != 0) {
		(void)fprintf(stderr, "filter_gen: %d\n", r);
		return 1;
	}
	return 0;
}
