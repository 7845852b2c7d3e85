/* The system call filter, asked from a child that has loaded it: what exists, what is refused, what kills, what is told. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "ipc/channel.h"
#include "sandbox-launcher/filter.h"
#include "sandbox-launcher/notify.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#define X32_BIT 0x40000000

struct probe {
	const char *what;
	long number;
	unsigned long a, b, c;
	int expect; /* errno; 0 = must not be refused by the filter */
};

/* Load; the listener goes to the parent, or is closed where nobody listens. */
static void confine(int channel, bool listened)
{
	static struct filter_program program;
	int listener = -1;
	filter_build(&program, true);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load(&program, &listener) < 0 ||
		listener < 0)
		_exit(255);
	if (listened && channel_send(channel, "", 1, &listener, 1) < 0)
		_exit(255);
	(void)close(listener);
}

/* In a child: load, call @times times, leave with the last errno (0 when it worked). */
static pid_t start(const struct probe *p, int times, int *ret_channel)
{
	int ends[2];
	assert_int_equal(channel_pair(ends), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		long r = -1;
		confine(ends[1], ret_channel != NULL);
		for (int i = 0; i < times; i++)
			r = syscall(p->number, p->a, p->b, p->c, 0, 0, 0);
		if (r == 0 && (p->number == SYS_clone || p->number == SYS_clone3))
			_exit(0);
		_exit(r < 0 ? errno : 0);
	}
	(void)close(ends[1]);
	if (ret_channel != NULL)
		*ret_channel = ends[0];
	else
		(void)close(ends[0]);
	return pid;
}

/* Answer until all of the filter's processes are gone. */
static void supervise(int channel, struct violations *seen)
{
	struct notify n;
	int listener;
	char byte;
	notify_init(&n, 1 << 20, seen);
	assert_int_equal(channel_receive(channel, &byte, 1, &listener, 1, NULL), 1);
	notify_listen(&n, listener);
	while (n.listener >= 0) {
		struct pollfd wait;
		notify_poll(&n, &wait);
		assert_true(poll(&wait, 1, notify_wait_ms(&n, clock_monotonic_ns())) >= 0);
		notify_serve(&n, wait.revents, clock_monotonic_ns());
	}
	notify_fini(&n);
}

static int ask_often(const struct probe *p, int times, struct violations *seen)
{
	int status, channel;
	pid_t pid = start(p, times, &channel);
	supervise(channel, seen);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)close(channel);
	return status;
}

