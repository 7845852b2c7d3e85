/*
 * The audit folder: where it is, and completing what dead runs left in it. See segment.h. Its own files are trusted as far as
 * the folder is: only its owner can write there.
 */
#include "audit/segment.h"

#include "audit/index.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define HELD_WAIT_NS  (2 * NS_PER_SEC)
#define HELD_RETRY_NS NS_PER_MS
#define STALE_SECONDS 60 /* a ring that was never finished being made */

#define FILE_NAME_BYTES 256
#define SCAN_BYTES      ((size_t)64 << 10) /* of a segment, at a time */

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

/** Open a file of open/ that no living run holds. @return descriptor (locked), or negative errno. */
static int open_unheld(int open_fd, const char *name)
{
	auto_fd fd = openat(
		open_fd, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -errno;
	return fd_take(&fd);
}

/** The file in this folder whose name ends so; *ret_name: its name. @return descriptor, -ENOENT, another negative errno. */
static int find_suffix(int dir_fd, const char *suffix, char ret_name[static FILE_NAME_BYTES])
{
	int again = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	if (dir == NULL) {
		fd_close(&again);
		return -errno;
	}
	int fd = -ENOENT;
	struct dirent *entry;
	while (fd < 0 && (entry = readdir(dir)) != NULL) {
		if (!slice_ends(slice_of(entry->d_name), slice_of(suffix)))
			continue;
		fd = openat(dir_fd, entry->d_name,
			O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
		(void)slice_copy(slice_of(entry->d_name), ret_name, FILE_NAME_BYTES); /* it fits */
	}
	(void)closedir(dir); /* only read */
	return fd;
}

/**
 * The segment of a ring: its link is "<utc>-<id>", the ring's name "<id>.ring" or "<id>.<n>.ring". A run that ended while its ring
 * was still held has no link anymore; without a file, too, a new one is made. *ret_name: the segment's file.
 */
static int find_segment(int folder_fd, int open_fd, const char *id,
	char ret_name[static FILE_NAME_BYTES], struct failure *why)
{
	char suffix[FILE_NAME_BYTES], link[FILE_NAME_BYTES];
	(void)snprintf(suffix, sizeof(suffix), "-%.63s", id);
	int fd = find_suffix(open_fd, suffix, link);
	if (fd >= 0) {
		(void)snprintf(ret_name, FILE_NAME_BYTES, "%.240s.jsonl", link);
		return fd;
	}
	(void)snprintf(suffix, sizeof(suffix), "-%.63s.jsonl", id);
	fd = find_suffix(folder_fd, suffix, ret_name);
	return fd >= 0 ? fd : audit_segment_create(folder_fd, id, ret_name, FILE_NAME_BYTES, why);
}

/** What a recovery added ends a chain: the index says so. */
static int index_recovered(
	int folder_fd, const char *name, const struct audit_segment *segment, struct failure *why)
{
	const struct audit_index_entry entry = {.kind = AUDIT_INDEX_CLOSED,
		.segment = name,
		.at = audit_segment_chain(segment),
		.recovered = true};
	if (entry.at->sequence == 1)
		return 0; /* not a line of it was ever written */
	return audit_index_append(folder_fd, &entry, why);
}

/** Into the run's own segment; then the ring is gone. @return lines or negative errno. */
static int recover_ring(int folder_fd, int open_fd, const char *name, struct failure *why)
{
	auto_fd fd = open_unheld(open_fd, name);
	if (fd < 0)
		return 0; /* its run is alive, or another recovery is at it */
	struct audit_ring *ring = audit_ring_map(fd);
	if (ring == NULL) {
		(void)unlinkat(open_fd, name, 0); /* no ring; nothing to be had from it */
		return 0;
	}
	struct audit_segment *segment = NULL;
	char id[CHAIN_NAME_BYTES], file[FILE_NAME_BYTES];
	(void)snprintf(id, sizeof(id), "%.*s", (int)strcspn(name, "."), name);
	auto_fd segment_fd = find_segment(folder_fd, open_fd, id, file, why);
	int r = segment_fd < 0 ? segment_fd : audit_segment_attach(segment_fd, id, &segment, why);
	if (r == 0) {
		r = audit_segment_drain(segment, ring, true);
		if (r < 0)
			(void)failure_errno(why, r, "audit folder: can't complete %s", name);
	}
	int indexed = r > 0 ? index_recovered(folder_fd, file, segment, why) : 0;
	audit_segment_free(segment);
	audit_ring_free(ring);
	if (r >= 0)
		(void)unlinkat(open_fd, name, 0); /* drained: harmless if it stays */
	return indexed < 0 ? indexed : r;
}

/** Whether the text stands anywhere in a file. What peers wrote can't hold it: their quotes are escaped. */
static bool file_holds(int fd, struct slice text)
{
	auto_free char *window = malloc(SCAN_BYTES);
	ssize_t got;
	size_t kept = 0; /* the end of the last window: the text may begin there */
	for (off_t at = 0; window != NULL; at += got) {
		got = pread(fd, window + kept, SCAN_BYTES - kept, at);
		if (got <= 0)
			return false;
		size_t len = kept + (size_t)got;
		if (memmem(window, len, text.ptr, text.len) != NULL)
			return true;
		kept = len < text.len ? len : text.len - 1;
		memmove(window, window + len - kept, kept);
	}
	return false;
}

/** A run that was recorded as started and not as ended gets an end, so that its file isn't taken for a broken one. */
static int close_run(int fd, const char *name, struct audit_segment *segment)
{
	const char *id = strchr(name, '-'); /* <utc>-<id> */
	if (id == NULL || !file_holds(fd, SLICE("\"status_code\":\"sandbox.start\"")) ||
		file_holds(fd, SLICE("\"status_code\":\"sandbox.exit\"")))
		return 0;
	const struct audit_event end = {.class = AUDIT_PROCESS,
		.activity = 2, /* OCSF: Terminate */
		.reason = REASON_SANDBOX_EXIT,
		.recovered = true,
		.sandbox_id = id + 1,
		.verdict = "unknown",
		.detail = "its launcher was killed before it could record the end"};
	return audit_segment_append_event(segment, &end);
}

/** A dead run may have left a torn last line, and has left no end. @return 1 if something was added. */
static int recover_segment(int folder_fd, int open_fd, const char *name, struct failure *why)
{
	char file[FILE_NAME_BYTES];
	auto_fd fd = open_unheld(open_fd, name);
	if (fd < 0)
		return 0;
	struct stat before, after;
	struct audit_segment *segment = NULL;
	if (fstat(fd, &before) < 0)
		return failure_errno(why, -errno, "audit folder: %s", name);
	const char *dash = strchr(name, '-'); /* <utc>-<id> */
	int r = audit_segment_attach(fd, dash == NULL ? name : dash + 1, &segment, why);
	if (r == 0) {
		r = close_run(fd, name, segment);
		if (r < 0)
			(void)failure_errno(why, r, "audit folder: can't complete %s", name);
	}
	(void)snprintf(file, sizeof(file), "%.240s.jsonl", name);
	if (r == 0) {
		audit_segment_release(segment);
		r = index_recovered(folder_fd, file, segment, why);
	}
	bool empty = r == 0 && audit_segment_chain(segment)->sequence == 1;
	audit_segment_free(segment);
	if (r < 0)
		return r;
	if (empty && fstat(fd, &after) == 0 && after.st_size == 0)
		(void)unlinkat(
			folder_fd, file, 0); /* no line was ever written; the index has none */
	(void)unlinkat(open_fd, name, 0);    /* the next start tries again */
	return fstat(fd, &after) == 0 && after.st_size != before.st_size;
}

static void remove_stale(int open_fd, const char *name)
{
	struct stat st;
	auto_fd fd = open_unheld(open_fd, name);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_mtime + STALE_SECONDS < time(NULL))
		(void)unlinkat(open_fd, name, 0); /* the next start tries again */
}

enum open_kind { OPEN_RING, OPEN_UNFINISHED, OPEN_SEGMENT, OPEN_OTHER };

static enum open_kind open_kind(const char *name)
{
	struct slice text = slice_of(name);
	if (slice_ends(text, SLICE(".ring")))
		return OPEN_RING;
	if (slice_ends(text, SLICE(".ring.new")))
		return OPEN_UNFINISHED;
	return name[0] >= '0' && name[0] <= '9' ? OPEN_SEGMENT : OPEN_OTHER;
}

/** Every file of one kind. @return how many were completed, or the first error once all were tried. */
static int recover_kind(int folder_fd, DIR *dir, enum open_kind kind, struct failure *why)
{
	int open_fd = dirfd(dir), count = 0, error = 0;
	struct dirent *entry;
	rewinddir(dir);
	while ((entry = readdir(dir)) != NULL) {
		if (open_kind(entry->d_name) != kind)
			continue;
		int r = 0;
		if (kind == OPEN_RING)
			r = recover_ring(folder_fd, open_fd, entry->d_name, why);
		else if (kind == OPEN_SEGMENT)
			r = recover_segment(folder_fd, open_fd, entry->d_name, why);
		else
			remove_stale(open_fd, entry->d_name);
		count += r > 0;
		error = r < 0 ? r : error;
	}
	return error < 0 ? error : count;
}

int audit_folder_recover(int folder_fd, struct failure *why)
{
	int open_fd = openat(folder_fd, "open", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (open_fd < 0)
		return errno == ENOENT ? 0 : failure_errno(why, -errno, "audit folder: open/");
	DIR *dir = fdopendir(open_fd);
	if (dir == NULL) {
		fd_close(&open_fd);
		return failure_errno(why, -errno, "audit folder: open/");
	}
	/* Rings first: what they hold goes into segments that are still marked as open. */
	static const enum open_kind order[] = {OPEN_RING, OPEN_UNFINISHED, OPEN_SEGMENT};
	int count = 0, error = 0;
	for (size_t i = 0; i < array_size(order); i++) {
		int r = recover_kind(folder_fd, dir, order[i], why);
		count += r > 0 ? r : 0;
		error = r < 0 ? r : error;
	}
	(void)closedir(dir); /* only read */
	return error < 0 ? error : count;
}

int audit_ring_complete(int folder_fd, const char *id, struct audit_segment *s)
{
	char name[FILE_NAME_BYTES];
	int len = snprintf(name, sizeof(name), "open/%s.ring", id);
	if (len < 0 || (size_t)len >= sizeof(name))
		return -ENAMETOOLONG;
	uint64_t deadline = clock_monotonic_ns() + HELD_WAIT_NS;
	auto_fd fd = -1;
	while ((fd = open_unheld(folder_fd, name)) == -EWOULDBLOCK) {
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
	char name[FILE_NAME_BYTES], line[AUDIT_LINE_BYTES_MAX];
	struct audit_entry entry;
	int len = snprintf(name, sizeof(name), "open/%s.ring", id);
	if (len < 0 || (size_t)len >= sizeof(name))
		return -ENAMETOOLONG;
	auto_fd fd = openat(folder_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -errno;
	struct audit_ring *ring = audit_ring_map(fd);
	if (ring == NULL)
		return -EBADMSG;
	bool empty = audit_ring_peek(ring, line, sizeof(line), &entry) == 0 &&
		audit_ring_peek_open(ring, 0, line, &entry) < 0 && audit_ring_lost(ring) == 0;
	audit_ring_free(ring);
	if (!empty)
		return -EBUSY;
	return unlinkat(folder_fd, name, 0) < 0 ? -errno : 0;
}
