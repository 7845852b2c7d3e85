/* See fault.h: ways to end, and to multiply. */
#include "tests/faults/fault.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int end_with(uint64_t number)
{
	return (int)number;
}

static int end_at_once(uint64_t number)
{
	_exit((int)number);
}

static int end_by_signal(uint64_t number)
{
	struct sigaction plain = {.sa_handler = SIG_DFL};
	(void)sigaction((int)number, &plain, NULL);
	(void)kill(getpid(), (int)number);
	return FAULT_FAILED;
}

static int end_by_thread_signal(uint64_t number)
{
	(void)syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), (int)number);
	return FAULT_FAILED;
}

static int abort_now(uint64_t number)
{
	(void)number;
	abort();
}

static int no_address(uint64_t number)
{
	*(volatile char *)(uintptr_t)number = 1;
	return 0;
}

static int jump_nowhere(uint64_t number)
{
	char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)number;
	return ((int (*)(void))(uintptr_t)at)();
}

static int write_constant(uint64_t number)
{
	static const char text[] = "constant";
	*(volatile char *)(uintptr_t)text = (char)number;
	return 0;
}

static int divide(uint64_t number)
{
	volatile int whole = 100, part = (int)number;
	return whole / part;
}

static int bad_instruction(uint64_t number)
{
	(void)number;
	__builtin_trap();
}

static int breakpoint(uint64_t number)
{
	(void)number;
	return raise(SIGTRAP);
}

/* Beyond the end of a mapped file. */
static int bus(uint64_t number)
{
	(void)number;
	auto_fd fd = open("/tmp/short", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	*(volatile char *)at = 1;
	return 0;
}

static int broken_pipe(uint64_t number)
{
	int ends[2];
	(void)number;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return 99;
	(void)close(ends[0]);
	return write(ends[1], "x", 1) < 0 ? FAULT_FAILED : 0;
}

static int own_limit(unsigned which, uint64_t value)
{
	struct rlimit limit = {value, value};
	return setrlimit((__rlimit_resource_t)which, &limit);
}

static int file_too_big(uint64_t number)
{
	(void)own_limit(RLIMIT_FSIZE, number);
	auto_fd fd = open("/tmp/big", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return fault_write(fd, "0123456789abcdef", 16) < 0 ? FAULT_FAILED : 0;
}

static int alarm_rings(uint64_t number)
{
	(void)ualarm((useconds_t)(number * 1000), 0);
	for (;;)
		(void)pause();
	return 0; /* never */
}

static void *end_everybody(void *number)
{
	exit((int)(uintptr_t)number);
}

static int end_in_thread(uint64_t number)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, end_everybody, (void *)(uintptr_t)number) != 0)
		return 99;
	for (;;)
		(void)pause();
}

/* The first thread is gone, the process goes on in another. */
static int end_first_thread(uint64_t number)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, end_everybody, (void *)(uintptr_t)number) != 0)
		return 99;
	pthread_exit(NULL);
}

static int kill_all(uint64_t number)
{
	(void)kill(-1, (int)number); /* not this one itself; and in here nobody else is told */
	return 0;
}

static int kill_first(uint64_t number)
{
	(void)kill(1, (int)number);
	(void)usleep(50000);
	return 3;
}

static int kill_group(uint64_t number)
{
	(void)kill(0, (int)number);
	return FAULT_FAILED;
}

static int dump_core(uint64_t number)
{
	(void)number;
	(void)own_limit(RLIMIT_CORE, RLIM_INFINITY);
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	abort();
}

static int trace_me(uint64_t number)
{
	(void)number;
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 ? FAULT_FAILED : 0;
}

static int foreign_call(uint64_t number)
{
	(void)number;
#ifdef __x86_64__
	int r = 20;
	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
	return r > 0 ? 0 : FAULT_FAILED;
#else
	return raise(SIGSYS);
#endif
}

static int refused_call(uint64_t number)
{
	return syscall((long)number, 0, 0, 0, 0, 0, 0) < 0 ? FAULT_FAILED : 0;
}

/* Fork until it fails; what is made stays. */
static int forks(uint64_t number)
{
	for (;;) {
		pid_t pid = fork();
		if (pid < 0)
			return (int)number;
		if (pid == 0)
			for (;;)
				(void)pause();
	}
}

/* Every process forks. */
static int fork_tree(uint64_t number)
{
	(void)number;
	for (;;)
		if (fork() < 0)
			return FAULT_FAILED;
}

static int vforks(uint64_t number)
{
	(void)number;
	for (;;) {
		pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (pid < 0)
			return FAULT_FAILED;
		if (pid == 0)
			for (;;)
				(void)pause();
	}
}

static int zombies(uint64_t number)
{
	(void)number;
	for (;;) {
		pid_t pid = fork();
		if (pid < 0)
			return FAULT_FAILED;
		if (pid == 0)
			_exit(0);
	}
}

static int daemons(uint64_t number)
{
	(void)number;
	for (;;) {
		pid_t pid = fork();
		if (pid < 0)
			return FAULT_FAILED;
		if (pid == 0) {
			(void)setsid();
			pid = fork();
			if (pid != 0)
				_exit(pid < 0 ? FAULT_FAILED : 0);
			for (;;)
				(void)pause();
		}
		int status;
		if (waitpid(pid, &status, 0) == pid && status != 0)
			return FAULT_FAILED;
	}
}

static void *wait_for_ever(void *unused)
{
	(void)unused;
	for (;;)
		(void)pause();
	return NULL; /* never */
}

static int many_threads(uint64_t number)
{
	(void)number;
	for (;;) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, wait_for_ever, NULL) != 0)
			return FAULT_FAILED;
	}
}

/* Made and waited for, one after another: no limit is reached. */
static int forks_in_turn(uint64_t number)
{
	for (uint64_t i = 0; i < number; i++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			return FAULT_FAILED;
	}
	return 0;
}

const struct fault_verb FAULTS_ENDS[] = {{"exit", end_with}, {"exit-at-once", end_at_once},
	{"signal", end_by_signal}, {"thread-signal", end_by_thread_signal}, {"abort", abort_now},
	{"address", no_address}, {"jump", jump_nowhere}, {"constant", write_constant},
	{"divide", divide}, {"instruction", bad_instruction}, {"breakpoint", breakpoint},
	{"bus", bus}, {"broken-pipe", broken_pipe}, {"file-size", file_too_big},
	{"alarm", alarm_rings}, {"thread-exit", end_in_thread},
	{"first-thread-exit", end_first_thread}, {"kill-all", kill_all}, {"kill-first", kill_first},
	{"kill-group", kill_group}, {"core", dump_core}, {"trace-me", trace_me},
	{"foreign-call", foreign_call}, {"call", refused_call}, {"forks", forks},
	{"fork-tree", fork_tree}, {"clones", vforks}, {"zombies", zombies}, {"daemons", daemons},
	{"many-threads", many_threads}, {"forks-in-turn", forks_in_turn}, {NULL, NULL}};