static int ask(const struct probe *p)
{
	struct violations seen = {0};
	int status = ask_often(p, 1, &seen);
	violations_fini(&seen);
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
	{"set-user-id by fchmod", SYS_fchmod, (unsigned long)-1, S_ISUID | 0755, 0, EPERM},
	{"set-group-id by fchmod, bit 32", SYS_fchmod, (unsigned long)-1, S_ISGID | HIGH, 0, EPERM},
	{"set-user-id by fchmodat", SYS_fchmodat, (unsigned long)-1, 0, S_ISUID, EPERM},
	{"set-user-id by mknodat", SYS_mknodat, (unsigned long)-1, 0, S_IFREG | S_ISUID, EPERM},
	{"openat2", SYS_openat2, (unsigned long)-1, 0, 0, ENOSYS},
#ifdef __x86_64__
	{"set-user-id by chmod", SYS_chmod, 0, S_ISUID, 0, EPERM},
	{"set-group-id by creat", SYS_creat, 0, S_ISGID | 0755, 0, EPERM},
	{"set-user-id by mknod", SYS_mknod, 0, S_ISUID, 0, EPERM},
	{"set-user-id by open", SYS_open, 0, O_CREAT, S_ISUID | 0755, EPERM},
	{"set-user-id by open, without a name", SYS_open, 0, O_TMPFILE, S_ISUID, EPERM},
#endif
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
	{"seccomp", SYS_seccomp, 0, 0, 0, EINVAL},
	{"AF_PACKET", SYS_socket, AF_PACKET, SOCK_RAW, 0, EAFNOSUPPORT},
	{"AF_VSOCK", SYS_socket, AF_VSOCK, SOCK_STREAM, 0, EAFNOSUPPORT},
	{"AF_ALG", SYS_socket, AF_ALG, SOCK_SEQPACKET, 0, EAFNOSUPPORT},
	{"AF_PACKET with bit 32", SYS_socket, AF_PACKET | HIGH, SOCK_RAW, 0, EAFNOSUPPORT},
	{"AF_UNSPEC", SYS_socket, AF_UNSPEC, SOCK_STREAM, 0, EAFNOSUPPORT},
	{"netlink netfilter", SYS_socket, AF_NETLINK, SOCK_RAW, 12, EPROTONOSUPPORT},
	{"netlink audit", SYS_socket, AF_NETLINK, SOCK_RAW, 9, EPROTONOSUPPORT},
	{"SCTP", SYS_socket, AF_INET, SOCK_STREAM, 132, EPROTONOSUPPORT},
	{"TLS in the kernel", SYS_setsockopt, 0, IPPROTO_TCP, TCP_ULP, ENOPROTOOPT},
	{"huge pages", SYS_memfd_create, 0, MFD_HUGETLB, 0, EINVAL},
	{"asynchronous I/O", SYS_io_setup, 1, 0, 0, ENOSYS},
	{"core limit", SYS_setrlimit, RLIMIT_CORE, 1, 0, EPERM},
	{"core limit by prlimit", SYS_prlimit64, 0, RLIMIT_CORE, 1, EPERM},
	{"PR_SET_PTRACER", SYS_prctl, PR_SET_PTRACER, (unsigned long)-1, 0, EINVAL},
	{"PR_SET_MM", SYS_prctl, PR_SET_MM, 0, 0, EPERM},
	{"personality", SYS_personality, 0x0040000, 0, 0, EPERM},
	{"an unknown number", 5000, 0, 0, 0, ENOSYS},
	{"the last number", -1, 0, 0, 0, ENOSYS},
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
	{"a folder opened, with what is no mode", SYS_openat, (unsigned long)AT_FDCWD,
		(unsigned long)"/", O_DIRECTORY, 0},
#ifdef __x86_64__
	{"the same by open", SYS_open, (unsigned long)"/", O_DIRECTORY, S_ISUID, 0},
#endif
	{"sync, answered as done", SYS_sync, 0, 0, 0, 0},
	{"syncfs, answered as done", SYS_syncfs, 999, 0, 0, 0},
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
		confine(-1, false);
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

static void with_nobody_there_to_answer_the_call_fails(void **state)
{
	(void)state;
	for (size_t i = 0; i < array_size(REFUSED); i++) {
		const struct probe *p = &REFUSED[i];
		const uint64_t arguments[FILTER_ARGUMENTS_MAX] = {p->a, p->b, p->c};
		const struct filter_row *row = filter_judge((uint32_t)p->number, arguments);
		if (row == NULL || row->verdict != FILTER_TELL)
			continue;
		int status;
		pid_t pid = start(p, 1, NULL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != ENOSYS)
			fail_msg("%s: status %#x", p->what, (unsigned)status);
	}
}

/* The program that is loaded where there is a listener already: the first one makes a second impossible. */
static int load_behind_a_listener(void)
{
	static struct filter_program outer, program;
	struct sysinfo info = {0};
	int first = -1, second = -1;
	outer = (struct filter_program){
		.code = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}, .count = 1};
	filter_build(&program, false);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load(&outer, &first) < 0 ||
		filter_load(&program, &second) < 0)
		return 100;
	if (first < 0 || second >= 0)
		return 101;
	if (sysinfo(&info) < 0 || info.totalram == 0)
		return 102;
	return chroot("/") < 0 && errno == ENOSYS ? 0 : 103;
}

static void where_there_is_a_listener_already_the_kernel_answers(void **state)
{
	(void)state;
	int status;
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(load_behind_a_listener());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_refusal_is_told_with_its_arguments(void **state)
{
	(void)state;
	struct violations seen = {0};
	char call[VIOLATION_CALL_BYTES], self[256];
	const struct probe p = {"mount", SYS_mount, (unsigned long)(uintptr_t) "none",
		(unsigned long)(uintptr_t) "/mnt/\033x", (unsigned long)(uintptr_t) "tmpfs", EPERM};
	int status = ask_often(&p, 3, &seen);
	assert_int_equal(WEXITSTATUS(status), EPERM);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.items[0].count, 3);
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	assert_true(len > 0);
	self[len] = '\0';
	assert_string_equal(seen.items[0].executable, self);
	assert_string_equal(violation_path(&seen.items[0]), "/mnt/\033x");
	assert_string_equal(violation_call(&seen.items[0], call, sizeof(call)),
		"mount(source=\"none\", target=\"/mnt/\\x1bx\", type=\"tmpfs\", flags=0)");
	violations_fini(&seen);
}

static void memory_that_can_not_be_read_is_no_text(void **state)
{
	(void)state;
	struct violations seen = {0};
	const struct probe p = {"mount", SYS_mount, 1, ~0UL, 4095, EPERM};
	int status = ask_often(&p, 1, &seen);
	assert_int_equal(WEXITSTATUS(status), EPERM);
	assert_int_equal(seen.count, 1);
	assert_null(violation_path(&seen.items[0]));
	violations_fini(&seen);
}

