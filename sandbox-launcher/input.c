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
#define WRITABLE       (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define READ_ONLY      (MOUNT_ATTR_RDONLY | WRITABLE)

/* Takes what is in @in, which names its source. */
static int open_source(struct input *in, struct input *ret, struct failure *why)
{
	char shown[256];
	const char *option = in->name[0] == '/' ? "bind" : "in";
	int r = 0, mode = in->writable ? R_OK | W_OK : R_OK;
	(void)slice_escape(slice_of(in->source), shown, sizeof(shown));
	in->fd = open(in->source, O_PATH | O_CLOEXEC);
	if (in->fd < 0 || fstat(in->fd, &in->st) < 0)
		r = failure_errno(why, -errno, "--%s: %s", option, shown);
	else if (!S_ISREG(in->st.st_mode) && !S_ISDIR(in->st.st_mode))
		r = failure_set(
			why, -EINVAL, "--%s: %s: neither a file nor a folder", option, shown);
	else if (faccessat(in->fd, "", mode, AT_EMPTY_PATH | AT_EACCESS) < 0)
		r = failure_errno(why, -errno, "--%s: %s", option, shown);
	if (r < 0) {
		input_fini(in);
		return r;
	}
	*ret = *in;
	return 0;
}

int input_open(const char *text, struct input *ret, struct failure *why)
{
	struct input in = {.fd = -1};
	int r = spec_input(text, &in.source, in.name, why);
	return r < 0 ? r : open_source(&in, ret, why);
}

int input_open_bind(const char *text, struct input *ret, struct failure *why)
{
	struct input in = {.fd = -1};
	struct spec_bind bind;
	int r = spec_bind(text, &bind, why);
	if (r < 0)
		return r;
	in.source = bind.source;
	in.writable = bind.writable;
	memcpy(in.name, bind.path, sizeof(in.name));
	return open_source(&in, ret, why);
}

void input_fini(struct input *in)
{
	free(in->source);
	in->source = NULL;
	fd_close(&in->fd);
}

/* @map: a user namespace whose map the mount gets, or -1. @recursive: AT_RECURSIVE or 0. */
static int open_input(int fd, int map, unsigned recursive, uint64_t flags)
{
	auto_fd tree =
		open_tree(fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recursive | AT_EMPTY_PATH);
	if (tree < 0)
		return -errno;
	struct mount_attr attr = {.attr_set = flags};
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
	return open_input(folder, map, 0, READ_ONLY);
}

static int add_mounted(const struct input *in, const char *path, int map, struct view *view)
{
	char name[NAME_MAX + 1] = "";
	auto_fd tree = open_input(in->fd, map, AT_RECURSIVE, READ_ONLY);
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
		r = view_add_copy(view, path, buf_slice(&text));
	buf_fini(&text);
	return r;
}

/* To be written to: the same, or not at all. What the sandbox makes belongs to the owner of what is bound. */
static int show_writable(
	const struct input *in, const char *path, const struct input_user *user, struct view *view)
{
	auto_fd map = user->root
		? userns_for_idmap(in->st.st_uid, user->uid, in->st.st_gid, user->gid)
		: -1;
	if (user->root && map < 0)
		return map;
	auto_fd tree = open_input(in->fd, map, AT_RECURSIVE, WRITABLE);
	int r = tree < 0 ? tree : view_add_bind(view, path, tree, S_ISDIR(in->st.st_mode));
	if (r == 0)
		(void)fd_take(&tree);
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
	bool bind = in->name[0] == '/';
	(void)snprintf(path, sizeof(path), "%s%s", bind ? "" : "work/", in->name + bind);
	int r = in->writable ? show_writable(in, path, user, view)
		: user->root ? show_as_root(in, path, user, view)
			     : add_mounted(in, path, -1, view);
	return r < 0 ? failure_errno(why, r, "--%s: %s can't be shown", bind ? "bind" : "in",
			       slice_escape(slice_of(in->source), shown, sizeof(shown)))
		     : 0;
}
