/* See fault.h: memory of every kind, until a call fails or there is no limit. */
#include "tests/faults/fault.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define PART  ((size_t)256 << 10)
#define PAGE  ((size_t)4096)
#define PARTS (FAULT_BYTES / PART)

static int touch(char *at, size_t len)
{
	if (at == NULL || at == (char *)MAP_FAILED)
		return -1;
	for (size_t i = 0; i < len; i += PAGE)
		((volatile char *)at)[i] = 1;
	return 0;
}

static int by_malloc(uint64_t number)
{
	size_t part = number > 0 ? number : PART;
	for (size_t done = 0; done < FAULT_BYTES; done += part)
		if (touch(malloc(part), part) < 0)
			return FAULT_FAILED;
	return 0;
}

static int by_calloc(uint64_t number)
{
	(void)number;
	for (size_t i = 0; i < PARTS; i++)
		if (touch(calloc(1, PART), PART) < 0)
			return FAULT_FAILED;
	return 0;
}

static int by_realloc(uint64_t number)
{
	(void)number;
	char *all = NULL;
	for (size_t i = 1; i <= PARTS; i++) {
		char *more = realloc(all, i * PART);
		if (touch(more, i * PART) < 0)
			return FAULT_FAILED;
		all = more;
	}
	return 0;
}

static int by_brk(uint64_t number)
{
	(void)number;
	for (size_t i = 0; i < PARTS; i++) {
		char *at = sbrk((intptr_t)PART);
		if (at == (char *)-1 || touch(at, PART) < 0)
			return FAULT_FAILED;
	}
	return 0;
}

static int map(int flags, int fd)
{
	for (size_t i = 0; i < PARTS; i++)
		if (touch(mmap(NULL, PART, PROT_READ | PROT_WRITE, flags, fd, 0), PART) < 0)
			return FAULT_FAILED;
	return 0;
}

