/*
 * Asks a kernel about every system call number, in the native ABI, with the x32 bit, and through the 32-bit entry; each in
 * a process of its own, with arguments that mean nothing. Run in a sandbox it prints what happened, run with `expect` what
 * the table says should. A line is: abi number answer; an answer is allowed, killed, or a refusal's errno.
 */
#include "common/cleanup.h"
#include "sandbox-launcher/filter_table.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#define ALL        600 /* every number up to here */
#define BLOCKED    254 /* exit status: it waits, so it exists */
#define BLOCKED_US 100000
#define NOTHING    UINT64_MAX

static const uint32_t FAR[] = {
	601, 1000, 1023, 4095, 65535, FILTER_X32_BIT - 1, 0x80000000u, 0xc0000000u, UINT32_MAX};

enum abi { NATIVE, X32, ENTRY32, ABI_COUNT };
static const char *const NAMES[ABI_COUNT] = {"native", "x32", "int80"};

static void arguments_of(uint32_t number, uint64_t to[static FILTER_ARGUMENTS_MAX])
{
	for (size_t i = 0; i < FILTER_ARGUMENTS_MAX; i++)
		to[i] = NOTHING;
	if (number == SYS_futex) /* it answers ENOSYS itself to an operation that it has not */
		to[1] = FUTEX_WAKE;
}

static bool exists(enum abi abi)
{
#ifdef __x86_64__
	(void)abi;
	return true;
#else
	return abi == NATIVE;
#endif
}

/* The errno that a refusal gives, 0 when it must be let through, -1 when it must kill. */
static int expected(enum abi abi, uint32_t number)
{
	uint64_t arguments[FILTER_ARGUMENTS_MAX];
	arguments_of(number, arguments);
	if (abi != NATIVE)
		return -1;
	const struct filter_row *row = filter_judge(number, arguments);
	return row == NULL ? ENOSYS : row->verdict == FILTER_ALLOW ? 0 : row->error;
}

static long call_native(uint32_t number)
{
	uint64_t a[FILTER_ARGUMENTS_MAX];
	arguments_of(number, a);
	return syscall((long)number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static long call_entry32(uint32_t number)
{
#ifdef __x86_64__
	long r = (long)number;
	__asm__ volatile("int $0x80"
			 : "+a"(r)
			 : "b"(-1L), "c"(-1L), "d"(-1L), "S"(-1L), "D"(-1L)
			 : "memory", "r8", "r9", "r10", "r11");
	return r;
#else
	(void)number;
	return 0;
#endif
}

static void on_alarm(int number)
{
	(void)number;
	_exit(BLOCKED);
}

static void child(enum abi abi, uint32_t number) __attribute__((noreturn));
static void child(enum abi abi, uint32_t number)
{
	const struct itimerval soon = {.it_value.tv_usec = BLOCKED_US};
	const struct sigaction action = {.sa_handler = on_alarm};
	if (sigaction(SIGALRM, &action, NULL) < 0 || setitimer(ITIMER_REAL, &soon, NULL) < 0)
		_exit(253);
	long r = abi == ENTRY32 ? call_entry32(number)
				: call_native(abi == X32 ? number | FILTER_X32_BIT : number);
	_exit(r == -1 && abi != ENTRY32 ? errno : 0);
}

/* -1: killed by the filter; else the errno. */
static int observed(enum abi abi, uint32_t number)
{
	int status;
	pid_t pid = fork();
	if (pid == 0)
		child(abi, number);
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		perror("probe");
		exit(2);
	}
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGSYS ? -1 : 0;
	return WEXITSTATUS(status);
}

static void show(enum abi abi, uint32_t number, bool expects)
{
	int want = expected(abi, number);
	int got = expects ? want : observed(abi, number);
	/* what is let through may fail in any way but as a number that does not exist */
	bool allowed = want == 0 && got != -1 && got != ENOSYS;
	if (got == -1)
		printf("%s %u killed\n", NAMES[abi], number);
	else if (allowed || got == 0)
		printf("%s %u allowed\n", NAMES[abi], number);
	else
		printf("%s %u %s\n", NAMES[abi], number, strerrorname_np(got));
}

/* uretprobe and uprobe of x86-64: since Linux 6.14 no filter is asked, and only the kernel's own trampoline can make them. */
static bool is_never_filtered(enum abi abi, uint32_t number)
{
#ifdef __x86_64__
	return abi == NATIVE && (number == 335 || number == 336);
#else
	(void)abi;
	(void)number;
	return false;
#endif
}

/* How many of them the supervisor is asked about. */
static unsigned count_told(void)
{
	unsigned count = 0;
	for (uint32_t n = 0; n <= ALL; n++) {
		uint64_t arguments[FILTER_ARGUMENTS_MAX];
		arguments_of(n, arguments);
		const struct filter_row *row = filter_judge(n, arguments);
		count += row != NULL && row->verdict == FILTER_TELL;
	}
	return count;
}

int main(int argc, char **argv)
{
	bool expects = argc == 2 && strcmp(argv[1], "expect") == 0;
	(void)setvbuf(stdout, NULL, _IOFBF, 1 << 20); /* or children would print it again */
	if (argc == 2 && strcmp(argv[1], "told") == 0) {
		printf("%u\n", count_told());
		return 0;
	}
	for (int abi = 0; abi < ABI_COUNT; abi++)
		for (uint32_t n = 0; n <= ALL && exists((enum abi)abi); n++)
			if (!is_never_filtered((enum abi)abi, n))
				show((enum abi)abi, n, expects);
	for (size_t i = 0; i < array_size(FAR); i++)
		show(NATIVE, FAR[i], expects);
	return fflush(stdout) == 0 ? 0 : 2;
}
