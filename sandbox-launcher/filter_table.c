/* See filter_table.h: the data, to be read from top to bottom, and how a row is found. */
#include "sandbox-launcher/filter_table.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define SECTION(title, sentence)                                                                   \
	{                                                                                          \
		.number = -1, .name = (title), .why = (sentence)                                   \
	}
#define ROW(call, ...)                                                                             \
	{                                                                                          \
		.number = SYS_##call, .name = #call, __VA_ARGS__                                   \
	}
#define ALLOW(call)         ROW(call, .verdict = FILTER_ALLOW)
#define ALLOW_IF(call, ...) ROW(call, .verdict = FILTER_ALLOW, .tests = {__VA_ARGS__})
#define QUIET(call, errno_, ...)                                                                   \
	ROW(call, .verdict = FILTER_QUIET, .error = (errno_), .tests = {__VA_ARGS__})
#define TELL(call, errno_, names, ...)                                                             \
	ROW(call, .verdict = FILTER_TELL, .error = (errno_), .arguments = (names),                 \
		.tests = {__VA_ARGS__})
/* the same with a sentence of their own in place of the section's */
#define QUIET_WHY(sentence, call, errno_, ...)                                                     \
	ROW(call, .verdict = FILTER_QUIET, .error = (errno_), .why = (sentence),                   \
		.tests = {__VA_ARGS__})
#define TELL_WHY(sentence, call, errno_, names, ...)                                               \
	ROW(call, .verdict = FILTER_TELL, .error = (errno_), .arguments = (names),                 \
		.why = (sentence), .tests = {__VA_ARGS__})

#define IS(at, name, number)                                                                       \
	{                                                                                          \
		FILTER_IS, at, (uint32_t)(number), #name " = " #number                             \
	}
#define BITS(at, name, number)                                                                     \
	{                                                                                          \
		FILTER_BITS, at, (uint32_t)(number), #name " & " #number                           \
	}
#define GIVEN(at, name)                                                                            \
	{                                                                                          \
		FILTER_GIVEN, at, 0, #name " given"                                                \
	}

/* CLONE_NEWTIME shares its bit with the exit signal of clone(), so only unshare() has it. */
#define NAMESPACES                                                                                 \
	(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
		CLONE_NEWCGROUP)
#define UNSHARED_NAMESPACES (NAMESPACES | CLONE_NEWTIME)
#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#endif
#define ASKED UINT32_MAX /* personality(): only tell */
/*
 * A folder bound writable is the host's, and so would be a program in it that runs as its owner. Elsewhere such a bit means nothing:
 * all file systems are mounted nosuid, and results get modes of ours.
 */
#define SET_ID (S_ISUID | S_ISGID)
#define CREATE (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define SET_ID_WHY                                                                                 \
	"only with --bind SRC:DST:rw: in that folder it would run as the folder's owner for "      \
	"whoever starts it on the host: leave the set-user-id and set-group-id bits out"
#define TELL_SET_ID(call, names, ...)                                                              \
	ROW(call, .verdict = FILTER_TELL, .error = EPERM, .arguments = (names), .why = SET_ID_WHY, \
		.bound = true, .tests = {__VA_ARGS__})

