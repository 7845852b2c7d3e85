/* See input.h. */
#include "sandbox-launcher/input.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "sandbox-launcher/userns.h"

#include <fcntl.h>
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

static int mapped_tree(const struct input *in, uid_t uid, gid_t gid)
{
	auto_fd ns = userns_for_idmap(in->st.st_uid, uid, in->st.st_gid, gid);
	if (ns < 0)
		return ns;
	auto_fd tree = open_tree(
		in->fd, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
	if (tree < 0)
		return -errno;
	struct mount_attr attr = {
		.attr_set = READ_ONLY | MOUNT_ATTR_IDMAP,
		.userns_fd = (unsigned long long)ns,
	};
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return -errno;
	return fd_take(&tree);
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

int input_show(const struct input *in, bool root, uid_t uid, gid_t gid, struct view *view,
	struct failure *why)
{
	char path[VIEW_PATH_BYTES];
	(void)snprintf(path, sizeof(path), "work/%s", in->name);
	bool folder = S_ISDIR(in->st.st_mode);
	bool owner_reads = (in->st.st_mode & S_IRUSR) != 0;
	auto_fd tree = -1;
	if (!root)
		tree = view_open_tree(in->fd, "", READ_ONLY);
	else if (owner_reads)
		tree = mapped_tree(in, uid, gid);
	else
		tree = -EINVAL;
	int r = tree;
	if (tree < 0 && root && !folder)
		r = copy_in(in, path, view);
	else if (tree < 0 && root) /* a folder can't be copied cheaply: as anybody would see it */
		r = tree = view_open_tree(in->fd, "", READ_ONLY);
	if (tree >= 0) {
		r = view_add_tree(view, path, tree, folder);
		if (r == 0)
			(void)fd_take(&tree);
	}
	char shown[256];
	return r < 0 ? failure_errno(why, r, "--in: %s can't be shown",
			       slice_escape(slice_of(in->source), shown, sizeof(shown)))
		     : 0;
}
