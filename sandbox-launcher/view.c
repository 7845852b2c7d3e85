/* See view.h. */
#include "sandbox-launcher/view.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "sandbox-launcher/overlay.h"
#include "sandbox-launcher/userns.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

void view_init(struct view *v)
{
	*v = (struct view){.rootfs = -1};
}

void view_fini(struct view *v)
{
	for (size_t i = 0; i < v->count; i++) {
		fd_close(&v->items[i].tree);
		fd_close(&v->items[i].layer);
		free((char *)(uintptr_t)v->items[i].text.ptr);
	}
	free(v->items);
	fd_close(&v->rootfs);
	view_init(v);
}

static struct view_item *view_next(struct view *v, enum view_kind kind, const char *path)
{
	if (v->count % 64 == 0) {
		if (v->count >= VIEW_ITEMS_MAX)
			return NULL;
		struct view_item *grown = realloc(v->items, (v->count + 64) * sizeof(*grown));
		if (grown == NULL)
			return NULL;
		v->items = grown;
	}
	struct view_item *item = &v->items[v->count];
	*item = (struct view_item){.kind = kind, .tree = -1, .layer = -1};
	if (slice_copy(slice_of(path), item->path, sizeof(item->path)) < 0)
		return NULL;
	v->count++;
	return item;
}

static int view_add(struct view *v, enum view_kind kind, const char *path, struct slice text)
{
	char *copy = slice_dup(text);
	struct view_item *item = copy == NULL ? NULL : view_next(v, kind, path);
	if (item == NULL) {
		free(copy);
		return -ENOMEM;
	}
	item->text = (struct slice){copy, text.len};
	v->text_bytes += text.len;
	return 0;
}

int view_add_text(struct view *v, const char *path, struct slice text)
{
	return view_add(v, VIEW_TEXT, path, text);
}

int view_add_folder(struct view *v, const char *path)
{
	return view_add(v, VIEW_FOLDER, path, SLICE(""));
}

int view_add_alias(struct view *v, const char *path, const char *of)
{
	return view_add(v, VIEW_ALIAS, path, slice_of(of));
}

int view_add_own(struct view *v, const char *path, struct slice text)
{
	return view_add(v, VIEW_OWN, path, text);
}

int view_add_proc(struct view *v, const char *path, struct slice text)
{
	return view_add(v, VIEW_PROC, path, text);
}

int view_add_copy(struct view *v, const char *path, struct slice text)
{
	return view_add(v, VIEW_COPY, path, text);
}

int view_add_tmpfs(struct view *v, const char *path, uint64_t bytes)
{
	struct view_item *item = view_next(v, VIEW_TMPFS, path);
	if (item == NULL)
		return -ENOMEM;
	item->bytes = bytes;
	return 0;
}

int view_add_bind(struct view *v, const char *path, int tree, bool folder)
{
	struct view_item *item = view_next(v, folder ? VIEW_BIND : VIEW_BIND_FILE, path);
	if (item == NULL)
		return -ENOMEM;
	item->tree = tree;
	return 0;
}

bool view_is_folder(const struct view_item *item)
{
	return item->kind == VIEW_FOLDER || item->kind == VIEW_TREE || item->kind == VIEW_INPUT ||
		item->kind == VIEW_BIND || item->kind == VIEW_TMPFS;
}

int view_add_tree(struct view *v, const char *path, int tree, bool folder)
{
	struct view_item *item = view_next(v, folder ? VIEW_TREE : VIEW_TREE_FILE, path);
	if (item == NULL)
		return -ENOMEM;
	item->tree = tree;
	return 0;
}

int view_add_input(struct view *v, const char *path, int tree)
{
	struct view_item *item = view_next(v, VIEW_INPUT, path);
	if (item == NULL)
		return -ENOMEM;
	item->tree = tree;
	return 0;
}

int view_add_input_file(struct view *v, const char *path, int tree, int layer, const char *name)
{
	int r = view_add(v, VIEW_INPUT_FILE, path, slice_of(name));
	if (r < 0)
		return r;
	v->items[v->count - 1].tree = tree;
	v->items[v->count - 1].layer = layer;
	return 0;
}