const struct filter_row FILTER_ROWS[] = {
	SECTION("Files",
		"the program's view of files holds nothing but what it may read, and what it writes "
		"is its own"),
	ALLOW(read),
	ALLOW(write),
	ALLOW(readv),
	ALLOW(writev),
	ALLOW(pread64),
	ALLOW(pwrite64),
	ALLOW(preadv),
	ALLOW(pwritev),
	ALLOW(preadv2),
	ALLOW(pwritev2),
	TELL_SET_ID(
		openat, "dirfd @path flags mode", BITS(2, flags, CREATE), BITS(3, mode, SET_ID)),
	ALLOW(openat),
	QUIET_WHY("its mode is in memory, where a filter can't look; programs go on with openat",
		openat2, ENOSYS),
	ALLOW(close),
	ALLOW(close_range),
	ALLOW(lseek),
	ALLOW(fstat),
	ALLOW(newfstatat),
	ALLOW(statx),
	ALLOW(statfs),
	ALLOW(fstatfs),
	ALLOW(faccessat),
	ALLOW(faccessat2),
	ALLOW(getdents64),
	ALLOW(getcwd),
	ALLOW(chdir),
	ALLOW(fchdir),
	ALLOW(renameat2),
	ALLOW(mkdirat),
	ALLOW(linkat),
	ALLOW(unlinkat),
	ALLOW(symlinkat),
	ALLOW(readlinkat),
	TELL_SET_ID(fchmod, "fd mode", BITS(1, mode, SET_ID)),
	ALLOW(fchmod),
	TELL_SET_ID(fchmodat, "dirfd @path mode", BITS(2, mode, SET_ID)),
	ALLOW(fchmodat),
	ALLOW(fchown),
	ALLOW(fchownat),
	TELL_SET_ID(mknodat, "dirfd @path mode", BITS(2, mode, SET_ID)),
	ALLOW(mknodat),
	ALLOW(umask),
	ALLOW(truncate),
	ALLOW(ftruncate),
	ALLOW(fallocate),
	ALLOW(utimensat),
	ALLOW(fsync),
	ALLOW(fdatasync),
	ALLOW(sync_file_range),
	ALLOW(flock),
	ALLOW(fcntl),
	ALLOW(dup),
	ALLOW(dup3),
	ALLOW(pipe2),
	ALLOW(sendfile),
	ALLOW(splice),
	ALLOW(tee),
	ALLOW(vmsplice),
	ALLOW(copy_file_range),
	ALLOW(fadvise64),
	ALLOW(readahead),
	ALLOW(getxattr),
	ALLOW(lgetxattr),
	ALLOW(fgetxattr),
	ALLOW(setxattr),
	ALLOW(lsetxattr),
	ALLOW(fsetxattr),
	ALLOW(listxattr),
	ALLOW(llistxattr),
	ALLOW(flistxattr),
	ALLOW(removexattr),
	ALLOW(lremovexattr),
	ALLOW(fremovexattr),
	QUIET_WHY("would write out the host's disks; what the program wrote is in memory, so it is "
		  "answered as done",
		sync, 0),
	QUIET_WHY("as sync", syncfs, 0),
	TELL_WHY("there is no terminal to push input into (CVE-2017-5226, CVE-2019-10063)", ioctl,
		EPERM, "fd request &argument", IS(1, request, TIOCSTI)),
	TELL_WHY("there is no console to paste into (CVE-2023-28100)", ioctl, EPERM,
		"fd request &argument", IS(1, request, TIOCLINUX)),
	ALLOW(ioctl),

	SECTION("Waiting", "what is waited for is the program's own"),
	ALLOW(ppoll),
	ALLOW(pselect6),
	ALLOW(epoll_create1),
	ALLOW(epoll_ctl),
	ALLOW(epoll_pwait),
	ALLOW(epoll_pwait2),
	ALLOW(eventfd2),
	ALLOW(signalfd4),
	ALLOW(timerfd_create),
	ALLOW(timerfd_settime),
	ALLOW(timerfd_gettime),
	ALLOW(inotify_init1),
	ALLOW(inotify_add_watch),
	ALLOW(inotify_rm_watch),
	ALLOW(nanosleep),
	ALLOW(clock_nanosleep),

	SECTION("Memory",
		"counted, and limited by --memory; executing a memfd gives nothing that executing a "
		"file in /tmp does not"),
	QUIET_WHY("huge pages are taken from the host's, and are not counted", mmap, ENOMEM,
		BITS(3, flags, MAP_HUGETLB)),
	ALLOW(mmap),
	ALLOW(munmap),
	ALLOW(mprotect),
	ALLOW(mremap),
	ALLOW(msync),
	ALLOW(mincore),
	ALLOW(madvise),
	ALLOW(brk),
	ALLOW(mlock),
	ALLOW(mlock2),
	ALLOW(munlock),
	ALLOW(mlockall),
	ALLOW(munlockall),
	QUIET_WHY("as mmap", memfd_create, EINVAL, BITS(1, flags, MFD_HUGETLB)),
	ALLOW(memfd_create),
	ALLOW(membarrier),
	ALLOW(pkey_alloc),
	ALLOW(pkey_free),
	ALLOW(pkey_mprotect),
	ALLOW(get_mempolicy),
	ALLOW(remap_file_pages),

	SECTION("Processes and threads", "all of them are in the sandbox's process namespace"),
	TELL_WHY("a namespace of its own would give the program powers that the kernel keeps from "
		 "it here",
		clone, EPERM, "flags", BITS(0, flags, NAMESPACES)),
	ALLOW(clone),
	TELL_WHY("a namespace of its own would give the program powers that the kernel keeps from "
		 "it here",
		unshare, EPERM, "flags", BITS(0, flags, UNSHARED_NAMESPACES)),
	ALLOW(unshare),
	QUIET_WHY("its flags are in memory, where a filter can't look; C libraries go on with "
		  "clone",
		clone3, ENOSYS),
	ALLOW(execve),
	ALLOW(execveat),
	ALLOW(exit),
	ALLOW(exit_group),
	ALLOW(wait4),
	ALLOW(waitid),
	ALLOW(getpid),
	ALLOW(getppid),
	ALLOW(gettid),
	ALLOW(getpgid),
	ALLOW(setpgid),
	ALLOW(getsid),
	ALLOW(setsid),
	ALLOW(set_tid_address),
	ALLOW(set_robust_list),
	ALLOW(get_robust_list),
	ALLOW(futex),
	ALLOW(futex_waitv),
	ALLOW(rseq),
	ALLOW(pidfd_open),
	ALLOW(pidfd_send_signal),
	ALLOW(sched_yield),
	ALLOW(sched_getaffinity),
	ALLOW(sched_getparam),
	ALLOW(sched_getscheduler),
	ALLOW(sched_getattr),
	ALLOW(sched_get_priority_max),
	ALLOW(sched_get_priority_min),
	ALLOW(sched_rr_get_interval),
	ALLOW(getpriority),
	ALLOW(getcpu),
	ALLOW(ioprio_get),
	ALLOW(getrusage),
	ALLOW(times),

	SECTION("Limits and scheduling",
		"the sandbox's first process is pid 1 and has the program's uid; holding it back would "
		"stop the clock that it keeps"),
	QUIET(sched_setaffinity, EPERM, IS(0, pid, 1)),
	ALLOW(sched_setaffinity),
	QUIET(sched_setscheduler, EPERM, IS(0, pid, 1)),
	ALLOW(sched_setscheduler),
	QUIET(sched_setparam, EPERM, IS(0, pid, 1)),
	ALLOW(sched_setparam),
	QUIET(sched_setattr, EPERM, IS(0, pid, 1)),
	ALLOW(sched_setattr),
	QUIET(setpriority, EPERM, IS(0, which, PRIO_PGRP)),
	QUIET(setpriority, EPERM, IS(0, which, PRIO_USER)),
	QUIET(setpriority, EPERM, IS(1, who, 1)),
	ALLOW(setpriority),
	QUIET(prlimit64, EPERM, GIVEN(0, pid), GIVEN(2, new_limit)),
	QUIET_WHY("a core limit of 0 would let a core_pattern pipe on the host run; it is 1, which "
		  "refuses both",
		prlimit64, EPERM, IS(1, resource, RLIMIT_CORE), GIVEN(2, new_limit)),
	ALLOW(prlimit64),
	QUIET_WHY("as prlimit64", setrlimit, EPERM, IS(0, resource, RLIMIT_CORE)),
	ALLOW(setrlimit),
	ALLOW(getrlimit),

	SECTION("Signals and timers", "they reach the sandbox's processes only"),
	ALLOW(rt_sigaction),
	ALLOW(rt_sigprocmask),
	ALLOW(rt_sigreturn),
	ALLOW(rt_sigpending),
	ALLOW(rt_sigsuspend),
	ALLOW(rt_sigtimedwait),
	ALLOW(rt_sigqueueinfo),
	ALLOW(rt_tgsigqueueinfo),
	ALLOW(sigaltstack),
	ALLOW(kill),
	ALLOW(tkill),
	ALLOW(tgkill),
	ALLOW(restart_syscall),
	ALLOW(getitimer),
	ALLOW(setitimer),
	ALLOW(timer_create),
	ALLOW(timer_settime),
	ALLOW(timer_gettime),
	ALLOW(timer_getoverrun),
	ALLOW(timer_delete),
	ALLOW(gettimeofday),
	ALLOW(clock_gettime),
	ALLOW(clock_getres),

	SECTION("Identity",
		"there is one uid, one gid and no capability, so these can only repeat it"),
	ALLOW(getuid),
	ALLOW(geteuid),
	ALLOW(getgid),
	ALLOW(getegid),
	ALLOW(getresuid),
	ALLOW(getresgid),
	ALLOW(getgroups),
	ALLOW(setuid),
	ALLOW(setgid),
	ALLOW(setreuid),
	ALLOW(setregid),
	ALLOW(setresuid),
	ALLOW(setresgid),
	ALLOW(setfsuid),
	ALLOW(setfsgid),
	ALLOW(setgroups),
	ALLOW(capget),
	ALLOW(capset),
	ALLOW(uname),
	ROW(sysinfo, .verdict = FILTER_ANSWER,
		.why = "the memory of a machine as large as the limits, and no load"),
	ALLOW(getrandom),
	ALLOW_IF(personality, IS(0, persona, 0)),
	ALLOW_IF(personality, IS(0, persona, ASKED)),
	QUIET_WHY("would turn off what protects the program's own memory", personality, EPERM),

	SECTION("prctl",
		"what a program may say about itself; the rest is answered as a kernel without it does"),
	ALLOW_IF(prctl, IS(0, option, PR_SET_NAME)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_NAME)),
	ALLOW_IF(prctl, IS(0, option, PR_SET_PDEATHSIG)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_PDEATHSIG)),
	ALLOW_IF(prctl, IS(0, option, PR_SET_DUMPABLE)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_DUMPABLE)),
	ALLOW_IF(prctl, IS(0, option, PR_SET_NO_NEW_PRIVS)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_NO_NEW_PRIVS)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_KEEPCAPS)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_SECCOMP)),
	ALLOW_IF(prctl, IS(0, option, PR_CAPBSET_READ)),
	ALLOW_IF(prctl, IS(0, option, PR_CAP_AMBIENT)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_SECUREBITS)),
	ALLOW_IF(prctl, IS(0, option, PR_SET_CHILD_SUBREAPER)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_CHILD_SUBREAPER)),
	ALLOW_IF(prctl, IS(0, option, PR_SET_TIMERSLACK)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_TIMERSLACK)),
	ALLOW_IF(prctl, IS(0, option, PR_SET_THP_DISABLE)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_THP_DISABLE)),
	ALLOW_IF(prctl, IS(0, option, PR_SET_SPECULATION_CTRL)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_SPECULATION_CTRL)),
	ALLOW_IF(prctl, IS(0, option, PR_GET_TID_ADDRESS)),
	ALLOW_IF(prctl, IS(0, option, PR_SET_VMA)),
	QUIET(prctl, EPERM, IS(0, option, PR_CAPBSET_DROP)),
	QUIET(prctl, EPERM, IS(0, option, PR_SET_SECUREBITS)),
	QUIET(prctl, EPERM, IS(0, option, PR_SET_MM)),
	QUIET(prctl, EINVAL),

	SECTION("Sockets",
		"the network namespace leads nowhere but to the gateway, if to that; the families are "
		"those that lead there or stay inside"),
	ALLOW_IF(socket, IS(0, domain, AF_UNIX)),
	ALLOW_IF(socket, IS(0, domain, AF_INET), IS(2, protocol, 0)),
	ALLOW_IF(socket, IS(0, domain, AF_INET), IS(2, protocol, IPPROTO_TCP)),
	ALLOW_IF(socket, IS(0, domain, AF_INET), IS(2, protocol, IPPROTO_UDP)),
	ALLOW_IF(socket, IS(0, domain, AF_INET), IS(2, protocol, IPPROTO_ICMP)),
	QUIET_WHY("a protocol that the gateway does not pass, and whose module the kernel would "
		  "load",
		socket, EPROTONOSUPPORT, IS(0, domain, AF_INET)),
	ALLOW_IF(socket, IS(0, domain, AF_INET6), IS(2, protocol, 0)),
	ALLOW_IF(socket, IS(0, domain, AF_INET6), IS(2, protocol, IPPROTO_TCP)),
	ALLOW_IF(socket, IS(0, domain, AF_INET6), IS(2, protocol, IPPROTO_UDP)),
	ALLOW_IF(socket, IS(0, domain, AF_INET6), IS(2, protocol, IPPROTO_ICMPV6)),
	QUIET_WHY("as of AF_INET", socket, EPROTONOSUPPORT, IS(0, domain, AF_INET6)),
	/* getifaddrs() asks with it; every other request needs a capability that nobody here has */
	ALLOW_IF(socket, IS(0, domain, AF_NETLINK), IS(2, protocol, NETLINK_ROUTE)),
	TELL_WHY("of netlink only route tells a program something that it may know", socket,
		EPROTONOSUPPORT, "domain type protocol", IS(0, domain, AF_NETLINK)),
	TELL_WHY("raw packets would pass by the gateway's rules: use TCP", socket, EAFNOSUPPORT,
		"domain type protocol", IS(0, domain, AF_PACKET)),
	TELL_WHY("it would reach the host of a virtual machine: use TCP", socket, EAFNOSUPPORT,
		"domain type protocol", IS(0, domain, AF_VSOCK)),
	TELL_WHY("ciphers of the kernel are not needed: use a library's", socket, EAFNOSUPPORT,
		"domain type protocol", IS(0, domain, AF_ALG)),
	TELL_WHY("there are AF_INET, AF_INET6, AF_UNIX and route netlink only", socket,
		EAFNOSUPPORT, "domain type protocol"),
	ALLOW_IF(socketpair, IS(0, domain, AF_UNIX)),
	QUIET(socketpair, EAFNOSUPPORT),
	ALLOW(connect),
	ALLOW(bind),
	ALLOW(listen),
	ALLOW(accept),
	ALLOW(accept4),
	ALLOW(getsockname),
	ALLOW(getpeername),
	ALLOW(getsockopt),
	QUIET_WHY("TLS in the kernel, and others of its kind, have modules that it would load",
		setsockopt, ENOPROTOOPT, IS(1, level, IPPROTO_TCP), IS(2, option, TCP_ULP)),
	ALLOW(setsockopt),
	ALLOW(sendto),
	ALLOW(recvfrom),
	ALLOW(sendmsg),
	ALLOW(recvmsg),
	ALLOW(sendmmsg),
	ALLOW(recvmmsg),
	ALLOW(shutdown),

