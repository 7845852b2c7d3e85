/* See fault.h: ways to use the processor, and to wait for what never comes. */
#include "tests/faults/fault.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

static int spin(uint64_t number)
{
	(void)number;
	for (;;)
		__asm__ volatile("");
	return 0; /* never */
}

static int spin_calls(uint64_t number)
{
	(void)number;
	for (;;)
		(void)syscall(SYS_getppid);
	return 0; /* never */
}

static int spin_yield(uint64_t number)
{
	(void)number;
	for (;;)
		(void)sched_yield();
	return 0; /* never */
}

static int spin_numbers(uint64_t number)
{
	for (volatile double x = 1 + (double)number;;)
		x = x * 1.0000001 + 0.5;
	return 0; /* never */
}

static int spin_memory(uint64_t number)
{
	static char one[1 << 20], other[1 << 20];
	(void)number;
	for (;;) {
		memcpy(one, other, sizeof(one));
		__asm__ volatile("" : : "r"(one) : "memory");
	}
	return 0; /* never */
}

static int spin_files(uint64_t number)
{
	(void)number;
	for (;;) {
		int fd = open("/tmp/spin", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		fd_close(&fd);
		(void)unlink("/tmp/spin");
	}
	return 0; /* never */
}

static int spin_forks(uint64_t number)
{
	(void)number;
	for (;;) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		(void)waitpid(pid, NULL, 0);
	}
	return 0; /* never */
}

/* Nobody waits for them. */
static int spin_forgotten(uint64_t number)
{
	(void)signal(SIGCHLD, SIG_IGN);
	return spin_forks(number);
}

static int spin_nice(uint64_t number)
{
	(void)setpriority(PRIO_PROCESS, 0, 19);
	return spin(number);
}

static void again(int number)
{
	(void)number;
	(void)raise(SIGUSR1);
}

static int spin_signals(uint64_t number)
{
	struct sigaction action = {.sa_handler = again};
	(void)sigaction(SIGUSR1, &action, NULL);
	(void)raise(SIGUSR1);
	return spin(number);
}

/* In turn with sleep: never long at a time. */
static int spin_short(uint64_t number)
{
	(void)number;
	for (;;) {
		clock_t end = clock() + CLOCKS_PER_SEC / 200;
		while (clock() < end)
			;
		(void)usleep(500);
	}
	return 0; /* never */
}

/* So many ms of the processor, and a good end. */
static int burn(uint64_t number)
{
	struct timespec now;
	do
		(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	while ((uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000 < number);
	return 0;
}

/*
 * The same, then it waits for the end of its input: its counters stand still. It has so much memory that the kernel's batch, which its end
 * may charge, is little of it.
 */
static int burn_and_wait(uint64_t number)
{
	const size_t much = (size_t)64 << 20;
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
	char byte;
	if (mmap(NULL, much, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
		return FAULT_FAILED;
	(void)burn(number);
	if (fault_write(STDOUT_FILENO, "ready\n", 6) < 0)
		return FAULT_FAILED;
	return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : FAULT_FAILED;
}

static int wait_pause(uint64_t number)
{
	(void)number;
	for (;;)
		(void)pause();
	return 0; /* never */
}

static int wait_sleep(uint64_t number)
{
	struct timespec time = {.tv_sec = 1000};
	(void)number;
	while (nanosleep(&time, NULL) < 0)
		;
	return 0;
}

static int wait_poll(uint64_t number)
{
	(void)number;
	for (;;)
		(void)poll(NULL, 0, -1);
	return 0; /* never */
}

static int wait_select(uint64_t number)
{
	(void)number;
	for (;;)
		(void)select(0, NULL, NULL, NULL, NULL);
	return 0; /* never */
}

static int wait_pipe(uint64_t number)
{
	int ends[2];
	char byte;
	(void)number;
	return pipe2(ends, O_CLOEXEC) < 0 || read(ends[0], &byte, 1) < 0 ? FAULT_FAILED : 0;
}

static int wait_full_pipe(uint64_t number)
{
	int ends[2];
	(void)number;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return FAULT_FAILED;
	for (;;)
		(void)fault_write(ends[1], "0123456789abcdef", 16);
}

static int wait_lock(uint64_t number)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	(void)number;
	(void)pthread_mutex_lock(&lock);
	return pthread_mutex_lock(&lock);
}

static int wait_semaphore(uint64_t number)
{
	sem_t none;
	(void)sem_init(&none, 0, (unsigned)number);
	return sem_wait(&none);
}

static int wait_signal(uint64_t number)
{
	sigset_t set;
	(void)number;
	(void)sigfillset(&set);
	(void)sigprocmask(SIG_SETMASK, &set, NULL);
	for (;;)
		(void)sigsuspend(&set);
	return 0; /* never */
}

static int wait_child(uint64_t number)
{
	pid_t pid = fork();
	if (pid == 0)
		return wait_pause(number);
	return waitpid(pid, NULL, 0) < 0 ? FAULT_FAILED : 0;
}

static int wait_accept(uint64_t number)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/tmp/socket"};
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)number;
	if (bind(fd, (struct sockaddr *)&name, sizeof(name)) < 0 || listen(fd, 1) < 0)
		return FAULT_FAILED;
	return accept(fd, NULL, NULL) < 0 ? FAULT_FAILED : 0;
}

static int wait_flock(uint64_t number)
{
	(void)number;
	for (int i = 0; i < 2; i++) {
		int fd = open("/tmp/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		(void)flock(fd, LOCK_EX);
	}
	return 0;
}

static int wait_fifo(uint64_t number)
{
	(void)number;
	(void)syscall(SYS_mknodat, AT_FDCWD, "/tmp/fifo", 0010600, 0);
	return open("/tmp/fifo", O_RDONLY | O_CLOEXEC) < 0 ? FAULT_FAILED : 0;
}

static int wait_stopped(uint64_t number)
{
	(void)number;
	(void)raise(SIGSTOP);
	return 0;
}

static int wait_input(uint64_t number)
{
	char byte;
	(void)number;
	return read(STDIN_FILENO, &byte, 1) == 0 ? 0 : FAULT_FAILED;
}

const struct fault_verb FAULTS_TIME[] = {{"spin", spin}, {"spin-calls", spin_calls},
	{"spin-yield", spin_yield}, {"spin-numbers", spin_numbers}, {"spin-memory", spin_memory},
	{"spin-files", spin_files}, {"spin-forks", spin_forks}, {"spin-forgotten", spin_forgotten},
	{"spin-nice", spin_nice}, {"spin-signals", spin_signals}, {"spin-short", spin_short},
	{"burn", burn}, {"burn-and-wait", burn_and_wait}, {"pause", wait_pause},
	{"sleep", wait_sleep}, {"poll", wait_poll}, {"select", wait_select}, {"pipe", wait_pipe},
	{"full-pipe", wait_full_pipe}, {"lock", wait_lock}, {"semaphore", wait_semaphore},
	{"signal-wait", wait_signal}, {"wait", wait_child}, {"accept", wait_accept},
	{"flock", wait_flock}, {"fifo", wait_fifo}, {"stop", wait_stopped}, {"input", wait_input},
	{NULL, NULL}};