int view_open_tree(int fd, const char *path, uint64_t attributes)
{
	unsigned empty = path[0] == '\0' ? AT_EMPTY_PATH : 0;
	auto_fd tree =
		open_tree(fd, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | empty);
	if (tree < 0)
		return -errno;
	struct mount_attr attr = {.attr_set = attributes};
	if (mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return -errno;
	return fd_take(&tree);
}

static int set_number(int fs, const char *key, const char *format, uint64_t value)
{
	char text[32];
	(void)snprintf(
		text, sizeof(text), format[0] == 'o' ? "%llo" : "%llu", (unsigned long long)value);
	return fsconfig(fs, FSCONFIG_SET_STRING, key, text, 0) < 0 ? -errno : 0;
}

int view_tmpfs(uint64_t bytes, uint64_t inodes, mode_t mode, uid_t uid, gid_t gid)
{
	auto_fd fs = fsopen("tmpfs", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -errno;
	int r = set_number(fs, "size", "u", bytes);
	if (r == 0)
		r = set_number(fs, "nr_inodes", "u", inodes);
	if (r == 0)
		r = set_number(fs, "mode", "o", mode);
	if (r == 0)
		r = set_number(fs, "uid", "u", uid);
	if (r == 0)
		r = set_number(fs, "gid", "u", gid);
	if (r == 0 && fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		r = -errno;
	if (r < 0)
		return r;
	int mount = fsmount(fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	return mount < 0 ? -errno : mount;
}

/* Of a file that is not even a page, a copy costs less than a mount. */
#define CUT_BYTES 4096

static bool needs_no_tree(const char *path, const struct stat *st)
{
	bool folder = S_ISDIR(st->st_mode);
	return (folder || st->st_size > CUT_BYTES) && overlay_needs_no_tree(path, folder);
}

/*
 * A public file or folder of the host as it is: links as links, folders and what is in /etc by overlays, other small files as copies,
 * the rest as read-only mounts.
 */
static int add_host(struct view *v, const char *path)
{
	struct stat st;
	char target[PATH_MAX];
	if (fstatat(AT_FDCWD, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno; /* not on this distribution */
	if (S_ISLNK(st.st_mode)) {
		ssize_t len = readlink(path, target, sizeof(target));
		return len < 0
			? -errno
			: view_add(v, VIEW_LINK, path + 1, (struct slice){target, (size_t)len});
	}
	if ((st.st_mode & 04) == 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		return 0; /* not public: not shown */
	if (needs_no_tree(path, &st))
		return view_add_tree(v, path + 1, -1, S_ISDIR(st.st_mode));
	if (S_ISREG(st.st_mode) && (size_t)st.st_size <= VIEW_COPY_MAX) {
		struct buf text;
		buf_init(&text, 4 * VIEW_COPY_MAX);
		int r = file_read(AT_FDCWD, path, VIEW_COPY_MAX, &text);
		if (r == 0)
			r = view_add_text(v, path + 1, buf_slice(&text));
		buf_fini(&text);
		return r;
	}
	auto_fd tree = view_open_tree(AT_FDCWD, path, READ_ONLY);
	int r = tree < 0 ? tree : view_add_tree(v, path + 1, tree, S_ISDIR(st.st_mode));
	if (r == 0)
		(void)fd_take(&tree);
	return r;
}

/* Parents first. What dynamic linking, name services, TLS, time zones, fonts and interpreters read; nothing with secrets. */
static const char *const HOST_PATHS[] = {
	"/usr",
	"/bin",
	"/sbin",
	"/lib",
	"/lib32",
	"/lib64",
	"/libx32",
	"/etc/ld.so.cache",
	"/etc/alternatives",
	"/etc/ssl/certs",
	"/etc/ssl/openssl.cnf",
	"/etc/pki/tls/certs",
	"/etc/localtime",
	"/etc/timezone",
	"/etc/os-release",
	"/etc/mime.types",
	"/etc/protocols",
	"/etc/services",
	"/etc/fonts",
	"/etc/chromium.d",
	"/etc/matplotlibrc",
	"/etc/java-17-openjdk",
	"/etc/java-21-openjdk",
	"/etc/php",
	"/etc/R",
};

static const char *const FOLDERS[] = {
	"etc",
	"etc/ssl",
	"etc/pki",
	"etc/pki/tls",
	"dev",
	"dev/shm",
	"proc",
	"tmp",
	"work",
	"out",
	"home",
	"home/sandbox",
	"run",
	"var",
};

static const struct {
	const char *path, *text;
} TEXTS[] = {
	{"etc/passwd",
		"root:x:0:0:root:/root:/usr/sbin/nologin\n"
		"sandbox:x:1000:1000:sandbox:" VIEW_HOME ":/bin/sh\n"
		"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
	{"etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
	{"etc/hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"},
	{"etc/hostname", "sandbox\n"},
	{"etc/nsswitch.conf",
		"passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
		"networks: files\nprotocols: files\nservices: files\n"},
	{"etc/host.conf", "multi on\n"},
};

static const struct {
	const char *path, *target;
} LINKS[] = {
	{"dev/fd", "/proc/self/fd"},
	{"dev/stdin", "/proc/self/fd/0"},
	{"dev/stdout", "/proc/self/fd/1"},
	{"dev/stderr", "/proc/self/fd/2"},
	{"etc/mtab", "/proc/self/mounts"},
	{"var/tmp", "/tmp"},
	{"var/run", "/run"},
};

static const struct {
	const char *path;
	unsigned minor;
} DEVICES[] = {
	{"dev/null", 3},
	{"dev/zero", 5},
	{"dev/full", 7},
	{"dev/random", 8},
	{"dev/urandom", 9},
};

#define MEMORY_DEVICES 1 /* the major number of all of them */

static int add_devices(struct view *v)
{
	for (size_t i = 0; i < array_size(DEVICES); i++) {
		struct view_item *item = view_next(v, VIEW_DEVICE, DEVICES[i].path);
		if (item == NULL)
			return -ENOMEM;
		item->device = makedev(MEMORY_DEVICES, DEVICES[i].minor);
	}
	return 0;
}

static int add_own(struct view *v, const char *const *folders, size_t count, bool whole)
{
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		r = view_add(v, VIEW_FOLDER, folders[i], SLICE(""));
	for (size_t i = 0; i < array_size(TEXTS) && r == 0; i++)
		r = view_add_text(v, TEXTS[i].path, slice_of(TEXTS[i].text));
	for (size_t i = 0; i < array_size(LINKS) && r == 0; i++)
		if (whole || slice_starts(slice_of(LINKS[i].path), SLICE("dev/")))
			r = view_add(v, VIEW_LINK, LINKS[i].path, slice_of(LINKS[i].target));
	return r;
}

int view_add_rootfs(struct view *v, struct failure *why)
{
	static const char *const folders[] = {
		"dev", "dev/shm", "etc", "proc", "tmp", "work", "out", "home", "home/sandbox"};
	int r = add_own(v, folders, array_size(folders), false);
	if (r == 0)
		r = add_devices(v);
	return r < 0 ? failure_errno(why, r, "can't prepare the files of the sandbox") : 0;
}

int view_add_host(struct view *v, struct failure *why)
{
	int r = add_own(v, FOLDERS, array_size(FOLDERS), true);
	if (r == 0)
		r = add_devices(v);
	if (r < 0)
		return failure_errno(why, r, "can't prepare the files of the sandbox");
	for (size_t i = 0; i < array_size(HOST_PATHS); i++) {
		r = add_host(v, HOST_PATHS[i]);
		if (r < 0)
			return failure_errno(why, r, "can't show %s to the sandbox", HOST_PATHS[i]);
	}
	return 0;
}

int view_add_resolver(struct view *v, const struct address *server, struct failure *why)
{
	char text[96] = "", address[ADDRESS_TEXT_BYTES];
	/* No suffix is tried, since there is no domain: one name, one question. */
	if (server != NULL)
		(void)snprintf(text, sizeof(text), "nameserver %s\noptions ndots:1\n",
			address_format(server, address)); /* fits */
	int r = view_add_text(v, "etc/resolv.conf", slice_of(text));
	return r < 0 ? failure_errno(why, r, "can't prepare the files of the sandbox") : 0;
}
