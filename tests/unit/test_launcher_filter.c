/* The system call filter, asked from a child that has loaded it: what exists, what is refused, what kills. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "sandbox-launcher/filter.h"

#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define X32_BIT 0x40000000

struct probe {
	const char *what;
	long number;
	unsigned long a, b, c;
	int expect; /* errno; 0 = must not be refused by the filter */
};

/* In a child: load, call, leave with errno (0 when it worked). @return the wait status. */
static int ask(const struct probe *p)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load() < 0)
			_exit(255);
		long r = syscall(p->number, p->a, p->b, p->c, 0, 0, 0);
		if (r == 0 && (p->number == SYS_clone || p->number == SYS_clone3))
			_exit(0);
		_exit(r < 0 ? errno : 0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

#define HIGH   (1UL << 32)
#define NOBODY 0x7ffffffe /* whom a call that a filter lets through does not find */

static const struct probe REFUSED[] = {
	{"TIOCSTI", SYS_ioctl, 0, TIOCSTI, 0, EPERM},
	{"TIOCSTI with bit 32", SYS_ioctl, 0, TIOCSTI | HIGH, 0, EPERM},
	{"TIOCLINUX", SYS_ioctl, 0, TIOCLINUX, 0, EPERM},
	{"TIOCLINUX with bit 32", SYS_ioctl, 0, TIOCLINUX | HIGH, 0, EPERM},
	{"unshare user", SYS_unshare, CLONE_NEWUSER, 0, 0, EPERM},
	{"unshare net", SYS_unshare, CLONE_NEWNET, 0, 0, EPERM},
	{"unshare mount and files", SYS_unshare, CLONE_NEWNS | CLONE_FILES, 0, 0, EPERM},
	{"unshare time", SYS_unshare, 0x80, 0, 0, EPERM},
	{"unshare user with bit 32", SYS_unshare, CLONE_NEWUSER | HIGH, 0, 0, EPERM},
	{"clone user", SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, EPERM},
	{"clone pid", SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, EPERM},
	{"clone3", SYS_clone3, 0, 0, 0, ENOSYS},
	{"a limit of pid 1", SYS_prlimit64, 1, RLIMIT_NOFILE, 8, EPERM},
	{"a limit of pid 1 with bit 32", SYS_prlimit64, 1 | HIGH, RLIMIT_NOFILE, 8, EPERM},
	{"a limit of another process", SYS_prlimit64, 2, RLIMIT_CPU, 8, EPERM},
	{"affinity of pid 1", SYS_sched_setaffinity, 1, 8, 0, EPERM},
	{"affinity of pid 1 with bit 32", SYS_sched_setaffinity, 1 | HIGH, 8, 0, EPERM},
	{"scheduler of pid 1", SYS_sched_setscheduler, 1, SCHED_BATCH, 8, EPERM},
	{"parameters of pid 1", SYS_sched_setparam, 1, 8, 0, EPERM},
	{"attributes of pid 1", SYS_sched_setattr, 1, 8, 0, EPERM},
	{"priority of pid 1", SYS_setpriority, PRIO_PROCESS, 1, 0, EPERM},
	{"priority of a group", SYS_setpriority, PRIO_PGRP, NOBODY, 0, EPERM},
	{"priority of all", SYS_setpriority, PRIO_USER, NOBODY, 0, EPERM},
	{"priority of all with bit 32", SYS_setpriority, PRIO_USER | HIGH, NOBODY, 0, EPERM},
	{"setns", SYS_setns, 0, 0, 0, EPERM},
	{"mount", SYS_mount, 0, 0, 0, EPERM},
	{"open_tree", SYS_open_tree, 0, 0, 0, EPERM},
	{"move_mount", SYS_move_mount, 0, 0, 0, EPERM},
	{"fsopen", SYS_fsopen, 0, 0, 0, EPERM},
	{"mount_setattr", SYS_mount_setattr, 0, 0, 0, EPERM},
	{"pivot_root", SYS_pivot_root, 0, 0, 0, EPERM},
	{"chroot", SYS_chroot, 0, 0, 0, EPERM},
	{"ptrace", SYS_ptrace, 0, 0, 0, EPERM},
	{"process_vm_readv", SYS_process_vm_readv, 0, 0, 0, EPERM},
	{"process_vm_writev", SYS_process_vm_writev, 0, 0, 0, EPERM},
	{"pidfd_getfd", SYS_pidfd_getfd, 0, 0, 0, EPERM},
	{"keyctl", SYS_keyctl, 0, 0, 0, EPERM},
	{"add_key", SYS_add_key, 0, 0, 0, EPERM},
	{"bpf", SYS_bpf, 0, 0, 0, EPERM},
	{"perf_event_open", SYS_perf_event_open, 0, 0, 0, EPERM},
	{"io_uring_setup", SYS_io_uring_setup, 0, 0, 0, EPERM},
	{"io_uring_enter", SYS_io_uring_enter, 0, 0, 0, EPERM},
	{"io_uring_register", SYS_io_uring_register, 0, 0, 0, EPERM},
	{"userfaultfd", SYS_userfaultfd, 0, 0, 0, EPERM},
	{"kexec_load", SYS_kexec_load, 0, 0, 0, EPERM},
	{"init_module", SYS_init_module, 0, 0, 0, EPERM},
	{"shmget", SYS_shmget, 0, 0, 0, EPERM},
	{"mq_open", SYS_mq_open, 0, 0, 0, EPERM},
	{"seccomp", SYS_seccomp, 0, 0, 0, EPERM},
	{"AF_PACKET", SYS_socket, AF_PACKET, SOCK_RAW, 0, EAFNOSUPPORT},
	{"AF_VSOCK", SYS_socket, AF_VSOCK, SOCK_STREAM, 0, EAFNOSUPPORT},
	{"AF_ALG", SYS_socket, AF_ALG, SOCK_SEQPACKET, 0, EAFNOSUPPORT},
	{"AF_INET with bit 32", SYS_socket, AF_INET | HIGH, SOCK_STREAM, 0, EAFNOSUPPORT},
	{"AF_UNSPEC", SYS_socket, AF_UNSPEC, SOCK_STREAM, 0, EAFNOSUPPORT},
	{"netlink netfilter", SYS_socket, AF_NETLINK, SOCK_RAW, 12, EAFNOSUPPORT},
	{"netlink audit", SYS_socket, AF_NETLINK, SOCK_RAW, 9, EAFNOSUPPORT},
	{"core limit", SYS_setrlimit, RLIMIT_CORE, 1, 0, EPERM},
	{"core limit by prlimit", SYS_prlimit64, 0, RLIMIT_CORE, 1, EPERM},
	{"PR_SET_PTRACER", SYS_prctl, PR_SET_PTRACER, (unsigned long)-1, 0, ENOSYS},
	{"PR_SET_MM", SYS_prctl, PR_SET_MM, 0, 0, ENOSYS},
	{"personality", SYS_personality, 0x0040000, 0, 0, ENOSYS},
	{"an unknown number", 5000, 0, 0, 0, ENOSYS},
};

static void what_gains_privileges_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(REFUSED); i++) {
		int status = ask(&REFUSED[i]);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != REFUSED[i].expect)
			fail_msg("%s: status %#x, expected errno %d", REFUSED[i].what,
				(unsigned)status, REFUSED[i].expect);
	}
}