#ifdef __x86_64__
	SECTION("Older forms", "the x86-64 calls of which the sections above hold the newer form"),
	TELL_SET_ID(open, "@path flags mode", BITS(1, flags, CREATE), BITS(2, mode, SET_ID)),
	ALLOW(open),
	TELL_SET_ID(creat, "@path mode", BITS(1, mode, SET_ID)),
	ALLOW(creat),
	ALLOW(stat),
	ALLOW(lstat),
	ALLOW(access),
	ALLOW(getdents),
	ALLOW(rename),
	ALLOW(renameat),
	ALLOW(mkdir),
	ALLOW(rmdir),
	ALLOW(link),
	ALLOW(unlink),
	ALLOW(symlink),
	ALLOW(readlink),
	TELL_SET_ID(chmod, "@path mode", BITS(1, mode, SET_ID)),
	ALLOW(chmod),
	ALLOW(chown),
	ALLOW(lchown),
	TELL_SET_ID(mknod, "@path mode", BITS(1, mode, SET_ID)),
	ALLOW(mknod),
	ALLOW(utime),
	ALLOW(utimes),
	ALLOW(futimesat),
	ALLOW(dup2),
	ALLOW(pipe),
	ALLOW(poll),
	ALLOW(select),
	ALLOW(epoll_create),
	ALLOW(epoll_wait),
	ALLOW(eventfd),
	ALLOW(signalfd),
	ALLOW(inotify_init),
	ALLOW(pause),
	ALLOW(fork),
	ALLOW(vfork),
	ALLOW(getpgrp),
	ALLOW(alarm),
	ALLOW(time),
	ALLOW(arch_prctl),
	QUIET_WHY("segments of 16-bit programs", modify_ldt, ENOSYS),
	TELL_WHY("ports of the machine are the host's", iopl, EPERM, "level"),
	TELL_WHY("ports of the machine are the host's", ioperm, EPERM, "from count turn_on"),
