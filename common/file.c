/* See file.h. */
#include "common/file.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#define READ_FIRST_BYTES 4096
#define READ_MOST_BYTES  65536

/* How much to ask for next: a file that gave less than asked for is at its end, or of the kind that gives so much at a time. */
static size_t next_read(size_t asked, size_t got)
{
	if (got < asked)
		return got < 512 ? 512 : got;
	return asked < READ_MOST_BYTES ? 2 * asked : asked;
}

int file_read_fd(int fd, size_t limit, struct buf *to)
{
	size_t total = 0, ask = READ_FIRST_BYTES;
	for (;;) {
		char *room;
		int r = buf_reserve(to, ask, &room);
		if (r < 0)
			return r == -ENOBUFS ? -EFBIG : r;
		ssize_t got = read(fd, room, ask);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return 0;
		total += (size_t)got;
		if (total > limit)
			return -EFBIG;
		buf_grew(to, (size_t)got);
		ask = next_read(ask, (size_t)got);
	}
}

int file_read_short(int fd, char *to, size_t capacity)
{
	size_t len = 0;
	while (len < capacity) {
		ssize_t got = read(fd, to + len, capacity - len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : (int)len;
		len += (size_t)got;
	}
	return -EFBIG;
}

int file_read(int dirfd, const char *path, size_t limit, struct buf *to)
{
	auto_fd fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	return file_read_fd(fd, limit, to);
}

int file_write_all(int fd, struct slice text)
{
	while (text.len > 0) {
		ssize_t put = write(fd, text.ptr, text.len);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0 && errno == EAGAIN) {
			struct pollfd wait = {.fd = fd, .events = POLLOUT};
			(void)poll(&wait, 1, -1); /* the next write tells what happened */
			continue;
		}
		if (put < 0)
			return -errno;
		text.ptr += put;
		text.len -= (size_t)put;
	}
	return 0;
}

/** Make the names in the folder of @path durable. */
static int sync_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	auto_free char *folder =
		slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
	if (folder == NULL)
		return -ENOMEM;
	auto_fd fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int file_replace(const char *path, struct slice text, mode_t mode)
{
	auto_free char *temporary = NULL;
	if (asprintf(&temporary, "%s.XXXXXX", path) < 0) {
		temporary = NULL;
		return -ENOMEM;
	}
	auto_fd fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, text);
	if (r == 0 && (fchmod(fd, mode) < 0 || fsync(fd) < 0 || rename(temporary, path) < 0))
		r = -errno;
	if (r < 0)
		(void)unlink(temporary); /* the first failure is the one to tell */
	return r < 0 ? r : sync_folder(path);
}

int file_write_text(int dirfd, const char *path, const char *text)
{
	auto_fd fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	size_t len = strlen(text);
	ssize_t put;
	do {
		put = write(fd, text, len);
	} while (put < 0 && errno == EINTR);
	if (put < 0)
		return -errno;
	return (size_t)put == len ? 0 : -EIO;
}

int file_make_dirs(const char *path, mode_t mode)
{
	char part[PATH_MAX];
	struct stat st;
	size_t len = strlen(path);
	if (len == 0 || len >= sizeof(part))
		return len == 0 ? -EINVAL : -ENAMETOOLONG;
	if (stat(path, &st) == 0) /* as nearly always */
		return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
	memcpy(part, path, len + 1);
	for (size_t i = 1; i <= len; i++) {
		if (part[i] != '/' && part[i] != '\0')
			continue;
		char kept = part[i];
		part[i] = '\0';
		if (mkdir(part, mode) < 0 && errno != EEXIST)
			return -errno;
		part[i] = kept;
	}
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int file_memory(const char *name, struct slice content)
{
	auto_fd fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	int r = file_write_all(fd, content);
	if (r < 0)
		return r;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0 ||
		lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return fd_take(&fd);
}

int file_sibling_program(const char *name, char *ret_path, size_t capacity)
{
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (len < 0)
		return -errno;
	self[len] = '\0';
	char *slash = strrchr(self, '/');
	if (slash == NULL)
		return -ENOENT;
	*slash = '\0';
	const char *const folders[] = {self, ECLUSA_LIBEXECDIR};
	for (size_t i = 0; i < array_size(folders); i++) {
		int used = snprintf(ret_path, capacity, "%s/%s", folders[i], name);
		if (used > 0 && (size_t)used < capacity && access(ret_path, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

void random_bytes(void *to, size_t len)
{
	char *at = to;
	while (len > 0) {
		ssize_t got = getrandom(at, len, 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			abort();
		at += got;
		len -= (size_t)got;
	}
}
