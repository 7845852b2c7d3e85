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

#define LOWER       ".lower"
#define MERGED      ".merged"
#define HOST_FOLDER "/etc" /* every host has it */
#define HOST_LAYERS "/etc:run"
#define FLAGS       (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

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
	*h = (struct overlay_host){open(HOST_FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC), -1};
	if (h->etc < 0)
		return -errno;
	auto_fd overlay = overlay_open(HOST_LAYERS);
	int r = overlay < 0 ? 0 : attach(overlay, HOST_FOLDER);
	if (overlay >= 0 && r == 0)
		h->overlay = fd_take(&overlay);
	return r;
}

void overlay_end_host(struct overlay_host *h)
{
	fd_close(&h->etc);
	fd_close(&h->overlay);
}

bool overlay_can_cut(const char *path)
{
	const struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV};
	if (strncmp(path, HOST_FOLDER "/", sizeof(HOST_FOLDER)) != 0)
		return false;
	auto_fd etc = open(HOST_FOLDER, O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd folder = etc < 0
		? -1
		: (int)syscall(SYS_openat2, etc, path + sizeof(HOST_FOLDER), &how, sizeof(how));
	return folder >= 0;
}

/*
 * The folder is first mounted over one that every host has, above those of earlier calls; with the host's tree all of them go.
 * Other file systems are looked for below /usr alone, where administrators put some.
 */
static int show_by_itself(const char *path, int tree)
{
	int r = tree < 0 ? tree : attach(tree, HOST_FOLDER);
	if (r < 0)
		return r;
	bool hides =
		strcmp(path, "usr") == 0 && overlay_hides(AT_FDCWD, "/proc/self/mountinfo", path);
	auto_fd overlay = hides ? -EXDEV : overlay_open(HOST_LAYERS);
	return attach(overlay < 0 ? tree : overlay, path);
}

/* In a container files of /etc may be mounts, and then there is no overlay of all of it. */
int overlay_show_host(const struct overlay_host *h, const struct view_item *item)
{
	const char *below = item->path + sizeof(HOST_FOLDER) - 1;
	if (item->tree >= 0)
		return show_by_itself(item->path, item->tree);
	auto_fd tree = h->overlay < 0
		? view_open_tree(h->etc, below, FLAGS)
		: open_tree(h->overlay, below,
			  OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
	if (h->overlay < 0)
		return show_by_itself(item->path, tree);
	return tree < 0 ? -errno : attach(tree, item->path);
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
