/* See alias.h. */
#include "sandbox-launcher/alias.h"

#include "common/cleanup.h"
#include "sandbox-launcher/view.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Without leaving the new root. @return descriptor or negative errno. */
static int open_inside(const char *path, uint64_t flags)
{
	const struct open_how how = {.flags = flags | O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

/* A mount over the file that is open as @place. */
static int cover(int place, const char *of)
{
	struct stat st;
	if (fstat(place, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return 0; /* a folder or device of that name: not what clients read */
	auto_fd file = open_inside(of, 0);
	if (file < 0)
		return file;
	auto_fd tree = view_open_tree(file, "", READ_ONLY);
	if (tree < 0)
		return tree;
	unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
	return move_mount(tree, "", place, "", flags) < 0 ? -errno : 0;
}

/* The folder of @path, made as far as it is missing. @ret_name: what is left. @return descriptor or negative errno. */
static int open_folder(const char *path, const char **ret_name)
{
	char part[PATH_MAX];
	auto_fd folder = open_inside(".", O_DIRECTORY);
	const char *name = path, *slash;
	while (folder >= 0 && (slash = strchr(name, '/')) != NULL) {
		int r = slice_copy(
			(struct slice){path, (size_t)(slash - path)}, part, sizeof(part));
		if (r < 0)
			return r;
		int next = open_inside(part, O_DIRECTORY);
		if (next == -ENOENT) {
			if (mkdirat(folder, part + (name - path), 0755) < 0)
				return -errno;
			next = open_inside(part, O_DIRECTORY);
		}
		fd_close(&folder);
		folder = next;
		name = slash + 1;
	}
	*ret_name = name;
	return fd_take(&folder);
}

int alias_place(const char *path, const char *of)
{
	const char *name = path;
	auto_fd place = open_inside(path, 0);
	if (place >= 0)
		return cover(place, of);
	if (place != -ENOENT)
		return 0; /* links in a circle, a file where a folder should be */
	auto_fd folder = open_folder(path, &name);
	if (folder < 0 || symlinkat(of, folder, name) < 0)
		return 0; /* read-only, or a link to nothing: nobody reads a bundle there */
	return 0;
}
