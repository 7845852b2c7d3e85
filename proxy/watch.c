/* See watch.h. The kernel gives one number to one folder, however often and by whatever path it is watched. */
#include "proxy/watch.h"

#include "common/cleanup.h"
#include "policy/bundle.h"
#include "policy/lexer.h"

#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

/* Another thing by a name that leads on. */
#define WAY_EVENTS (IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CREATE | IN_ONLYDIR)
/* Also a file's new bytes, which are there when its writer closes it. ATTRIB: it may be readable now. */
#define FOLDER_EVENTS (WAY_EVENTS | IN_CLOSE_WRITE | IN_ATTRIB)

/** A path on its way through links: what was walked has none, what is left may. */
struct way {
	char walked[PATH_MAX], left[PATH_MAX];
	unsigned links;
};

int watch_open(struct watch *ret, struct failure *why)
{
	ret->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	return ret->fd < 0 ? failure_errno(why, -errno, "--watch") : 0;
}

void watch_close(struct watch *w)
{
	fd_close(&w->fd);
}

static bool is_of(const struct watch_name *n, int folder, const char *name)
{
	return n->folder == folder && strcmp(n->name, name) == 0;
}

static bool is_watched(const struct watch *w, int folder)
{
	for (size_t i = 0; i < w->count; i++) {
		if (w->names[i].folder == folder)
			return true;
	}
	return false;
}

static void let_go(struct watch *w)
{
	size_t at = 0;
	while (at < w->count) {
		int folder = w->names[at].folder;
		if (w->names[at].wanted) {
			at++;
			continue;
		}
		w->names[at] = w->names[--w->count];
		if (!is_watched(w, folder))
			(void)inotify_rm_watch(w->fd, folder); /* it may be gone already */
	}
}

/** @return 1: it is new; 0: it is known, or is one too many. */
static int remember(struct watch *w, int folder, const char *name)
{
	for (size_t i = 0; i < w->count; i++) {
		if (is_of(&w->names[i], folder, name)) {
			w->names[i].wanted = true;
			return 0;
		}
	}
	if (w->count == WATCH_NAMES_MAX)
		let_go(w);
	if (w->count == WATCH_NAMES_MAX) {
		w->any = true;
		return 0;
	}
	struct watch_name *n = &w->names[w->count++];
	n->folder = folder;
	n->wanted = true;
	(void)snprintf(n->name, sizeof(n->name), "%s", name); /* the kernel has no longer ones */
	return 1;
}

/** @name "": all that happens in the folder. One that is not there is none: what leads to it is watched, too. */
static int add_folder(struct watch *w, const char *folder, const char *name)
{
	uint32_t events = name[0] == '\0' ? FOLDER_EVENTS : WAY_EVENTS;
	int number = inotify_add_watch(w->fd, folder, events | IN_MASK_ADD);
	if (number >= 0)
		return remember(w, number, name);
	return errno == ENOSPC || errno == ENOMEM ? -errno : 0;
}

/** Take the next part off what is left. @return false: nothing is left, or the path is too long to be one. */
static bool way_next(struct way *way, char part[static NAME_MAX + 1])
{
	const char *from = way->left + strspn(way->left, "/");
	size_t len = strcspn(from, "/");
	if (len == 0 || len > NAME_MAX)
		return false;
	memcpy(part, from, len);
	part[len] = '\0';
	memmove(way->left, from + len, strlen(from + len) + 1);
	return true;
}

/** Go to a part; where it is a link, to where that points. @return false: the path is too long, or is a loop. */
static bool way_go(struct way *way, const char *part)
{
	char next[PATH_MAX], target[PATH_MAX], left[PATH_MAX];
	int len = snprintf(next, sizeof(next), "%s/%s", way->walked, part);
	if (len < 0 || (size_t)len >= sizeof(next))
		return false;
	ssize_t got = readlink(next, target, sizeof(target) - 1);
	if (got < 0) { /* no link, or nothing at all */
		memcpy(way->walked, next, (size_t)len + 1);
		return true;
	}
	target[got] = '\0';
	len = snprintf(left, sizeof(left), "%s/%s", target, way->left);
	if (len < 0 || (size_t)len >= sizeof(left) || ++way->links > WATCH_LINKS_MAX)
		return false;
	memcpy(way->left, left, (size_t)len + 1);
	if (target[0] == '/')
		way->walked[0] = '\0';
	return true;
}

