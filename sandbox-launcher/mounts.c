/*
 * See mounts.h. Paths here are relative to a tmpfs that was empty a moment ago, or to a layer of ours over --rootfs: no link in
 * it is anyone else's. Where the caller chose the place, point.c goes there.
 */
#include "sandbox-launcher/mounts.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "sandbox-launcher/alias.h"
#include "sandbox-launcher/overlay.h"
#include "sandbox-launcher/point.h"
#include "sandbox-launcher/proc.h"
#include "sandbox-launcher/rootfs.h"
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

/* While the tree is built. The working directory is where paths are meant to be relative to. */
struct building {
	const struct mounts *m;
	int base; /* a tmpfs of ours: the root itself, or what lies under the root of --rootfs */
	int root;
	struct point_ours ours; /* where the caller's mounts may have places made */
	struct overlay_host host;
	int *ret_loadavg; /* of proc_mount(); NULL: not wanted */
};

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

#define COPY ".covering"

/* A read-only mount of a text, until it was mounted under the name COPY. @return descriptor or negative errno. */
static int make_copy(struct slice text)
{
	int r = write_file(COPY, text);
	return r < 0 ? r
		     : view_open_tree(AT_FDCWD, COPY,
			       MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
}

/* A text over a file that is there: a mount of a copy, which keeps it, hides the other. */
static int cover_file(const struct view_item *item, int point)
{
	auto_fd tree = make_copy(item->text);
	int r = tree < 0 ? tree : point_attach(point, tree);
	return r == 0 && unlink(COPY) < 0 ? -errno : r;
}

/* The place of an item, or the item itself where it needs no mount. */
static int make_item(const struct view_item *item)
{
	switch (item->kind) {
	case VIEW_FOLDER:
	case VIEW_TREE:
	case VIEW_INPUT:
	case VIEW_BIND:
	case VIEW_TMPFS:
		return mkdir(item->path, 0755) < 0 ? -errno : 0;
	case VIEW_LINK:
	case VIEW_ALIAS:
		return symlink(item->text.ptr, item->path) < 0 ? -errno : 0;
	case VIEW_TEXT:
		return write_file(item->path, item->text);
	case VIEW_OWN:  /* place_own() */
	case VIEW_PROC: /* proc_mount() */
		return 0;
	case VIEW_DEVICE:
	case VIEW_TREE_FILE:
	case VIEW_INPUT_FILE:
	case VIEW_COPY:
	case VIEW_BIND_FILE:
		break;
	}
	return mknod(item->path, S_IFREG | 0444, 0) < 0 ? -errno : 0;
}

static bool has_tree(const struct view_item *item)
{
	return item->kind == VIEW_TREE || item->kind == VIEW_TREE_FILE;
}

static int place_failed(const struct view_item *item, int r, struct failure *why)
{
	char shown[POINT_SHOWN_BYTES];
	(void)slice_escape(slice_of(item->path), shown, sizeof(shown));
	return failure_errno(why, r, "can't place /%s in the sandbox", shown);
}

/* A node of the host's, which is looked at where it is mounted: it must be the device that it is called (CVE-2025-31133). */
static int place_device(const struct view_item *item)
{
	char host[VIEW_PATH_BYTES + 1];
	struct stat st;
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC};
	(void)snprintf(host, sizeof(host), "/%s", item->path); /* fits */
	if (mount(host, item->path, NULL, MS_BIND, NULL) < 0 || lstat(item->path, &st) < 0)
		return -errno;
	if (!S_ISCHR(st.st_mode) || st.st_rdev != item->device)
		return -ENODEV;
	return mount_setattr(AT_FDCWD, item->path, AT_SYMLINK_NOFOLLOW, &attr, sizeof(attr)) < 0
		? -errno
		: 0;
}

static int place_item(const struct view_item *item, struct overlay_host *host)
{
	int r = item->kind == VIEW_ALIAS ? alias_place(item->path, item->text.ptr)
					 : make_item(item);
	if (r == -EEXIST && item->kind == VIEW_TEXT) {
		auto_fd point = open(item->path, O_PATH | O_CLOEXEC);
		r = point < 0 ? -errno : cover_file(item, point);
	}
	if (r < 0)
		return r;
	if (item->kind == VIEW_DEVICE)
		return place_device(item);
	if (item->kind == VIEW_TREE || (has_tree(item) && item->tree < 0))
		return overlay_show_host(host, item);
	return has_tree(item) ? attach(item->tree, item->path) : 0;
}