static int by_private(uint64_t number)
{
	(void)number;
	return map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static int by_shared(uint64_t number)
{
	(void)number;
	return map(MAP_SHARED | MAP_ANONYMOUS, -1);
}

static int by_populate(uint64_t number)
{
	(void)number;
	return map(MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1);
}

static int by_zero(uint64_t number)
{
	(void)number;
	auto_fd fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	return fd < 0 ? FAULT_FAILED : map(MAP_PRIVATE, fd);
}

static int by_zero_shared(uint64_t number)
{
	(void)number;
	auto_fd fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	return fd < 0 ? FAULT_FAILED : map(MAP_SHARED, fd);
}

static int by_copies(uint64_t number)
{
	(void)number; /* of a file's pages */
	auto_fd fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	return fd < 0 ? FAULT_FAILED : map(MAP_PRIVATE, fd);
}

static int fill(int fd)
{
	static char part[PART];
	memset(part, 1, sizeof(part));
	for (size_t i = 0; fd >= 0 && i < PARTS; i++)
		if (fault_write(fd, part, sizeof(part)) < 0)
			return FAULT_FAILED;
	return fd < 0 ? FAULT_FAILED : 0;
}

static int by_memfd(uint64_t number)
{
	(void)number;
	return fill(memfd_create("fault", MFD_CLOEXEC));
}

static int map_file(int fd)
{
	if (fd < 0 || ftruncate(fd, (off_t)FAULT_BYTES) < 0)
		return FAULT_FAILED;
	return touch(mmap(NULL, FAULT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
		       FAULT_BYTES) < 0
		? FAULT_FAILED
		: 0;
}

static int by_mapped_memfd(uint64_t number)
{
	(void)number;
	return map_file(memfd_create("fault", MFD_CLOEXEC));
}

static int by_mapped_tmpfs(uint64_t number)
{
	(void)number;
	return map_file(open("/tmp/fault", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

static int by_deleted_file(uint64_t number)
{
	(void)number;
	int fd = open("/tmp/fault", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	(void)unlink("/tmp/fault");
	return fill(fd);
}

/* What two file systems hold together, each below its own limit: the first four are one. */
static int by_all_folders(uint64_t number)
{
	(void)number;
	static const char *const paths[] = {
		"/tmp/fault", "/dev/shm/fault", "/work/fault", "/home/sandbox/fault", "/out/fault"};
	for (size_t i = 0; i < array_size(paths); i++) {
		int r = fill(open(paths[i], O_RDWR | O_CREAT | O_CLOEXEC, 0600));
		if (r != FAULT_FAILED)
			return r;
	}
	return FAULT_FAILED;
}

static int by_pipes(uint64_t number)
{
	(void)number;
	static char part[65536];
	for (int i = 0; i < 2000; i++) {
		int ends[2];
		if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) < 0 ||
			fault_write(ends[1], part, sizeof(part)) < 0)
			return FAULT_FAILED;
	}
	return 0;
}

static int by_sockets(uint64_t number)
{
	(void)number;
	static char part[4096];
	for (int i = 0; i < 2000; i++) {
		int ends[2];
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0)
			return FAULT_FAILED;
		while (fault_write(ends[1], part, sizeof(part)) == 0)
			;
	}
	return 0;
}

__attribute__((noinline)) static size_t deeper(size_t depth)
{
	volatile char frame[PAGE];
	frame[0] = (char)depth;
	return depth == 0 ? 0 : deeper(depth - 1) + (size_t)frame[0];
}

/* With less stack than the limit of memory it is a fault of memory access. */
static int by_stack(uint64_t number)
{
	(void)number;
	return deeper(FAULT_BYTES / PAGE) == 1 ? 1 : 0;
}

static void *idle_stack(void *unused)
{
	(void)unused;
	(void)deeper(((size_t)2 << 20) / PAGE);
	for (;;)
		(void)pause();
	return NULL; /* never */
}

static int by_thread_stacks(uint64_t number)
{
	(void)number;
	for (size_t i = 0; i < FAULT_BYTES / ((size_t)2 << 20); i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, idle_stack, NULL) != 0)
			return FAULT_FAILED;
	}
	(void)usleep(1000000);
	return 0;
}

/* One page in each 2 MiB: for each there is a page of the table, too. */
static int by_page_tables(uint64_t number)
{
	(void)number;
	size_t len = (size_t)64 << 30;
	char *at = mmap(NULL, len, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == (char *)MAP_FAILED)
		return FAULT_FAILED;
	(void)madvise(at, len, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < len; i += (size_t)2 << 20)
		at[i] = 1;
	return 0;
}

static int by_locked(uint64_t number)
{
	(void)number;
	return mlockall(MCL_FUTURE) < 0 ? FAULT_FAILED : map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

/* Objects of the kernel's own. */
static int by_files(uint64_t number)
{
	(void)number;
	char path[64];
	for (int i = 0; i < 200000; i++) {
		(void)snprintf(path, sizeof(path), "/tmp/%d", i);
		auto_fd fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return FAULT_FAILED;
	}
	return 0;
}

static int by_folders(uint64_t number)
{
	(void)number;
	char path[64];
	for (int i = 0; i < 200000; i++) {
		(void)snprintf(path, sizeof(path), "/tmp/%d", i);
		if (mkdir(path, 0700) < 0)
			return FAULT_FAILED;
	}
	return 0;
}

static int by_links(uint64_t number)
{
	(void)number;
	static char target[4000];
	char path[64];
	memset(target, 'x', sizeof(target) - 1);
	for (int i = 0; i < 60000; i++) {
		(void)snprintf(path, sizeof(path), "/tmp/%d", i);
		if (symlink(target, path) < 0)
			return FAULT_FAILED;
	}
	return 0;
}

static int by_mappings(uint64_t number)
{
	(void)number;
	char *at = mmap(NULL, (size_t)512 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (size_t i = 0; i < ((size_t)512 << 20); i += 2 * PAGE)
		if (mprotect(at + i, PAGE, PROT_READ | PROT_WRITE) < 0)
			return FAULT_FAILED; /* vm.max_map_count */
	return 0;
}

static int by_descriptors(uint64_t number)
{
	(void)number;
	for (int i = 0; i < 100000; i++)
		if (eventfd(0, EFD_CLOEXEC) < 0)
			return FAULT_FAILED;
	return 0;
}

static int by_copied_process(uint64_t number)
{
	(void)number;
	char *mine = malloc((size_t)6 << 20);
	if (touch(mine, (size_t)6 << 20) < 0)
		return FAULT_FAILED;
	for (int i = 0; i < 7; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			(void)touch(mine, (size_t)6 << 20); /* no longer shared */
			(void)pause();
		}
	}
	(void)usleep(1000000);
	return 0;
}

const struct fault_verb FAULTS_MEMORY[] = {{"malloc", by_malloc}, {"calloc", by_calloc},
	{"realloc", by_realloc}, {"brk", by_brk}, {"private", by_private}, {"shared", by_shared},
	{"populate", by_populate}, {"zero", by_zero}, {"zero-shared", by_zero_shared},
	{"copies", by_copies}, {"memfd", by_memfd}, {"mapped-memfd", by_mapped_memfd},
	{"mapped-tmpfs", by_mapped_tmpfs}, {"deleted-file", by_deleted_file},
	{"all-folders", by_all_folders}, {"pipes", by_pipes}, {"sockets", by_sockets},
	{"stack", by_stack}, {"thread-stacks", by_thread_stacks}, {"page-tables", by_page_tables},
	{"locked", by_locked}, {"files", by_files}, {"folders", by_folders}, {"links", by_links},
	{"mappings", by_mappings}, {"descriptors", by_descriptors},
	{"copied-process", by_copied_process}, {NULL, NULL}};
