/* See collect.h. */
#include "sandbox-launcher/collect.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "ipc/fault.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define COPY_CHUNK 65536

/* A walk in progress. */
struct walk {
	const struct collect_options *options;
	struct collected *to;
	unsigned temporary; /* number of the next temporary name */
	int depth;
	char path[COLLECT_PATH_MAX]; /* of what is looked at now, relative */
};

static int open_beneath(int folder, const char *name, uint64_t flags)
{
	struct open_how how = {
		.flags = flags | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			RESOLVE_NO_XDEV,
	};
	long fd = syscall(SYS_openat2, folder, name, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

/* The caller's side may lie on several file systems, but no link of it is followed either. */
static int open_target_folder(int parent, const char *name)
{
	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, parent, name, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

int collect_check(const char *dir, struct collect_target *ret, struct failure *why)
{
	char shown[256], path[PATH_MAX];
	(void)slice_escape(slice_of(dir), shown, sizeof(shown));
	struct slice text = slice_of(dir);
	while (text.len > 1 && text.ptr[text.len - 1] == '/')
		text.len--;
	if (text.len == 0 || slice_copy(text, path, sizeof(path)) < 0)
		return failure_set(why, -EINVAL, "--out: %s: not a folder name", shown);
	auto_fd folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (folder >= 0) {
		if (faccessat(folder, ".", W_OK | X_OK, AT_EACCESS) < 0)
			return failure_errno(why, -errno, "--out: %s", shown);
		*ret = (struct collect_target){.folder = fd_take(&folder), .parent = -1};
		return 0;
	}
	struct stat st;
	if (errno != ENOENT ||
		lstat(path, &st) == 0) /* there, but not a folder, or a dangling link */
		return failure_errno(why, errno == ENOENT ? -ENOENT : -ENOTDIR, "--out: %s", shown);
	char *slash = strrchr(path, '/');
	const char *name = slash == NULL ? path : slash + 1;
	auto_fd parent = open(slash == NULL ? "."
			: slash == path     ? "/"
					    : (*slash = '\0', path),
		O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (parent < 0 || faccessat(parent, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return failure_errno(why, -errno, "--out: %s can't be made", shown);
	if (strcmp(name, "..") == 0 || strcmp(name, ".") == 0)
		return failure_set(why, -EINVAL, "--out: %s: not a folder name", shown);
	char *copy = strdup(name);
	if (copy == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	*ret = (struct collect_target){.folder = -1, .parent = fd_take(&parent), .name = copy};
	return 0;
}

void collect_target_fini(struct collect_target *t)
{
	fd_close(&t->folder);
	fd_close(&t->parent);
	free(t->name);
	t->name = NULL;
}

void collected_fini(struct collected *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->items[i].path);
	free(c->items);
	buf_fini(&c->skipped);
	*c = (struct collected){0};
}

static void skip(struct walk *w, bool failed, const char *reason)
{
	char shown[512];
	if (buf_len(&w->to->skipped) >= 65536)
		w->to->untold++;
	else
		(void)buf_printf(&w->to->skipped, "%s: %s\n",
			slice_escape(slice_of(w->path), shown, sizeof(shown)), reason);
	w->to->failed += failed ? 1 : 0;
}

static int artifact_add(struct walk *w, uint64_t size, const char *sha256)
{
	struct collected *c = w->to;
	struct artifact *grown = realloc(c->items, (c->count + 1) * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	c->items = grown;
	struct artifact *a = &grown[c->count];
	*a = (struct artifact){
		.path = strdup(w->path), .size = size, .media_type = collect_media_type(w->path)};
	if (a->path == NULL)
		return -ENOMEM;
	memcpy(a->sha256, sha256, sizeof(a->sha256));
	c->count++;
	c->bytes += size;
	c->name_bytes += strlen(w->path);
	return 0;
}

/* Exactly @size bytes: nobody writes any more, and what is not as it was looked at is refused. */
static int copy_hashed(int from, int to, uint64_t size, char ret_sha256[static DIGEST_TEXT_BYTES])
{
	char chunk[COPY_CHUNK];
	uint64_t left = size;
	struct digest *digest = digest_new();
	int r = digest == NULL ? -ENOMEM : 0;
	while (r == 0) {
		ssize_t got = read(from, chunk, sizeof(chunk));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			r = got < 0 ? -errno : left > 0 ? -EIO : 0;
			break;
		}
		if ((uint64_t)got > left) {
			r = -EFBIG;
			break;
		}
		left -= (uint64_t)got;
		r = digest_update(digest, (struct slice){chunk, (size_t)got});
		if (r == 0)
			r = file_write_all(to, (struct slice){chunk, (size_t)got});
	}
	if (r == 0)
		r = digest_finish(digest, ret_sha256);
	digest_free(digest);
	return r;
}

#define TEMPORARY_BYTES 64

/*
 * A file without a name, of which nothing stays when we are killed; where the file system has none such, one with a name of its
 * own, which then is in @temporary. @return descriptor or negative errno.
 */
static int open_result(
	struct walk *w, int target, mode_t mode, char temporary[static TEMPORARY_BYTES])
{
	temporary[0] = '\0';
	int fd = openat(target, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd < 0 ? -errno : fd;
	(void)snprintf(temporary, TEMPORARY_BYTES, ".eclusa-%s-%u", w->options->id, w->temporary++);
	fd = openat(target, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

/* linkat() by descriptor alone needs a capability on most kernels. */
static int name_result(int fd, int target, const char *name)
{
	char own[32];
	(void)snprintf(own, sizeof(own), "/proc/self/fd/%d", fd); /* fits */
	return linkat(AT_FDCWD, own, target, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int move_in(const struct walk *w, int target, const char *temporary, const char *name)
{
	if (w->options->overwrite) {
		struct stat st;
		if (fstatat(target, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
			return -EISDIR;
		return renameat(target, temporary, target, name) < 0 ? -errno : 0;
	}
	return renameat2(target, temporary, target, name, RENAME_NOREPLACE) < 0 ? -errno : 0;
}

/* A whole result gets its name. What is to be replaced needs a second name for a moment: link(2) replaces nothing. */
static int put_in_place(struct walk *w, int fd, int target, const char *name,
	char temporary[static TEMPORARY_BYTES])
{
	int r = temporary[0] == '\0' ? name_result(fd, target, name) : -EEXIST;
	if (r != -EEXIST || (temporary[0] == '\0' && !w->options->overwrite))
		return r;
	if (temporary[0] == '\0') {
		(void)snprintf(temporary, TEMPORARY_BYTES, ".eclusa-%s-%u", w->options->id,
			w->temporary++);
		r = name_result(fd, target, temporary);
		if (r < 0) {
			temporary[0] = '\0';
			return r;
		}
	}
	return move_in(w, target, temporary, name);
}

static int deliver(struct walk *w, int from, int target, const char *name, const struct stat *st)
{
	char temporary[TEMPORARY_BYTES], sha256[DIGEST_TEXT_BYTES];
	mode_t mode = (st->st_mode & S_IXUSR) != 0 ? 0755 : 0644;
	auto_fd to = open_result(w, target, mode, temporary);
	if (to < 0)
		return to;
	int r = copy_hashed(from, to, (uint64_t)st->st_size, sha256);
	fault_point("launch-delivering");
	if (r == 0)
		r = put_in_place(w, to, target, name, temporary);
	if (r == 0)
		return artifact_add(w, (uint64_t)st->st_size, sha256);
	if (temporary[0] != '\0')
		(void)unlinkat(
			target, temporary, 0); /* the failure that led here is what is told */
	return r;
}

static void take_file(struct walk *w, int folder, int target, const char *name)
{
	struct stat st;
	auto_fd from = open_beneath(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode)) {
		skip(w, true, "can't be opened");
		return;
	}
	if (st.st_nlink != 1)
		skip(w, false, "skipped: more than one hard link");
	else if ((uint64_t)st.st_size > w->options->file_bytes)
		skip(w, true, "exceeds --out-file-limit");
	else if ((uint64_t)st.st_size > w->options->limit_bytes - w->to->bytes)
		skip(w, true, "results exceed --out-limit");
	else if (w->to->count >= w->options->files)
		skip(w, true, "too many results: --out-files");
	else if (strlen(w->path) > COLLECT_NAMES_MAX - w->to->name_bytes)
		skip(w, true, "names of the results are too long together");
	else {
		int r = deliver(w, from, target, name, &st);
		if (r == -EEXIST)
			skip(w, true, "exists in the target folder: --overwrite replaces it");
		else if (r < 0)
			skip(w, true, strerror(-r));
	}
}

static int walk_folder(struct walk *w, int folder, int target);

static void enter_folder(struct walk *w, int folder, int target, const char *name)
{
	auto_fd from = open_beneath(folder, name, O_RDONLY | O_DIRECTORY);
	auto_fd to = from < 0 ? from : open_target_folder(target, name);
	if (from < 0 || to < 0) {
		skip(w, true, "folder can't be opened or made");
		return;
	}
	if (w->depth >= COLLECT_DEPTH_MAX) {
		skip(w, true, "folders are nested too deeply");
		return;
	}
	w->depth++;
	if (walk_folder(w, from, to) < 0)
		skip(w, true, "folder can't be read");
	w->depth--;
}

static void take_entry(struct walk *w, int folder, int target, const char *name)
{
	struct stat st;
	auto_fd entry = open_beneath(folder, name, O_PATH);
	if (entry >= 0 && fstat(entry, &st) < 0)
		fd_close(&entry);
	if (entry < 0)
		skip(w, false, "skipped: a link"); /* what O_PATH with NO_SYMLINKS refuses */
	else if (S_ISREG(st.st_mode))
		take_file(w, folder, target, name);
	else if (S_ISDIR(st.st_mode))
		enter_folder(w, folder, target, name);
	else
		skip(w, false, "skipped: not a regular file");
}

static int walk_folder(struct walk *w, int folder, int target)
{
	/* O_PATH descriptors can't be read */
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (dir == NULL) {
		int r = -errno;
		fd_close(&fd);
		return r;
	}
	const struct dirent *entry;
	size_t len = strlen(w->path);
	while ((entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		int used = snprintf(w->path + len, sizeof(w->path) - len, "%s%s",
			len > 0 ? "/" : "", entry->d_name);
		if (used > 0 && (size_t)used < sizeof(w->path) - len)
			take_entry(w, folder, target, entry->d_name);
		else
			skip(w, true, "path is too long");
		w->path[len] = '\0';
	}
	(void)closedir(dir); /* only read from */
	return 0;
}

int collect_run(const struct collect_options *options, struct collect_target *target,
	struct collected *ret, struct failure *why)
{
	if (target->folder < 0) {
		target->folder = open_target_folder(target->parent, target->name);
		if (target->folder < 0) {
			int r = target->folder;
			target->folder = -1;
			return failure_errno(why, r, "--out: the folder can't be made");
		}
	}
	struct walk *w = calloc(1, sizeof(*w));
	if (w == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	w->options = options;
	w->to = ret;
	buf_init(&ret->skipped, 1 << 20);
	int r = walk_folder(w, options->out, target->folder);
	free(w);
	return r < 0 ? failure_errno(why, r, "results can't be read") : 0;
}

const char *collect_media_type(const char *path)
{
	static const char *const types[][2] = {{"json", "application/json"}, {"csv", "text/csv"},
		{"txt", "text/plain"}, {"md", "text/markdown"}, {"html", "text/html"},
		{"png", "image/png"}, {"jpg", "image/jpeg"}, {"jpeg", "image/jpeg"},
		{"gif", "image/gif"}, {"svg", "image/svg+xml"}, {"webp", "image/webp"},
		{"pdf", "application/pdf"}, {"xml", "application/xml"}, {"zip", "application/zip"},
		{"gz", "application/gzip"}, {"tar", "application/x-tar"}, {"py", "text/x-python"},
		{"js", "text/javascript"}, {"css", "text/css"},
		{"tsv", "text/tab-separated-values"}, {"log", "text/plain"},
		{"parquet", "application/vnd.apache.parquet"},
		{"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"}};
	const char *slash = strrchr(path, '/');
	const char *dot = strrchr(slash == NULL ? path : slash, '.');
	for (size_t i = 0; dot != NULL && i < array_size(types); i++)
		if (slice_equal_nocase(slice_of(dot + 1), slice_of(types[i][0])))
			return types[i][1];
	return "application/octet-stream";
}