/* Into the base, which is the root: nothing is there yet but what earlier items brought along. */
static int place_items(struct building *b, struct failure *why)
{
	const struct view *v = b->m->view;
	for (size_t i = 0; i < v->count; i++) {
		int r = view_is_late(&v->items[i]) ? 0 : place_item(&v->items[i], &b->host);
		if (r < 0)
			return place_failed(&v->items[i], r, why);
	}
	return 0;
}

static bool is_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	return strncmp(path, folder, len) == 0 && path[len] == '/';
}

static const struct {
	const char *path;
	mode_t mode;
} SCRATCH[] = {{"tmp", 01777}, {"work", 0755}, {&VIEW_HOME[1], 0755}, {"dev/shm", 01777}};

/* Whether the place of a late item is in something that is mounted later: then it is not in the root. */
static bool is_deeper(const struct view *v, const struct view_item *item)
{
	bool found = false;
	for (size_t i = 0; i < array_size(SCRATCH) && !found; i++)
		found = is_below(item->path, SCRATCH[i].path);
	for (size_t i = 0; i < v->count && !found; i++)
		found = view_is_late(&v->items[i]) && is_below(item->path, v->items[i].path);
	return found;
}

static int make_parents(const char *path)
{
	char part[VIEW_PATH_BYTES];
	for (size_t i = 1; path[i] != '\0'; i++) {
		if (path[i] != '/')
			continue;
		(void)slice_copy(
			(struct slice){path, i}, part, sizeof(part)); /* shorter than its source */
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

/* Every place of ours, and of the caller's mounts, into a layer over the tree of --rootfs. */
static int fill_layer(const struct view *v, struct failure *why)
{
	for (size_t i = 0; i < v->count; i++) {
		const struct view_item *item = &v->items[i];
		if (item->kind == VIEW_OWN || item->kind == VIEW_PROC ||
			(view_is_late(item) && is_deeper(v, item)))
			continue;
		int r = make_parents(item->path);
		if (r == 0)
			r = make_item(item);
		if (r == -EEXIST && view_is_folder(item)) /* another's parent */
			r = 0;
		if (r < 0)
			return place_failed(item, r, why);
	}
	return 0;
}

/* @return the root, which is also the working directory. */
static int build_on_rootfs(const struct building *b, struct failure *why)
{
	const struct view *v = b->m->view;
	int r = rootfs_begin();
	if (r == 0 && chdir(ROOTFS_LAYER) < 0)
		r = -errno;
	if (r < 0)
		return failure_errno(why, r, "can't make a layer over --rootfs");
	r = fill_layer(v, why);
	if (r < 0)
		return r;
	auto_fd root = fchdir(b->base) < 0 ? failure_errno(why, -errno, "can't go back")
					   : rootfs_merge(v, why);
	if (root < 0)
		return root;
	if (fchdir(root) < 0)
		return failure_errno(why, -errno, "can't enter the root");
	for (size_t i = 0; i < v->count; i++) {
		const struct view_item *item = &v->items[i];
		r = item->kind == VIEW_DEVICE ? place_device(item)
			: has_tree(item)      ? attach(item->tree, item->path)
					      : 0;
		if (r < 0)
			return place_failed(&v->items[i], r, why);
	}
	return fd_take(&root);
}

/* A writable folder of the caller's: what listens there would be reached through it, so there must be nothing that does. */
static int check_bind(const struct view_item *item, struct failure *why)
{
	char shown[POINT_SHOWN_BYTES];
	int fd = openat(item->tree, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : overlay_check_tree(fd);
	(void)slice_escape(slice_of(item->path), shown, sizeof(shown));
	if (r == -EBADMSG)
		return failure_set(why, r,
			"--bind: the folder shown as /%s holds a socket, FIFO or device: they lead to "
			"processes of the host; bind it without :rw, or what is beside it",
			shown);
	return r < 0 ? failure_errno(why, r, "--bind: the folder shown as /%s", shown) : 0;
}

static int place_tmpfs(struct building *b, const struct view_item *item, int point)
{
	auto_fd tree = view_tmpfs(item->bytes, SCRATCH_INODES, 0755, SANDBOX_UID, SANDBOX_GID);
	int r = tree < 0 ? tree : point_is_ours(&b->ours, tree);
	return r < 0 ? r : point_attach(point, tree);
}

static int place_late_item(struct building *b, const struct view_item *item, struct failure *why)
{
	struct overlay_place at = {
		point_open(b->root, item->path, view_is_folder(item), &b->ours, why), b->root};
	auto_fd point = at.point;
	int r = 0;
	if (point < 0)
		return point;
	if (item->kind == VIEW_INPUT || item->kind == VIEW_INPUT_FILE)
		return overlay_show(item, &at, why);
	if (item->kind == VIEW_TMPFS)
		return place_tmpfs(b, item, point);
	if (item->kind == VIEW_COPY)
		return cover_file(item, point);
	r = point_attach(point, item->tree);
	return r == 0 && item->kind == VIEW_BIND ? check_bind(item, why) : r;
}

/* In the base: overlays are made there. */
static int place_late(struct building *b, struct failure *why)
{
	const struct view *v = b->m->view;
	if (!b->m->has_late)
		return 0;
	int r = fchdir(b->base) < 0 ? -errno : overlay_begin();
	if (r < 0)
		return failure_errno(why, r, "can't make folders for inputs");
	for (size_t i = 0; i < v->count && r == 0; i++) {
		if (!view_is_late(&v->items[i]))
			continue;
		r = place_late_item(b, &v->items[i], why);
		if (r < 0)
			return place_failed(&v->items[i], r, why);
	}
	r = overlay_end();
	return r < 0 ? failure_errno(why, r, "can't remove folders for inputs") : 0;
}

/* By mount(2), which is one call in place of nine. */
static int mount_tmpfs(const char *path, uint64_t bytes, unsigned inodes, mode_t mode)
{
	char options[128];
	(void)snprintf(options, sizeof(options), "size=%llu,nr_inodes=%u,mode=%o,uid=%u,gid=%u",
		(unsigned long long)bytes, inodes, mode, SANDBOX_UID, SANDBOX_GID); /* fits */
	return mount("none", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0 ? -errno : 0;
}

/* A folder of what is mounted over the stage, by itself, so that what is beside it is out of reach. */
static int mount_part(size_t i)
{
	char part[sizeof(OVERLAY_STAGE) + 16];
	(void)snprintf(part, sizeof(part), OVERLAY_STAGE "/%zu", i); /* fits */
	if (mkdir(part, 0700) < 0 || chmod(part, SCRATCH[i].mode) < 0 ||
		mount(part, SCRATCH[i].path, NULL, MS_BIND, NULL) < 0)
		return -errno;
	return 0;
}

/* One file system for all but /out: making and ending one is what costs. As a whole it goes over a folder of the host's, with which it is let go. */
static int mount_writable(struct building *b)
{
	int r = mount_tmpfs(OVERLAY_STAGE, b->m->scratch_bytes, SCRATCH_INODES, 0700);
	for (size_t i = 0; i < array_size(SCRATCH) && r == 0; i++)
		r = mount_part(i);
	auto_fd whole = r < 0 ? r : open(OVERLAY_STAGE, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (r == 0)
		r = whole < 0 ? -errno : point_is_ours(&b->ours, whole);
	return r < 0 ? r : attach(b->m->out, "out");
}

/* Files of the program's own, in the writable folders, which only we have touched yet. */
static int place_own(const struct view *v)
{
	int r = 0;
	for (size_t i = 0; i < v->count && r == 0; i++) {
		const struct view_item *item = &v->items[i];
		if (item->kind != VIEW_OWN)
			continue;
		r = make_parents(item->path);
		if (r == 0)
			r = write_file_as(item->path, item->text, 0600);
	}
	return r;
}

/* The base goes over a folder that every host has, and becomes the working directory. */
static int enter_base(struct building *b, struct failure *why)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return failure_errno(why, -errno, "can't make the mounts private");
	int r = overlay_begin_host(&b->host);
	if (r == 0)
		r = mount_tmpfs(
			"/etc", b->m->view->text_bytes + ROOT_SPARE_BYTES, ROOT_INODES, 0755);
	if (r < 0)
		return failure_errno(why, r, "can't make the root of the sandbox");
	b->base = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (b->base < 0 || fchdir(b->base) < 0)
		return failure_errno(why, -errno, "can't enter the root of the sandbox");
	return 0;
}

/* Read-only places that are there, on whatever they lie. The working directory is the root afterwards. */
static int build_root(struct building *b, struct failure *why)
{
	int r = enter_base(b, why);
	if (r < 0)
		return r;
	if (b->m->view->rootfs >= 0) {
		b->root = build_on_rootfs(b, why);
		return b->root < 0 ? b->root : 0;
	}
	r = place_items(b, why);
	if (r < 0)
		return r;
	b->root = fcntl(b->base, F_DUPFD_CLOEXEC, 3);
	r = b->root < 0 ? -errno : point_is_ours(&b->ours, b->root);
	return r < 0 ? failure_errno(why, r, "can't hold the root of the sandbox") : 0;
}

/* Must not be possible afterwards: naming anything of the host's tree, by path or by a mount below or above. */
static int leave_host(const struct building *b, struct failure *why)
{
	if (fchdir(b->root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return failure_errno(why, -errno, "can't change the root");
	if (umount2(".", MNT_DETACH) < 0)
		return failure_errno(why, -errno, "can't let the host's tree go");
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	if (mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
		return failure_errno(why, -errno, "can't make the root read-only");
	return chdir("/work") < 0 ? failure_errno(why, -errno, "can't enter /work") : 0;
}

static int build(struct building *b, struct failure *why)
{
	int r = build_root(b, why);
	if (r < 0)
		return r;
	r = proc_mount(b->base, b->m->view, b->ret_loadavg);
	if (r < 0)
		return failure_errno(why, r,
			"can't mount a fresh /proc (in a container, some entry of /proc is covered: run it "
			"with an uncovered /proc)");
	r = mount_writable(b);
	if (r == 0)
		r = place_own(b->m->view);
	if (r < 0)
		return failure_errno(why, r, "can't mount the writable folders");
	r = place_late(b, why);
	return r < 0 ? r : leave_host(b, why);
}

int mounts_enter(const struct mounts *m, int *ret_loadavg, struct failure *why)
{
	struct building b = {
		.m = m, .base = -1, .root = -1, .host = {.etc = -1}, .ret_loadavg = ret_loadavg};
	int r = build(&b, why);
	overlay_end_host(&b.host);
	fd_close(&b.base);
	fd_close(&b.root);
	return r;
}

/* Whether a mount of the caller's is at this path. */
static bool is_hidden(const struct view *v, const char *path)
{
	bool found = false;
	for (size_t i = 0; i < v->count && !found; i++)
		found = view_is_late(&v->items[i]) && strcmp(v->items[i].path, path) == 0;
	return found;
}

static bool is_full(const char *folder)
{
	struct statfs fs;
	return statfs(folder, &fs) == 0 && (fs.f_bavail == 0 || fs.f_ffree == 0);
}

const char *mounts_full(const struct view *v, char to[static VIEW_PATH_BYTES + 1])
{
	if (is_full(MOUNTS_OUT) && !is_hidden(v, &MOUNTS_OUT[1]))
		return MOUNTS_OUT;
	for (size_t i = 0; i < v->count; i++) {
		if (v->items[i].kind != VIEW_TMPFS)
			continue;
		(void)snprintf(to, VIEW_PATH_BYTES + 1, "/%s", v->items[i].path); /* fits */
		if (is_full(to))
			return to;
	}
	size_t shown = 0;
	while (shown < array_size(SCRATCH) && is_hidden(v, SCRATCH[shown].path))
		shown++;
	if (shown == array_size(SCRATCH))
		return NULL;
	(void)snprintf(to, VIEW_PATH_BYTES + 1, "/%s", SCRATCH[shown].path); /* fits */
	return is_full(to) ? MOUNTS_SCRATCH : NULL;
}