static void expected_probes_are_not_told(void **state)
{
	(void)state;
	const struct probe quiet[] = {{"clone3", SYS_clone3, 0, 0, 0, 0},
		{"io_uring", SYS_io_uring_setup, 0, 0, 0, 0}, {"rseq", SYS_rseq, 0, 0, 0, 0},
		{"landlock", SYS_landlock_create_ruleset, 0, 0, 0, 0},
		{"unknown", 5000, 0, 0, 0, 0}};
	struct violations seen = {0};
	for (size_t i = 0; i < array_size(quiet); i++)
		(void)ask_often(&quiet[i], 1, &seen);
	assert_int_equal(seen.total, 0);
	violations_fini(&seen);
}

static void a_loop_of_refusals_is_slowed_down(void **state)
{
	(void)state;
	struct violations seen = {0};
	const struct probe p = {"unshare", SYS_unshare, CLONE_NEWUSER, 0, 0, EPERM};
	uint64_t before = clock_monotonic_ns();
	(void)ask_often(&p, NOTIFY_PROMPT + 10, &seen);
	assert_int_equal(seen.count, 1);
	assert_int_equal(seen.items[0].count, NOTIFY_PROMPT + 10);
	assert_true(clock_monotonic_ns() - before >= 10 * NOTIFY_PAUSE_MS * NS_PER_MS);
	violations_fini(&seen);
}

static struct violation of_path(const char *path)
{
	struct violation v = {.row = filter_judge(SYS_chroot, (uint64_t[FILTER_ARGUMENTS_MAX]){0})};
	v.texts[0] = strdup(path);
	assert_non_null(v.texts[0]);
	return v;
}

static void only_so_many_refusals_are_kept(void **state)
{
	(void)state;
	struct violations list = {0};
	char path[16];
	for (int i = 0; i <= VIOLATIONS_MAX; i++) {
		(void)snprintf(path, sizeof(path), "/%d", i);
		struct violation v = of_path(path);
		violations_add(&list, &v);
	}
	assert_int_equal(list.count, VIOLATIONS_MAX);
	assert_int_equal(list.left_out, 1);
	struct violation again = of_path("/0");
	violations_add(&list, &again);
	assert_int_equal(list.items[0].count, 2);
	assert_int_equal(list.left_out, 1);
	assert_int_equal(list.total, VIOLATIONS_MAX + 2);
	violations_fini(&list);
}

/* What the compiled program answers, by its definition: struct seccomp_data as 32-bit words. */
static uint32_t interpret(const struct filter_program *p, const struct seccomp_data *data)
{
	uint32_t a = 0, word[sizeof(*data) / 4];
	memcpy(word, data, sizeof(word));
	for (size_t at = 0; at < p->count; at++) {
		const struct sock_filter *i = &p->code[at];
		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = word[i->k / 4];
			break;
		case BPF_RET | BPF_K:
			return i->k;
		case BPF_JMP | BPF_JA:
			at += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			at += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			at += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			at += (a & i->k) != 0 ? i->jt : i->jf;
			break;
		default:
			fail_msg("instruction %zu: code %#x", at, i->code);
		}
	}
	fail_msg("the program has no end");
	return 0;
}

static uint32_t expected(
	bool bound, uint32_t number, const uint64_t arguments[static FILTER_ARGUMENTS_MAX])
{
#ifdef __x86_64__
	if (number >= FILTER_X32_BIT && number < 2 * FILTER_X32_BIT)
		return SECCOMP_RET_KILL_PROCESS;
#endif
	const struct filter_row *row = filter_judge(number, arguments);
	if (row == NULL)
		return SECCOMP_RET_ERRNO | ENOSYS;
	if (row->bound && !bound)
		row++; /* the_table_is_well_formed() */
	return row->verdict == FILTER_ALLOW     ? SECCOMP_RET_ALLOW
		: row->verdict == FILTER_TELL   ? SECCOMP_RET_USER_NOTIF
		: row->verdict == FILTER_ANSWER ? SECCOMP_RET_USER_NOTIF | 1
						: SECCOMP_RET_ERRNO | (uint32_t)row->error;
}

static void same_answer(const struct filter_program *p, uint32_t number, uint32_t arch,
	const uint64_t arguments[static FILTER_ARGUMENTS_MAX])
{
	struct seccomp_data data = {.nr = (int)number, .arch = arch};
	for (size_t i = 0; i < FILTER_ARGUMENTS_MAX; i++)
		data.args[i] = arguments[i];
	uint32_t got = interpret(p, &data), wanted = expected(p->bound, number, arguments);
	if (got != wanted)
		fail_msg("number %u (%#llx, %#llx, %#llx): %#x instead of %#x", number,
			(unsigned long long)arguments[0], (unsigned long long)arguments[1],
			(unsigned long long)arguments[2], got, wanted);
}