#endif

	SECTION("Rings and contexts of asynchronous input and output",
		"what is done through one is not seen by a filter, or counts against a limit of the whole "
		"host; programs go on without"),
	QUIET(io_uring_setup, EPERM),
	QUIET(io_uring_enter, EPERM),
	QUIET(io_uring_register, EPERM),
	QUIET(io_setup, ENOSYS),
	QUIET(io_destroy, ENOSYS),
	QUIET(io_submit, ENOSYS),
	QUIET(io_cancel, ENOSYS),
	QUIET(io_getevents, ENOSYS),

	SECTION("Confining oneself",
		"a filter or a rule set of the program's own; the sandbox is one already, and programs go "
		"on as on a kernel without"),
	QUIET(seccomp, EINVAL),
	QUIET(landlock_create_ruleset, ENOSYS),
	QUIET(landlock_add_rule, ENOSYS),
	QUIET(landlock_restrict_self, ENOSYS),

	SECTION("Looking into other processes",
		"debuggers and tracers can't run here: print, log, or use faulthandler instead"),
	TELL(ptrace, EPERM, "request pid &address &data"),
	TELL(process_vm_readv, EPERM, "pid &local local_count &remote remote_count flags"),
	TELL(process_vm_writev, EPERM, "pid &local local_count &remote remote_count flags"),
	TELL(pidfd_getfd, EPERM, "pidfd target_fd flags"),
	QUIET(kcmp, EPERM),
	QUIET(process_madvise, EPERM),
	TELL_WHY("counters of the processor tell what others do: measure time instead",
		perf_event_open, EPERM, "&attributes pid cpu group_fd flags"),
	TELL_WHY("a program for the kernel is what most escapes begin with", bpf, EPERM,
		"command &attributes size"),
	TELL_WHY("handling faults in the program helps exploits of the kernel", userfaultfd, EPERM,
		"flags"),

	SECTION("Mounts and roots",
		"the view of files is made before the start: --in, --bind and --tmpfs add to it"),
	TELL(mount, EPERM, "*source @target *type flags &data"),
	TELL(umount2, EPERM, "@target flags"),
	TELL(pivot_root, EPERM, "@new_root *put_old"),
	TELL(chroot, EPERM, "@path"),
	TELL(open_tree, EPERM, "dirfd @path flags"),
	TELL(move_mount, EPERM, "from_dirfd @from to_dirfd *to flags"),
	TELL(fsopen, EPERM, "*type flags"),
	TELL(fsconfig, EPERM, "fd command *key &value aux"),
	TELL(fsmount, EPERM, "fd flags attributes"),
	TELL(fspick, EPERM, "dirfd @path flags"),
	TELL(mount_setattr, EPERM, "dirfd @path flags &attributes size"),
	TELL_WHY("it would open a file past the view of files", open_by_handle_at, EPERM,
		"mount_fd &handle flags"),
	QUIET(name_to_handle_at, EPERM),
	QUIET(fanotify_init, EPERM),
	QUIET(fanotify_mark, EPERM),
	QUIET(quotactl, EPERM),
	TELL_WHY("another namespace is never the program's", setns, EPERM, "fd type"),

	SECTION("Keys", "the kernel's key rings are shared between sandboxes: keep keys in memory"),
	TELL(keyctl, EPERM, "operation"),
	TELL(add_key, EPERM, "*type *description &payload length ring"),
	TELL(request_key, EPERM, "*type *description &callout ring"),

	SECTION("System V and POSIX message queues, semaphores, shared memory",
		"they outlive their processes: use mmap, pipes, AF_UNIX sockets, or files in /dev/shm as "
		"sem_open and shm_open do"),
	TELL(shmget, EPERM, "key size flags"),
	TELL(shmat, EPERM, "id &address flags"),
	TELL(shmctl, EPERM, "id command &buffer"),
	TELL(shmdt, EPERM, "&address"),
	TELL(msgget, EPERM, "key flags"),
	TELL(msgsnd, EPERM, "queue &message size flags"),
	TELL(msgrcv, EPERM, "queue &message size type flags"),
	TELL(msgctl, EPERM, "queue command &buffer"),
	TELL(semget, EPERM, "key count flags"),
	TELL(semop, EPERM, "id &operations count"),
	TELL(semtimedop, EPERM, "id &operations count &timeout"),
	TELL(semctl, EPERM, "id number command"),
	TELL(mq_open, EPERM, "*name flags mode &attributes"),
	TELL(mq_unlink, EPERM, "*name"),

	SECTION("The host",
		"clock, name, modules, power and memory of the host are not the sandbox's"),
	TELL(init_module, EPERM, "&image length *parameters"),
	TELL(finit_module, EPERM, "fd *parameters flags"),
	TELL(delete_module, EPERM, "*name flags"),
	TELL(kexec_load, EPERM, "&entry count &segments flags"),
	TELL(kexec_file_load, EPERM, "kernel_fd initrd_fd length *command_line flags"),
	TELL(reboot, EPERM, "magic magic2 command &argument"),
	TELL(swapon, EPERM, "@path flags"),
	TELL(swapoff, EPERM, "@path"),
	TELL(acct, EPERM, "@path"),
	TELL(settimeofday, EPERM, "&time &zone"),
	TELL(clock_settime, EPERM, "clock &time"),
	TELL(sethostname, EPERM, "*name length"),
	TELL(setdomainname, EPERM, "*name length"),
	QUIET(adjtimex, EPERM),
	QUIET(clock_adjtime, EPERM),
	QUIET(vhangup, EPERM),
	QUIET(syslog, EPERM),
	QUIET(mbind, EPERM),
	QUIET(set_mempolicy, EPERM),
	QUIET(move_pages, EPERM),
	QUIET(migrate_pages, EPERM),
};
const size_t FILTER_ROW_COUNT = array_size(FILTER_ROWS);

