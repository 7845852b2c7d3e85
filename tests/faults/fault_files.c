/* See fault.h: floods of output, and of the folders that can be written. */
#include "tests/faults/fault.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define PART ((size_t)64 << 10)

static int flood(const int *fds, size_t count, uint64_t bytes)
{
	static char part[PART];
	memset(part, 'x', sizeof(part));
	for (uint64_t done = 0; bytes == 0 || done < bytes; done += PART) {
		size_t len = bytes != 0 && bytes - done < PART ? (size_t)(bytes - done) : PART;
		for (size_t i = 0; i < count; i++)
			if (fault_write(fds[i], part, len) < 0)
				return FAULT_FAILED;
	}
	return 0;
}

/* @number bytes, 0 for ever. */
static int flood_out(uint64_t number)
{
	return flood((const int[]){STDOUT_FILENO}, 1, number);
}

static int flood_err(uint64_t number)
{
	return flood((const int[]){STDERR_FILENO}, 1, number);
}

static int flood_both(uint64_t number)
{
	return flood((const int[]){STDOUT_FILENO, STDERR_FILENO}, 2, number);
}

static int flood_bytewise(uint64_t number)
{
	for (uint64_t i = 0; i < number; i++)
		if (write(STDOUT_FILENO, "x", 1) != 1)
			return FAULT_FAILED;
	return 0;
}

static int flood_and_fail(uint64_t number)
{
	return flood_out(number) == 0 ? 7 : FAULT_FAILED;
}

static int flood_reopened(uint64_t number)
{
	auto_fd fd = open("/proc/self/fd/1", O_WRONLY | O_CLOEXEC);
	return fd < 0 ? FAULT_FAILED : flood(&fd, 1, number);
}

static int flood_and_crash(uint64_t number)
{
	(void)flood_out(number);
	abort();
}

static int fill(const char *folder, uint64_t number)
{
	char path[64];
	static char part[PART];
	memset(part, 'x', sizeof(part));
	(void)snprintf(path, sizeof(path), "%s/full", folder);
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (uint64_t done = 0; done < FAULT_BYTES; done += PART)
		if (fd < 0 || fault_write(fd, part, sizeof(part)) < 0)
			return (int)number; /* what it exits with when it is full */
	return 99;
}

static int fill_out(uint64_t number)
{
	return fill("/out", number);
}

static int fill_tmp(uint64_t number)
{
	return fill("/tmp", number);
}

static int fill_work(uint64_t number)
{
	return fill("/work", number);
}

static int fill_home(uint64_t number)
{
	return fill("/home/sandbox", number);
}

static int fill_shm(uint64_t number)
{
	return fill("/dev/shm", number);
}

static int fill_root(uint64_t number)
{
	return fill("/etc", number);
}

static int allocate(uint64_t number)
{
	auto_fd fd = open("/out/allocated", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fallocate(fd, 0, 0, (off_t)number) < 0 ? FAULT_FAILED : 0;
}

/* Nothing in it: its size alone. */
static int sparse(uint64_t number)
{
	auto_fd fd = open("/out/sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return ftruncate(fd, (off_t)number) < 0 ? FAULT_FAILED : 0;
}

static int many_files(uint64_t number)
{
	char path[64];
	for (uint64_t i = 0; i < number; i++) {
		(void)snprintf(path, sizeof(path), "/out/%llu", (unsigned long long)i);
		auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return FAULT_FAILED;
	}
	return 0;
}

static int deep(uint64_t number)
{
	if (chdir("/out") < 0)
		return FAULT_FAILED;
	for (uint64_t i = 0; i < number; i++)
		if (mkdir("d", 0700) < 0 || chdir("d") < 0)
			return FAULT_FAILED;
	auto_fd fd = open("file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? FAULT_FAILED : 0;
}

static int long_name(uint64_t number)
{
	char path[512] = "/out/";
	memset(path + 5, 'n', number);
	path[5 + number] = '\0';
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? FAULT_FAILED : 0;
}

static int odd_name(uint64_t number)
{
	char path[] = "/out/a\nb\x1b[2Kc\xff";
	(void)number;
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	return fd < 0 ? FAULT_FAILED : 0;
}

static int odd_kinds(uint64_t number)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/out/socket"};
	auto_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	auto_fd file = open("/out/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	(void)number;
	bool made = bind(fd, (struct sockaddr *)&name, sizeof(name)) == 0 &&
		mkfifo("/out/fifo", 0600) == 0 && symlink("/etc/passwd", "/out/link") == 0 &&
		link("/out/file", "/out/hard") == 0 && file >= 0;
	return made ? 0 : FAULT_FAILED;
}

/* A file that nobody may read, a folder that nobody may enter. */
static int closed_modes(uint64_t number)
{
	(void)number;
	auto_fd file = open("/out/closed", O_WRONLY | O_CREAT | O_CLOEXEC, 0);
	return mkdir("/out/folder", 0) < 0 || file < 0 ? FAULT_FAILED : 0;
}

static int remove_folders(uint64_t number)
{
	(void)number;
	(void)rmdir("/out");
	(void)rmdir("/work");
	(void)chmod("/out", 0);
	return 0;
}

const struct fault_verb FAULTS_FILES[] = {{"flood-out", flood_out}, {"flood-err", flood_err},
	{"flood-both", flood_both}, {"flood-bytewise", flood_bytewise},
	{"flood-and-fail", flood_and_fail}, {"flood-reopened", flood_reopened},
	{"flood-and-crash", flood_and_crash}, {"fill-out", fill_out}, {"fill-tmp", fill_tmp},
	{"fill-work", fill_work}, {"fill-home", fill_home}, {"fill-shm", fill_shm},
	{"fill-root", fill_root}, {"allocate", allocate}, {"sparse", sparse},
	{"many-files", many_files}, {"deep", deep}, {"long-name", long_name},
	{"odd-name", odd_name}, {"odd-kinds", odd_kinds}, {"closed-modes", closed_modes},
	{"remove-folders", remove_folders}, {NULL, NULL}};
