/* See rootfs.h. */
#include "sandbox-launcher/rootfs.h"

#include "common/cleanup.h"
#include "sandbox-launcher/overlay.h"
#include "sandbox-launcher/point.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define TREE "rootfs.tree"
#define ROOT "rootfs.root"

int rootfs_open(const char *dir, struct failure *why)
{
	char shown[256];
	(void)slice_escape(slice_of(dir), shown, sizeof(shown));
	auto_fd fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return failure_errno(why, -errno, "--rootfs: %s", shown);
	int tree = view_open_tree(fd, "", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return tree < 0 ? failure_errno(why, tree, "--rootfs: %s can't be shown", shown) : tree;
}

/* @return 0: a folder, or absent; 1: absent, and so is all below it. */
static int check_folder(int tree, const char *path, struct failure *why)
{
	struct stat st;
	char shown[POINT_SHOWN_BYTES];
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	auto_fd fd = (int)syscall(SYS_openat2, tree, path, &how, sizeof(how));
	if (fd < 0 && errno == ENOENT)
		return 1;
	bool seen = fd >= 0 && fstat(fd, &st) == 0;
	int r = -errno;
	(void)slice_escape(slice_of(path), shown, sizeof(shown));
	if (!seen)
		return failure_errno(why, r, "--rootfs: /%s", shown);
	if (S_ISLNK(st.st_mode))
		return failure_set(why, -ELOOP,
			"--rootfs: /%s is a link in it: make it a folder, or remove it", shown);
	if (!S_ISDIR(st.st_mode))
		return failure_set(why, -ENOTDIR, "--rootfs: /%s is no folder in it", shown);
	return 0;
}

/* The folders that lead to an item, and itself if it is one. */
static int check_item(int tree, const struct view_item *item, struct failure *why)
{
	char path[VIEW_PATH_BYTES];
	struct slice whole = slice_of(item->path);
	int r = 0;
	for (size_t i = 1; i <= whole.len && r == 0; i++) {
		bool last = i == whole.len;
		if ((!last && whole.ptr[i] != '/') || (last && !view_is_folder(item)))
			continue;
		(void)slice_copy(
			slice_part(whole, 0, i), path, sizeof(path)); /* as long as its source */
		r = check_folder(tree, path, why);
	}
	return r;
}

int rootfs_check(const struct view *v, struct failure *why)
{
	int r = 0;
	/* files of ours hide what is in their way: images have links there, such as /etc/ssl/certs */
	for (size_t i = 0; i < v->count && r >= 0; i++)
		if (view_is_folder(&v->items[i]) || view_is_late(&v->items[i]))
			r = check_item(v->rootfs, &v->items[i], why);
	return r < 0 ? r : 0;
}

int rootfs_begin(void)
{
	return mkdir(ROOTFS_LAYER, 0755) < 0 || mkdir(TREE, 0700) < 0 || mkdir(ROOT, 0755) < 0 ||
			mkdir("run", 0755) < 0 /* for overlay_show() */
		? -errno
		: 0;
}

int rootfs_merge(const struct view *v, struct failure *why)
{
	static const char cannot[] = "--rootfs can't be overlaid here";
	auto_fd tree = open(TREE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = tree < 0 ? -errno : point_attach(tree, v->rootfs);
	if (r < 0)
		return failure_errno(why, r, "%s", cannot);
	/* this process's own mounts, by the /proc of the host, which is still there */
	if (overlay_hides(AT_FDCWD, "/proc/self/mountinfo", TREE))
		return failure_set(why, -EXDEV,
			"%s: another file system is mounted below it, which would be hidden",
			cannot);
	auto_fd overlay = overlay_open(ROOTFS_LAYER ":" TREE);
	if (overlay < 0)
		return failure_errno(why, overlay,
			"%s (`eclusa doctor` tells of overlays): copy it to a file system that can be a "
			"lower layer",
			cannot);
	auto_fd place = open(ROOT, O_PATH | O_DIRECTORY | O_CLOEXEC);
	r = place < 0 ? -errno : point_attach(place, overlay);
	return r < 0 ? failure_errno(why, r, "%s", cannot) : fd_take(&overlay);
}