static const struct probe ALLOWED[] = {
	{"getpid", SYS_getpid, 0, 0, 0, 0},
	{"AF_INET", SYS_socket, AF_INET, SOCK_STREAM, 0, 0},
	{"AF_INET6", SYS_socket, AF_INET6, SOCK_DGRAM, 0, 0},
	{"AF_UNIX", SYS_socket, AF_UNIX, SOCK_STREAM, 0, 0},
	{"netlink route", SYS_socket, AF_NETLINK, SOCK_RAW, 0, 0},
	{"fork", SYS_clone, SIGCHLD, 0, 0, 0},
	{"unshare files", SYS_unshare, CLONE_FILES, 0, 0, 0},
	{"PR_SET_NAME", SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0, 0},
	{"personality, asked", SYS_personality, 0xffffffff, 0, 0, 0},
	{"a limit, asked", SYS_prlimit64, 0, RLIMIT_NOFILE, 0, 0},
	{"a limit of another, asked", SYS_prlimit64, 1, RLIMIT_NOFILE, 0, 0},
	{"own priority", SYS_setpriority, PRIO_PROCESS, 0, 0, 0},
	{"scheduler of pid 1, asked", SYS_sched_getscheduler, 1, 0, 0, 0},
	{"sched_yield", SYS_sched_yield, 0, 0, 0, 0},
};

static void what_programs_need_works(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(ALLOWED); i++) {
		int status = ask(&ALLOWED[i]);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
			fail_msg("%s: status %#x", ALLOWED[i].what, (unsigned)status);
	}
}

static void x32_numbers_kill(void **state)
{
	(void)state;
	const struct probe probes[] = {
		{"x32 getpid", X32_BIT | SYS_getpid, 0, 0, 0, 0},
		{"x32 socket", X32_BIT | SYS_socket, AF_INET, SOCK_STREAM, 0, 0},
	};
	for (size_t i = 0; i < array_size(probes); i++) {
		int status = ask(&probes[i]);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	}
}

#ifdef __x86_64__
static void the_32_bit_entry_kills(void **state)
{
	(void)state;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load() < 0)
			_exit(255);
		long number = 20; /* getpid of i386 */
		__asm__ volatile("int $0x80" : "+a"(number) : : "memory");
		_exit(0);
	}
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	/* a kernel without that entry raises SIGSEGV: dead all the same */
	assert_true(WIFSIGNALED(status));
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_gains_privileges_is_refused),
		cmocka_unit_test(what_programs_need_works),
		cmocka_unit_test(x32_numbers_kill),
#ifdef __x86_64__
		cmocka_unit_test(the_32_bit_entry_kills),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
