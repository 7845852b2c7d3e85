/* See input.h. */
#include "sandbox-launcher/input.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "sandbox-launcher/userns.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>

#define INPUT_COPY_MAX ((size_t)256 << 20)
#define READ_ONLY      (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

int input_open(const char *text, struct input *ret, struct failure *why)
{
	struct input in = {.fd = -1};
	char shown[256];
	int r = spec_input(text, &in.source, in.name, why);
	if (r < 0)
		return r;
	(void)slice_escape(slice_of(in.source), shown, sizeof(shown));
	in.fd = open(in.source, O_PATH | O_CLOEXEC);
	if (in.fd < 0 || fstat(in.fd, &in.st) < 0)
		r = failure_errno(why, -errno, "--in: %s", shown);
	else if (!S_ISREG(in.st.st_mode) && !S_ISDIR(in.st.st_mode))
		r = failure_set(why, -EINVAL, "--in: %s: neither a file nor a folder", shown);
	else if (faccessat(in.fd, "", R_OK, AT_EMPTY_PATH | AT_EACCESS) < 0)
		r = failure_errno(why, -errno, "--in: %s", shown);
	if (r < 0) {
		input_fini(&in);
		return r;
	}
	*ret = in;
	return 0;
}

void input_fini(struct input *in)
{
	free(in->source);
	in->source = NULL;
	fd_close(&in->fd);
}

/* @map: a user namespace whose map the mount gets, or -1. @recursive: AT_RECURSIVE or 0. */
static int open_input(int fd, int map, unsigned recursive)
{
	auto_fd tree =
		open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive | AT_EMPTY_PATH);
	if (tree < 0)
		return -errno;
	struct mount_attr attr = {.attr_set = READ_ONLY};
	if (map >= 0) {
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (unsigned long long)map;
	}
	if (mount_setattr(tree, "", AT_EMPTY_PATH | recursive, &attr, sizeof(attr)) < 0)
		return -errno;
	return fd_take(&tree);
}

/*
 * The folder that holds the file, which an overlay needs, and the file's name there. @return a descriptor, or negative
 * errno where nobody can tell, or the folder can't be mounted alone: then the file is shown without an overlay.
 */
static int open_parent(const struct input *in, int map, char ret_name[static NAME_MAX + 1])
{
	char self[64], path[PATH_MAX];
	struct stat st;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", in->fd);
	ssize_t len = readlink(self, path, sizeof(path) - 1);
	if (len <= 0)
		return len < 0 ? -errno : -ENOENT;
	path[len] = '\0';
	char *slash = strrchr(path, '/');
	if (slash == NULL || slice_copy(slice_of(slash + 1), ret_name, NAME_MAX + 1) < 0)
		return -ENOENT;
	slash[slash == path ? 1 : 0] = '\0';
	auto_fd folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || fstatat(folder, ret_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (st.st_dev != in->st.st_dev || st.st_ino != in->st.st_ino)
		return -ESTALE;
	return open_input(folder, map, 0);
}

static int add_mounted(const struct input *in, const char *path, int map, struct view *view)
{
	char name[NAME_MAX + 1] = "";
	auto_fd tree = open_input(in->fd, map, AT_RECURSIVE);
	if (tree < 0)
		return tree;
	if (S_ISDIR(in->st.st_mode)) {
		int r = view_add_input(view, path, tree);
		if (r == 0)
			(void)fd_take(&tree);
		return r;
	}
	auto_fd layer = open_parent(in, map, name);
	int r = view_add_input_file(view, path, tree, layer, name);
	if (r == 0) {
		(void)fd_take(&tree);
		(void)fd_take(&layer);
	}
	return r;
}

/* The file system can't map owners, or the owner itself may not read: a copy, which the sandbox owns but can't write. */
static int copy_in(const struct input *in, const char *path, struct view *view)
{
	char self[64];
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", in->fd);
	struct buf text;
	buf_init(&text, 2 * INPUT_COPY_MAX);
	int r = file_read(AT_FDCWD, self, INPUT_COPY_MAX, &text);
	if (r == 0)
		r = view_add_text(view, path, buf_slice(&text));
	buf_fini(&text);
	return r;
}

/* Root: the owner becomes the sandbox's user; where that can't be, a copy, or a folder as anybody would see it. */
static int show_as_root(
	const struct input *in, const char *path, const struct input_user *user, struct view *view)
{
	int r = -EINVAL;
	if ((in->st.st_mode & S_IRUSR) != 0) {
		auto_fd map = userns_for_idmap(in->st.st_uid, user->uid, in->st.st_gid, user->gid);
		r = map < 0 ? map : add_mounted(in, path, map, view);
	}
	if (r == 0)
		return 0;
	return S_ISDIR(in->st.st_mode) ? add_mounted(in, path, -1, view) : copy_in(in, path, view);
}

int input_show(const struct input *in, const struct input_user *user, struct view *view,
	struct failure *why)
{
	char path[VIEW_PATH_BYTES], shown[256];
	(void)snprintf(path, sizeof(path), "work/%s", in->name);
	int r = user->root ? show_as_root(in, path, user, view) : add_mounted(in, path, -1, view);
	return r < 0 ? failure_errno(why, r, "--in: %s can't be shown",
			       slice_escape(slice_of(in->source), shown, sizeof(shown)))
		     : 0;
}