static bool holds(const struct filter_test *test, uint64_t argument)
{
	switch (test->how) {
	case FILTER_ANY:
		return true;
	case FILTER_IS:
		return (uint32_t)argument == test->value;
	case FILTER_BITS:
		return ((uint32_t)argument & test->value) != 0;
	case FILTER_GIVEN:
		return argument != 0;
	}
	return false;
}

const struct filter_row *filter_judge(
	uint32_t number, const uint64_t arguments[static FILTER_ARGUMENTS_MAX])
{
	for (size_t i = 0; i < FILTER_ROW_COUNT; i++) {
		const struct filter_row *row = &FILTER_ROWS[i];
		bool all = row->number >= 0 && (uint32_t)row->number == number;
		for (size_t t = 0; t < FILTER_TESTS_MAX && all; t++)
			all = holds(&row->tests[t], arguments[row->tests[t].argument]);
		if (all)
			return row;
	}
	return NULL;
}

const char *filter_row_name(const struct filter_row *row, char *to, size_t capacity)
{
	int len = snprintf(to, capacity, "%s", row->name);
	for (size_t t = 0; t < FILTER_TESTS_MAX && row->tests[t].how != FILTER_ANY; t++) {
		size_t used = (size_t)len < capacity ? (size_t)len : capacity;
		len += snprintf(to + used, capacity - used, "%s%s", t == 0 ? ": " : ", ",
			row->tests[t].text);
	}
	return to;
}

const char *filter_row_why(const struct filter_row *row)
{
	while (row->why == NULL)
		row--; /* up to the section's head; the first row is one */
	return row->why;
}
