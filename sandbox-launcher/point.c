/* See point.h. */
#include "sandbox-launcher/point.h"

#include "common/cleanup.h"
#include "common/slice.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

int point_is_ours(struct point_ours *ours, int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (ours->count == POINT_OURS_MAX)
		return -E2BIG;
	ours->devices[ours->count++] = st.st_dev;
	return 0;
}

static bool may_make(int folder, const struct point_ours *ours)
{
	struct stat st;
	bool found = false;
	if (fstat(folder, &st) < 0)
		return false;
	for (size_t i = 0; i < ours->count && !found; i++)
		found = ours->devices[i] == st.st_dev;
	return found;
}

/* One name, which may be a link itself. */
static int open_name(int folder, const char *name)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, folder, name, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

static int make_name(int folder, const char *name, bool as_folder)
{
	if (as_folder)
		return mkdirat(folder, name, 0755) < 0 ? -errno : 0;
	auto_fd fd =
		openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	return fd < 0 ? -errno : 0;
}

/* @shown: the path up to this name, escaped. */
static int step(int folder, const char *name, bool as_folder, const struct point_ours *ours,
	const char *shown, struct failure *why)
{
	struct stat st;
	auto_fd fd = open_name(folder, name);
	if (fd == -ENOENT && may_make(folder, ours)) {
		int r = make_name(folder, name, as_folder);
		if (r < 0)
			return failure_errno(why, r, "/%s", shown);
		fd = open_name(folder, name);
	}
	if (fd == -ENOENT)
		return failure_set(why, -ENOENT,
			"/%s is not there, and nothing can be made in what is not the sandbox's own",
			shown);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, fd < 0 ? fd : -errno, "/%s", shown);
	if (S_ISLNK(st.st_mode))
		return failure_set(why, -ELOOP, "/%s is a link, which is not followed", shown);
	if (as_folder != S_ISDIR(st.st_mode))
		return failure_set(why, as_folder ? -ENOTDIR : -EISDIR, "/%s is %s folder", shown,
			as_folder ? "no" : "a");
	return fd_take(&fd);
}

int point_open(
	int root, const char *path, bool folder, const struct point_ours *ours, struct failure *why)
{
	struct slice whole = slice_of(path), rest = whole, name;
	char text[NAME_MAX + 1], shown[POINT_SHOWN_BYTES] = "";
	auto_fd at = fcntl(root, F_DUPFD_CLOEXEC, 3);
	if (at < 0)
		return failure_errno(why, -errno, "can't hold the root");
	for (bool more = true; more;) {
		more = slice_split(rest, '/', &name, &rest);
		if (!more)
			name = rest;
		(void)slice_escape((struct slice){path, (size_t)(name.ptr + name.len - path)},
			shown, sizeof(shown));
		if (slice_copy(name, text, sizeof(text)) < 0)
			return failure_errno(why, -ENAMETOOLONG, "/%s", shown);
		int next = step(at, text, more || folder, ours, shown, why);
		if (next < 0)
			return next;
		fd_close(&at);
		at = next;
	}
	return fd_take(&at);
}

int point_attach(int point, int tree)
{
	return move_mount(tree, "", point, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
			0
		? -errno
		: 0;
}
