/* See watch.h. The kernel merges watches of one folder, so nothing is remembered here. */
#include "proxy/watch.h"

#include "common/cleanup.h"
#include "policy/bundle.h"

#include <limits.h>
#include <sys/inotify.h>
#include <sys/stat.h>

/* A file's new bytes are there when its writer closes it. ATTRIB: it may be readable now. */
#define WATCH_EVENTS                                                                               \
	(IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE | IN_ATTRIB |        \
		IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR)

int watch_open(struct watch *ret, struct failure *why)
{
	ret->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	return ret->fd < 0 ? failure_errno(why, -errno, "--watch") : 0;
}

void watch_close(struct watch *w)
{
	fd_close(&w->fd);
}

static int add_folder(struct watch *w, const char *folder)
{
	if (inotify_add_watch(w->fd, folder, WATCH_EVENTS) >= 0)
		return 0;
	return errno == ENOSPC || errno == ENOMEM
		? -errno
		: 0; /* else it is not there: when it is, its parent tells */
}

/** The folder that a path's last part is in. */
static int add_parent(struct watch *w, const char *path)
{
	char folder[PATH_MAX];
	const char *slash = strrchr(path, '/');
	size_t len = slash == NULL ? 0 : (size_t)(slash - path);
	if (len >= sizeof(folder))
		return -ENAMETOOLONG;
	if (slash == NULL)
		return add_folder(w, ".");
	memcpy(folder, path, len);
	folder[len] = '\0';
	return add_folder(w, len == 0 ? "/" : folder);
}

/** A path and, where it is or goes through a link, what is meant. */
static int add_path(struct watch *w, const char *path)
{
	char meant[PATH_MAX];
	struct stat st;
	int r = add_parent(w, path);
	if (r == 0 && realpath(path, meant) != NULL)
		r = add_parent(w, meant);
	if (r == 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		r = add_folder(w, path);
	return r;
}

int watch_add(struct watch *w, const char *path, struct slice bundle)
{
	struct bundle_text text;
	struct slice rest;
	int r = w->fd < 0 ? 0 : add_path(w, path);
	if (w->fd < 0 || r < 0 || bundle_start(bundle, &rest) < 0)
		return r;
	while (r == 0 && bundle_next(&rest, &text) == 1) {
		char name[BUNDLE_NAME_BYTES_MAX + 1];
		if (slice_copy(text.name, name, sizeof(name)) == 0)
			r = add_path(w, name);
	}
	return r;
}

bool watch_drain(struct watch *w)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool any = false;
	while (read(w->fd, events, sizeof(events)) > 0)
		any = true;
	return any;
}
