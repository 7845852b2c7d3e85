/*
 * The audit folder: where it is, and rings that end in it. See segment.h. Its own files are trusted as far as the folder is: only its
 * owner can write there.
 */
#include "audit/folder_state.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define HELD_WAIT_NS  (2 * NS_PER_SEC)
#define HELD_RETRY_NS NS_PER_MS

int audit_folder_default(bool root, char *ret_path, size_t capacity, struct failure *why)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	int len;
	if (root)
		len = snprintf(ret_path, capacity, "/var/log/eclusa");
	else if (state != NULL && state[0] == '/')
		len = snprintf(ret_path, capacity, "%s/eclusa/audit", state);
	else if (home != NULL && home[0] == '/')
		len = snprintf(ret_path, capacity, "%s/.local/state/eclusa/audit", home);
	else
		return failure_set(why, -ENOENT,
			"audit folder: neither XDG_STATE_HOME nor HOME is set: --audit-dir DIR");
	if (len < 0 || (size_t)len >= capacity)
		return failure_set(why, -ENAMETOOLONG, "audit folder: path too long");
	return 0;
}

int audit_folder_open(const char *path, struct failure *why)
{
	int r = file_make_dirs(path, 0700);
	if (r < 0)
		return failure_errno(why, r, "audit folder %s", path);
	auto_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "audit folder %s", path);
	if ((st.st_mode & S_IWOTH) != 0)
		return failure_set(
			why, -EPERM, "audit folder %s: everyone may write there: chmod o-w", path);
	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return failure_errno(why, -errno, "audit folder %s", path);
	return fd_take(&fd);
}

int folder_open_unheld(int open_fd, const char *name)
{
	auto_fd fd = openat(
		open_fd, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return fd_take(&fd);
}

int audit_ring_complete(int folder_fd, const char *id, struct audit_segment *s)
{
	char name[FOLDER_NAME_BYTES];
	int len = snprintf(name, sizeof(name), "open/%s.ring", id);
	if (len < 0 || (size_t)len >= sizeof(name))
		return -ENAMETOOLONG;
	uint64_t deadline = clock_monotonic_ns() + HELD_WAIT_NS;
	auto_fd fd = -1;
	while ((fd = folder_open_unheld(folder_fd, name)) == -EWOULDBLOCK) {
		if (clock_monotonic_ns() >= deadline)
			return -EBUSY;
		struct timespec pause = {.tv_nsec = (long)HELD_RETRY_NS};
		(void)nanosleep(&pause, NULL); /* the next try tells */
	}
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd; /* another start's recovery completed it */
	struct audit_ring *ring = audit_ring_map(fd);
	if (ring == NULL)
		return -EBADMSG;
	int r = audit_segment_drain(s, ring, true);
	audit_ring_free(ring);
	if (r >= 0)
		(void)unlinkat(folder_fd, name, 0); /* drained: harmless if it stays */
	return r;
}

int audit_ring_retire(int folder_fd, const char *id)
{
	char name[FOLDER_NAME_BYTES], storage[AUDIT_PACKED_BYTES_MAX];
	struct slice packed;
	int len = snprintf(name, sizeof(name), "open/%s.ring", id);
	if (len < 0 || (size_t)len >= sizeof(name))
		return -ENAMETOOLONG;
	auto_fd fd = openat(folder_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	struct audit_ring *ring = audit_ring_map(fd);
	if (ring == NULL)
		return -EBADMSG;
	bool empty = audit_ring_peek(ring, storage, &packed) == 0 &&
		audit_ring_peek_open(ring, 0, storage, &packed) < 0 && audit_ring_lost(ring) == 0;
	audit_ring_free(ring);
	if (!empty)
		return -EBUSY;
	return unlinkat(folder_fd, name, 0) < 0 ? -errno : 0;
}
