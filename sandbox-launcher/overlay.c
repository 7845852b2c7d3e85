/*
 * See overlay.h. The overlay belongs to the sandbox's user namespace: its look-ups have no more rights than the sandbox's
 * user, and it can't read the trusted.* attributes by which a crafted folder could redirect it.
 */
#include "sandbox-launcher/overlay.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "sandbox-launcher/point.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define LOWER  ".lower"
#define MERGED ".merged"
#define ETC    "/etc"
#define FLAGS  (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

#define MOUNTINFO_BYTES_MAX ((size_t)64 << 20)

int overlay_begin(void)
{
	return mkdir(LOWER, 0700) < 0 || mkdir(MERGED, 0700) < 0 ? -errno : 0;
}

int overlay_end(void)
{
	return rmdir(LOWER) < 0 || rmdir(MERGED) < 0 ? -errno : 0;
}

static int attach(int tree, const char *path)
{
	return move_mount(tree, "", AT_FDCWD, path, MOVE_MOUNT_F_EMPTY_PATH) < 0 ? -errno : 0;
}

static int detach(const char *path)
{
	return umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 ? -errno : 0;
}

int overlay_open(const char *layers)
{
	const char *const options[][2] = {
		{"lowerdir", layers}, {"redirect_dir", "nofollow"}, {"metacopy", "off"}};
	auto_fd fs = fsopen("overlay", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -errno;
	for (size_t i = 0; i < array_size(options); i++)
		if (fsconfig(fs, FSCONFIG_SET_STRING, options[i][0], options[i][1], 0) < 0)
			return -errno;
	if (fsconfig(fs, FSCONFIG_SET_FLAG, "ro", NULL, 0) < 0 ||
		fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	int mount = fsmount(fs, FSMOUNT_CLOEXEC, FLAGS);
	return mount < 0 ? -errno : mount;
}

/* An overlay shows the folders at which other file systems are mounted, but not those: it would hide files in silence. */
bool overlay_hides(int fd, const char *mountinfo, const char *name)
{
	struct buf text;
	buf_init(&text, 2 * MOUNTINFO_BYTES_MAX);
	char part[NAME_MAX + 3];
	int len = snprintf(part, sizeof(part), "/%s/", name);
	int r = file_read(fd, mountinfo, MOUNTINFO_BYTES_MAX, &text);
	struct slice lines = buf_slice(&text);
	bool found = r < 0 || lines.ptr == NULL ||
		memmem(lines.ptr, lines.len, part, (size_t)len) != NULL;
	buf_fini(&text);
	return found;
}

/* One folder of the check. Takes @fd. What may not be entered is closed to the program, too. */
static int check_folder(int fd, unsigned depth, unsigned *left)
{
	DIR *folder = fdopendir(fd);
	if (folder == NULL) {
		int r = -errno;
		fd_close(&fd);
		return r;
	}
	const struct dirent *entry;
	int r = 0;
	while (r == 0 && (entry = readdir(folder)) != NULL) {
		struct stat st;
		const char *name = entry->d_name;
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		if (depth == 0 || --*left == 0)
			r = -E2BIG;
		else if (fstatat(dirfd(folder), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			r = errno == ENOENT ? 0 : -errno;
		else if (S_ISDIR(st.st_mode)) {
			int below = openat(dirfd(folder), name,
				O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (below >= 0)
				r = check_folder(below, depth - 1, left);
			else if (errno != EACCES && errno != ENOENT)
				r = -errno;
		} else if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
			r = -EBADMSG;
	}
	(void)closedir(folder); /* only read from */
	return r;
}

int overlay_check_tree(int fd)
{
	unsigned left = OVERLAY_ENTRIES_MAX;
	return check_folder(fd, OVERLAY_DEPTH_MAX, &left);
}

/* The kernel has no overlay for this folder. */
static int show_checked(const struct view_item *item, int point, struct failure *why)
{
	int fd = open(LOWER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : overlay_check_tree(fd);
	if (r == 0)
		return point_attach(point, item->tree);
	char shown[POINT_SHOWN_BYTES];
	(void)slice_escape(slice_of(item->path), shown, sizeof(shown));
	const char *what = r == -EBADMSG ? "it holds a socket, FIFO or device"
		: r == -E2BIG            ? "it holds too much to be looked through"
					 : strerror(-r);
	return failure_set(why, r,
		"the folder shown as /%s can't be an overlay here, and %s: pass files, or a folder with files "
		"only",
		shown, what);
}

static int show_folder(
	const struct view_item *item, const struct overlay_place *place, struct failure *why)
{
	int r = attach(item->tree, LOWER);
	if (r < 0)
		return r;
	bool hides = overlay_hides(place->root, "proc/self/mountinfo", LOWER);
	auto_fd overlay = hides ? -EXDEV : overlay_open(OVERLAY_LAYERS);
	if (overlay < 0)
		return show_checked(item, place->point, why);
	r = detach(LOWER);
	return r < 0 ? r : point_attach(place->point, overlay);
}

int overlay_begin_host(struct overlay_host *h)
{
	*h = (struct overlay_host){.etc = open(ETC, O_PATH | O_DIRECTORY | O_CLOEXEC)};
	return h->etc < 0 ? -errno : 0;
}

void overlay_end_host(struct overlay_host *h)
{
	fd_close(&h->etc);
}

bool overlay_needs_no_tree(const char *path, bool folder)
{
	const struct open_how how = {.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
	if (strncmp(path, ETC "/", sizeof(ETC)) != 0)
		return folder;
	auto_fd etc = open(ETC, O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd found = etc < 0
		? -1
		: (int)syscall(SYS_openat2, etc, path + sizeof(ETC), &how, sizeof(how));
	return found >= 0;
}

/* By mount(2), which is one call in place of eight. */
static int mount_overlay(const char *lower, const char *path)
{
	char options[VIEW_PATH_BYTES + 96];
	(void)snprintf(options, sizeof(options),
		"lowerdir=%s:run,redirect_dir=nofollow,metacopy=off", lower); /* fits */
	return mount("none", path, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options) < 0
		? -errno
		: 0;
}

/* All mounts that came from the host are locked in a user namespace, and of a folder with such a mount in it there is no overlay. */
static int show_folder_of_host(const char *host, const char *path)
{
	if (mount_overlay(host, path) == 0)
		return 0;
	auto_fd tree = view_open_tree(AT_FDCWD, host, FLAGS);
	return tree < 0 ? tree : attach(tree, path);
}

/* Into the file that is there. */
static int copy_file(int etc, const char *below, const char *path)
{
	struct buf text;
	buf_init(&text, 4 * VIEW_COPY_MAX);
	int r = file_read(etc, below, VIEW_COPY_MAX, &text);
	auto_fd fd = r < 0 ? -1 : open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (r == 0)
		r = fd < 0 ? -errno : file_write_all(fd, buf_slice(&text));
	buf_fini(&text);
	return r;
}

/* The launcher's own copy of the folder, which the overlay then covers. */
static int show_tree(const struct view_item *item)
{
	int r = attach(item->tree, item->path);
	if (r == 0)
		(void)mount_overlay(item->path, item->path); /* else it is shown as it is */
	return r;
}

/* In a container files of /etc may be mounts, and then there is no overlay of all of it. */
int overlay_show_host(struct overlay_host *h, const struct view_item *item)
{
	char host[VIEW_PATH_BYTES + 32];
	if (item->tree >= 0)
		return show_tree(item);
	if (!slice_starts(slice_of(item->path), SLICE("etc/"))) {
		(void)snprintf(host, sizeof(host), "/%s", item->path); /* fits */
		return show_folder_of_host(host, item->path);
	}
	const char *below = item->path + sizeof(ETC) - 1;
	if (h->kind == OVERLAY_ETC_UNKNOWN) {
		(void)snprintf(host, sizeof(host), "/proc/self/fd/%d", h->etc);
		h->kind = mount_overlay(host, OVERLAY_STAGE) == 0 ? OVERLAY_ETC_WHOLE
								  : OVERLAY_ETC_EACH;
	}
	if (h->kind == OVERLAY_ETC_WHOLE) {
		(void)snprintf(host, sizeof(host), OVERLAY_STAGE "/%s", below); /* fits */
		return mount(host, item->path, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
	}
	if (item->kind == VIEW_TREE_FILE)
		return copy_file(h->etc, below, item->path);
	(void)snprintf(host, sizeof(host), "/proc/self/fd/%d/%s", h->etc, below); /* fits */
	return show_folder_of_host(host, item->path);
}

/* Whether the overlay's file is the one that was opened: the host may have put another under its name since. */
static bool is_same_file(int one, int other)
{
	struct stat a, b;
	return fstat(one, &a) == 0 && fstat(other, &b) == 0 && S_ISREG(a.st_mode) &&
		a.st_mode == b.st_mode && a.st_size == b.st_size &&
		a.st_ctim.tv_sec == b.st_ctim.tv_sec && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

/* @return the file alone, out of an overlay of its folder. */
static int open_overlaid_file(const struct view_item *item)
{
	char path[sizeof(MERGED) + NAME_MAX + 2];
	(void)snprintf(path, sizeof(path), MERGED "/%s", item->text.ptr);
	auto_fd overlay = overlay_open(OVERLAY_LAYERS);
	int r = overlay < 0 ? overlay : attach(overlay, MERGED);
	if (r < 0)
		return r;
	auto_fd file = open_tree(
		AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	if (file < 0)
		r = -errno;
	else if (!is_same_file(file, item->tree))
		r = -ESTALE;
	int e = detach(MERGED);
	if (r == 0)
		r = e;
	return r < 0 ? r : fd_take(&file);
}

static int show_file(const struct view_item *item, int point)
{
	auto_fd file = -1;
	if (item->layer >= 0 && attach(item->layer, LOWER) == 0) {
		file = open_overlaid_file(item);
		int r = detach(LOWER);
		if (r < 0)
			return r;
	}
	return point_attach(point, file >= 0 ? file : item->tree);
}

int overlay_show(
	const struct view_item *item, const struct overlay_place *place, struct failure *why)
{
	return item->kind == VIEW_INPUT_FILE ? show_file(item, place->point)
					     : show_folder(item, place, why);
}
