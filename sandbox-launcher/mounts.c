/* See mounts.h. Every path here is relative to a tmpfs that was empty a moment ago: no link in it is anyone else's. */
#include "sandbox-launcher/mounts.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "sandbox-launcher/alias.h"
#include "sandbox-launcher/overlay.h"
#include "sandbox-launcher/userns.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>

#define ROOT_SPARE_BYTES ((uint64_t)2 << 20) /* folders, links and page rounding */
#define ROOT_INODES      4096
#define SCRATCH_INODES   65536
#define VIEW_HOME_BELOW  VIEW_HOME "/"

static int attach(int tree, const char *path)
{
	return move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

static int write_file_as(const char *path, struct slice text, mode_t mode)
{
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? -errno : file_write_all(fd, text);
}

static int write_file(const char *path, struct slice text)
{
	return write_file_as(path, text, 0444);
}

/* A text over a file that a mount brought along: the copy lies in the root, a mount of it hides the other. */
static int cover_file(const struct view_item *item)
{
	static const char copy[] = ".covering";
	int r = write_file(copy, item->text);
	if (r < 0)
		return r;
	auto_fd tree = view_open_tree(
		AT_FDCWD, copy, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (tree < 0)
		return tree;
	r = attach(tree, item->path);
	return r == 0 && unlink(copy) < 0 ? -errno : r;
}

static int place(const struct view_item *item, bool input, struct failure *why)
{
	int r = 0;
	if (input && item->kind == VIEW_TEXT) { /* /work is writable, a copied input is not */
		r = write_file(item->path, SLICE(""));
		return r < 0 ? r : cover_file(item);
	}
	switch (item->kind) {
	case VIEW_FOLDER:
		return mkdir(item->path, 0755) < 0 ? -errno : 0;
	case VIEW_LINK:
		return symlink(item->text.ptr, item->path) < 0 ? -errno : 0;
	case VIEW_TEXT:
		r = write_file(item->path, item->text);
		return r == -EEXIST ? cover_file(item) : r;
	case VIEW_ALIAS:
		return alias_place(item->path, item->text.ptr);
	case VIEW_OWN:
		return write_file_as(item->path, item->text, 0600);
	case VIEW_TREE:
		r = mkdir(item->path, 0755) < 0 ? -errno : 0;
		break;
	case VIEW_TREE_FILE:
		r = write_file(item->path, SLICE(""));
		break;
	case VIEW_INPUT:
		r = mkdir(item->path, 0755) < 0 ? -errno : 0;
		return r < 0 ? r : overlay_show(item, why);
	case VIEW_INPUT_FILE:
		r = write_file(item->path, SLICE(""));
		return r < 0 ? r : overlay_show(item, why);
	}
	return r < 0 ? r : attach(item->tree, item->path);
}

/* Below a writable folder, which is mounted over what was there. */
static bool is_late(const struct view_item *item)
{
	struct slice path = slice_of(item->path);
	return slice_starts(path, SLICE("work/")) ||
		slice_starts(path, slice_of(&VIEW_HOME_BELOW[1]));
}

static int place_view(const struct view *v, bool late, struct failure *why)
{
	for (size_t i = 0; i < v->count; i++) {
		const struct view_item *item = &v->items[i];
		if (is_late(item) != late)
			continue;
		int r = place(item, late, why);
		if (r < 0)
			return failure_errno(why, r, "can't place /%s in the sandbox", item->path);
	}
	return 0;
}

static int place_inputs(const struct view *v, bool any, struct failure *why)
{
	int r = any ? overlay_begin() : 0;
	if (r < 0)
		return failure_errno(why, r, "can't make folders for inputs");
	r = place_view(v, true, why);
	if (r == 0 && any)
		r = overlay_end();
	return r < 0 ? failure_errno(why, r, "can't remove folders for inputs") : 0;
}

/*
 * Files that tell about the host or that reach beyond the sandbox. The rest of /proc is read-only, and what only root may
 * open is closed to a uid that is not root and has no capability.
 */
static const char *const MASKED[] = {
	"proc/kcore",
	"proc/keys",
	"proc/key-users",
	"proc/timer_list",
	"proc/sched_debug",
	"proc/latency_stats",
	"proc/sysrq-trigger",
	"proc/cmdline",
};
static const char *const MASKED_FOLDERS[] = {"proc/acpi", "proc/scsi"};

static int mask_file(const char *path)
{
	if (access(path, F_OK) < 0)
		return errno == ENOENT ? 0 : -errno;
	auto_fd tree = view_open_tree(AT_FDCWD, "dev/null", MOUNT_ATTR_RDONLY);
	return tree < 0 ? tree : attach(tree, path);
}

static int mask_folder(const char *path)
{
	if (access(path, F_OK) < 0)
		return errno == ENOENT ? 0 : -errno;
	auto_fd tree = view_tmpfs(4096, 2, 0555, SANDBOX_UID, SANDBOX_GID);
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	if (tree < 0)
		return tree;
	if (mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		return -errno;
	return attach(tree, path);
}

int mounts_make_proc(void)
{
	auto_fd fs = fsopen("proc", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -errno;
	if (fsconfig(fs, FSCONFIG_SET_STRING, "hidepid", "invisible", 0) < 0 ||
		fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	auto_fd mount = fsmount(
		fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (mount < 0)
		return -errno;
	int r = file_write_text(mount, "sys/user/max_user_namespaces", "0");
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	if (r == 0 && mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		r = -errno;
	return r < 0 ? r : fd_take(&mount);
}

/* Through it, user namespaces below this one are forbidden while we still may. */
static int mount_proc(void)
{
	auto_fd mount = mounts_make_proc();
	int r = mount < 0 ? mount : attach(mount, "proc");
	for (size_t i = 0; i < array_size(MASKED) && r == 0; i++)
		r = mask_file(MASKED[i]);
	for (size_t i = 0; i < array_size(MASKED_FOLDERS) && r == 0; i++)
		r = mask_folder(MASKED_FOLDERS[i]);
	return r;
}

static int mount_writable(const struct mounts *m)
{
	static const struct {
		const char *path;
		mode_t mode;
	} folders[] = {{"tmp", 01777}, {"work", 0755}, {&VIEW_HOME[1], 0755}, {"dev/shm", 01777}};
	for (size_t i = 0; i < array_size(folders); i++) {
		auto_fd tree = view_tmpfs(m->scratch_bytes, SCRATCH_INODES, folders[i].mode,
			SANDBOX_UID, SANDBOX_GID);
		int r = tree < 0 ? tree : attach(tree, folders[i].path);
		if (r < 0)
			return r;
	}
	return attach(m->out, "out");
}

/* The new root goes over a folder that every host has; then it becomes the root and the host's tree is let go. */
static int enter_root(const struct mounts *m, struct failure *why)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return failure_errno(why, -errno, "can't make the mounts private");
	auto_fd root = view_tmpfs(m->view->text_bytes + ROOT_SPARE_BYTES, ROOT_INODES, 0755,
		SANDBOX_UID, SANDBOX_GID);
	if (root < 0)
		return failure_errno(why, root, "can't make the root of the sandbox");
	if (move_mount(root, "", AT_FDCWD, "/usr", MOVE_MOUNT_F_EMPTY_PATH) < 0 || fchdir(root) < 0)
		return failure_errno(why, -errno, "can't enter the root of the sandbox");
	return 0;
}

/* Must not be possible afterwards: naming anything of the host's tree, by path or by a mount below or above. */
static int leave_host(struct failure *why)
{
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return failure_errno(why, -errno, "can't change the root");
	if (umount2(".", MNT_DETACH) < 0)
		return failure_errno(why, -errno, "can't let the host's tree go");
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	if (mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
		return failure_errno(why, -errno, "can't make the root read-only");
	return chdir("/work") < 0 ? failure_errno(why, -errno, "can't enter /work") : 0;
}

int mounts_enter(const struct mounts *m, struct failure *why)
{
	int r = enter_root(m, why);
	if (r == 0)
		r = place_view(m->view, false, why);
	if (r < 0)
		return r;
	r = mount_proc();
	if (r < 0)
		return failure_errno(why, r,
			"can't mount a fresh /proc (in a container, some entry of /proc is covered: run it "
			"with an uncovered /proc)");
	r = mount_writable(m);
	if (r < 0)
		return failure_errno(why, r, "can't mount the writable folders");
	r = place_inputs(m->view, m->has_inputs, why);
	return r < 0 ? r : leave_host(why);
}

const char *mounts_full(void)
{
	static const char *const folders[] = {MOUNTS_OUT, "/tmp", "/work", VIEW_HOME, "/dev/shm"};
	for (size_t i = 0; i < array_size(folders); i++) {
		struct statfs fs;
		if (statfs(folders[i], &fs) == 0 && (fs.f_bavail == 0 || fs.f_ffree == 0))
			return folders[i];
	}
	return NULL;
}