/* Every number, with every value that some row compares an argument with, and its neighbours. */
static void check_program(bool bound)
{
	static struct filter_program p;
	static const uint32_t far[] = {601, 5000, FILTER_X32_BIT - 1, FILTER_X32_BIT,
		FILTER_X32_BIT | 41, 2 * FILTER_X32_BIT - 1, 2 * FILTER_X32_BIT, UINT32_MAX};
	filter_build(&p, bound);
#ifdef __x86_64__
	const uint32_t arch = AUDIT_ARCH_X86_64;
#else
	const uint32_t arch = AUDIT_ARCH_AARCH64;
#endif
	for (uint32_t n = 0; n <= 600 + array_size(far); n++) {
		uint32_t number = n <= 600 ? n : far[n - 601];
		same_answer(&p, number, arch, (const uint64_t[FILTER_ARGUMENTS_MAX]){0});
		for (size_t i = 0; i < FILTER_ROW_COUNT; i++) {
			const struct filter_row *row = &FILTER_ROWS[i];
			if (row->number != (int)number)
				continue;
			uint64_t values[FILTER_ARGUMENTS_MAX] = {0};
			for (size_t t = 0; t < FILTER_TESTS_MAX; t++)
				values[row->tests[t].argument] = row->tests[t].value;
			same_answer(&p, number, arch, values);
			for (size_t k = 0; k < FILTER_ARGUMENTS_MAX; k++) {
				static const uint64_t changes[] = {1, HIGH, ~0ULL, 1ULL << 63};
				for (size_t c = 0; c < array_size(changes); c++) {
					values[k] ^= changes[c];
					same_answer(&p, number, arch, values);
					values[k] ^= changes[c];
				}
			}
		}
	}
}

static void the_program_says_what_the_table_says(void **state)
{
	(void)state;
	check_program(true);
}

static void where_nothing_of_the_hosts_is_written_rows_about_it_are_left_out(void **state)
{
	(void)state;
	check_program(false);
}

static void another_architecture_kills_whatever_the_number(void **state)
{
	(void)state;
	static struct filter_program p;
	filter_build(&p, true);
	for (uint32_t n = 0; n <= 600; n++) {
		const struct seccomp_data data = {.nr = (int)n, .arch = AUDIT_ARCH_I386};
		assert_int_equal(interpret(&p, &data), SECCOMP_RET_KILL_PROCESS);
	}
}

/* Rows of a call stand together and end with one that always holds, TELL rows can be explained, names are the kernel's. */
static void the_table_is_well_formed(void **state)
{
	(void)state;
	bool seen[FILTER_NUMBER_MAX + 1] = {false};
	assert_int_equal(FILTER_ROWS[0].number, -1);
	for (size_t i = 0; i < FILTER_ROW_COUNT; i++) {
		const struct filter_row *row = &FILTER_ROWS[i];
		const struct filter_row *next = i + 1 < FILTER_ROW_COUNT ? row + 1 : FILTER_ROWS;
		bool last = next->number != row->number;
		if (row->number < 0)
			continue;
		if (row->number > FILTER_NUMBER_MAX || seen[row->number])
			fail_msg("%s: number, or rows apart", row->name);
		seen[row->number] = last;
		if (last != (row->tests[0].how == FILTER_ANY))
			fail_msg("%s: only the last row has no test", row->name);
		if (row->verdict == FILTER_TELL && (row->arguments == NULL || row->error == 0))
			fail_msg("%s: can't be told", row->name);
		if (row->bound && (last || next->bound || next->tests[0].how != FILTER_ANY))
			fail_msg("%s: what holds without it is not the next row", row->name);
		if (row->verdict == FILTER_ALLOW && row->error != 0)
			fail_msg("%s: allowed with an errno", row->name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_gains_privileges_is_refused),
		cmocka_unit_test(what_programs_need_works),
		cmocka_unit_test(x32_numbers_kill),
#ifdef __x86_64__
		cmocka_unit_test(the_32_bit_entry_kills),
#endif
		cmocka_unit_test(with_nobody_there_to_answer_the_call_fails),
		cmocka_unit_test(where_there_is_a_listener_already_the_kernel_answers),
		cmocka_unit_test(a_refusal_is_told_with_its_arguments),
		cmocka_unit_test(memory_that_can_not_be_read_is_no_text),
		cmocka_unit_test(expected_probes_are_not_told),
		cmocka_unit_test(a_loop_of_refusals_is_slowed_down),
		cmocka_unit_test(only_so_many_refusals_are_kept),
		cmocka_unit_test(the_program_says_what_the_table_says),
		cmocka_unit_test(where_nothing_of_the_hosts_is_written_rows_about_it_are_left_out),
		cmocka_unit_test(another_architecture_kills_whatever_the_number),
		cmocka_unit_test(the_table_is_well_formed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