/** The folders that a path leads through, each for the next part's name. @return as watch_renew() */
static int add_way(struct watch *w, const char *path)
{
	char part[NAME_MAX + 1];
	struct way way = {.walked = "."};
	int all = 0;
	if (path[0] == '/')
		way.walked[0] = '\0';
	int len = snprintf(way.left, sizeof(way.left), "%s", path);
	if (len < 0 || (size_t)len >= sizeof(way.left))
		return -ENAMETOOLONG;
	while (way_next(&way, part)) {
		int r = add_folder(w, way.walked[0] == '\0' ? "/" : way.walked, part);
		if (r < 0)
			return r;
		all |= r;
		if (!way_go(&way, part))
			break;
	}
	return all;
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
		return add_folder(w, ".", "");
	memcpy(folder, path, len);
	folder[len] = '\0';
	return add_folder(w, len == 0 ? "/" : folder, "");
}

/** A file's folder, with what else may come there; or the folder that is meant. */
static int add_path(struct watch *w, const char *path)
{
	char meant[PATH_MAX];
	struct stat st;
	int way = add_way(w, path);
	if (way < 0)
		return way;
	bool there = stat(path, &st) == 0;
	if (there && S_ISDIR(st.st_mode)) {
		int r = add_folder(w, path, "");
		return r < 0 ? r : way | r;
	}
	int beside = add_parent(w, path);
	int behind = there && realpath(path, meant) != NULL ? add_parent(w, meant) : 0;
	if (beside < 0 || behind < 0)
		return beside < 0 ? beside : behind;
	return way | beside | behind;
}

/** What a text includes, whether it is there or not. */
static int add_includes(struct watch *w, const char *name, struct slice content)
{
	char included[BUNDLE_NAME_BYTES_MAX + 1];
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	auto_free struct statement_line *line = calloc(1, sizeof(*line));
	struct lexer lexer;
	int all = 0;
	if (report == NULL || line == NULL)
		return -ENOMEM;
	lexer_init(&lexer, name, content, report);
	while (lexer_next(&lexer, line)) {
		struct slice path = line->tokens[1].text;
		if (line->count != 2 || !slice_equal(line->tokens[0].text, SLICE("include")) ||
			bundle_include_check(path) != NULL ||
			bundle_include_name(name, path, included) < 0)
			continue;
		int r = add_path(w, included);
		if (r < 0)
			return r;
		all |= r;
	}
	return all;
}

static int add_bundle(struct watch *w, struct slice bundle)
{
	char name[BUNDLE_NAME_BYTES_MAX + 1];
	struct bundle_text text;
	struct slice rest;
	int all = 0;
	if (bundle_start(bundle, &rest) < 0)
		return 0; /* nothing was read */
	while (bundle_next(&rest, &text) == 1) {
		if (slice_copy(text.name, name, sizeof(name)) < 0)
			continue;
		int r = add_path(w, name);
		int more = r < 0 ? r : add_includes(w, name, text.content);
		if (more < 0)
			return more;
		all |= r | more;
	}
	return all;
}

int watch_renew(struct watch *w, const char *path, struct slice bundle, bool complete)
{
	if (w->fd < 0)
		return 0;
	for (size_t i = 0; i < w->count; i++)
		w->names[i].wanted = !complete;
	w->any = w->any && !complete;
	int found = add_path(w, path);
	int more = found < 0 ? found : add_bundle(w, bundle);
	if (more < 0)
		return more;
	let_go(w);
	return found | more;
}

/** The kernel watches a folder no more. */
static void forget(struct watch *w, int folder)
{
	size_t kept = 0;
	for (size_t i = 0; i < w->count; i++) {
		if (w->names[i].folder != folder)
			w->names[kept++] = w->names[i];
	}
	w->count = kept;
}

static bool counts(const struct watch *w, const struct inotify_event *e)
{
	if (w->any || (e->mask & IN_Q_OVERFLOW) != 0)
		return true;
	for (size_t i = 0; i < w->count; i++) {
		if (is_of(&w->names[i], e->wd, "") ||
			(e->len > 0 && is_of(&w->names[i], e->wd, e->name)))
			return true;
	}
	return false;
}

bool watch_drain(struct watch *w)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	bool any = false;
	ssize_t got;
	while ((got = read(w->fd, events, sizeof(events))) > 0) {
		const struct inotify_event *e;
		for (ssize_t at = 0; at < got; at += (ssize_t)(sizeof(*e) + e->len)) {
			e = (const struct inotify_event *)(events + at);
			if ((e->mask & IN_IGNORED) != 0)
				forget(w, e->wd);
			else
				any |= counts(w, e);
		}
	}
	return any;
}
