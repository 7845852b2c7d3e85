/* See audit_follow.h. A line is given when its end is there. */
#include "cli/audit_follow.h"

#include "common/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define OPEN_FOLDER  "open"
#define EVENTS_BYTES ((size_t)16 << 10)
#define CHANGES      (IN_MODIFY | IN_CREATE | IN_MOVED_TO)

struct followed {
	char *name;
	off_t at;    /* lines before it were given */
	bool looked; /* whether a line begins there: the picture may end inside of one */
};

static int complain(const char *name, int error)
{
	char shown[256];
	(void)fprintf(stderr, "eclusa audit: %s: %s\n",
		slice_escape(slice_of(name), shown, sizeof(shown)), strerror(-error));
	return error;
}

/** The folder that writers of a recovered segment know it by; it comes with the first run. */
static int watch(const struct audit_follow *f, const char *below)
{
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", f->folder_fd, below);
	int w = inotify_add_watch(f->inotify_fd, path, CHANGES);
	return w < 0 ? -errno : w;
}

int audit_follow_open(struct audit_follow *f, int folder_fd)
{
	*f = (struct audit_follow){.folder_fd = folder_fd, .open_watch = -1};
	f->inotify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	int r = f->inotify_fd < 0 ? -errno : watch(f, ".");
	if (r < 0)
		return complain("can't watch the audit folder", r);
	f->open_watch = watch(f, OPEN_FOLDER);
	return 0;
}

static struct followed *add(struct audit_follow *f, const char *name, off_t at, bool looked)
{
	if (f->count == f->capacity) {
		size_t capacity = f->capacity == 0 ? 64 : 2 * f->capacity;
		struct followed *more = reallocarray(f->files, capacity, sizeof(*more));
		if (more == NULL)
			return NULL;
		f->files = more;
		f->capacity = capacity;
	}
	char *copy = strdup(name);
	if (copy == NULL)
		return NULL;
	f->files[f->count] = (struct followed){.name = copy, .at = at, .looked = looked};
	return &f->files[f->count++];
}

static int add_known(void *arg, const char *name, off_t end)
{
	return add(arg, name, end, false) == NULL ? -ENOMEM : 0;
}

/** The one of this name; a new file is followed from its beginning. NULL without memory. */
static struct followed *find(struct audit_follow *f, const char *name)
{
	for (size_t i = f->count; i > 0; i--) {
		if (strcmp(f->files[i - 1].name, name) == 0)
			return &f->files[i - 1];
	}
	return add(f, name, 0, true);
}

/** Go back to where the line begins that the picture cut. */
static int look_back(const struct audit_follow *f, struct followed *file)
{
	struct lines lines = {
		.folder_fd = f->folder_fd, .name = file->name, .to = file->at, .backwards = true};
	struct slice line;
	int r = file->looked || file->at == 0 ? 0 : lines_next(&lines, &line);
	if (r == 1 && !lines.whole)
		file->at -= (off_t)line.len;
	lines_fini(&lines);
	file->looked = r >= 0;
	return r < 0 ? r : 0;
}

/** Lines whose ends are there. */
static int give_lines(struct audit_query *q, struct followed *file, struct lines *lines)
{
	struct slice line;
	for (;;) {
		int r = lines_next(lines, &line);
		if (r == 1 && !lines->whole)
			return 0;
		file->at = lines->from - (off_t)(lines->end - lines->start);
		if (r <= 0)
			return r;
		r = audit_query_line(q, line);
		if (r < 0)
			return r;
	}
}

static int read_new(struct audit_follow *f, const char *name, struct audit_query *q)
{
	struct stat st;
	struct followed *file = find(f, name);
	if (file == NULL)
		return complain(name, -ENOMEM);
	if (fstatat(f->folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0; /* it went away, or is none of ours */
	int r = look_back(f, file);
	if (st.st_size < file->at)
		file->at = st.st_size; /* a line that was not whole was taken back */
	struct lines lines = {
		.folder_fd = f->folder_fd, .name = file->name, .from = file->at, .to = st.st_size};
	if (r < 0)
		return complain(name, r);
	r = give_lines(q, file, &lines);
	lines_fini(&lines);
	return r;
}

/** Events got lost: look at every file. */
static int read_all(struct audit_follow *f, struct audit_query *q)
{
	struct dirent *entry;
	int fd = openat(f->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;
	if (dir == NULL) {
		r = complain("audit folder", -errno);
		fd_close(&fd);
		return r;
	}
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (merge_is_segment(entry->d_name))
			r = read_new(f, entry->d_name, q);
	}
	(void)closedir(dir);
	return r;
}

static int take_event(
	struct audit_follow *f, const struct inotify_event *event, struct audit_query *q)
{
	char name[NAME_MAX + sizeof(".jsonl")];
	if ((event->mask & IN_Q_OVERFLOW) != 0)
		return read_all(f, q);
	if (event->len == 0)
		return 0;
	if (event->wd != f->open_watch && strcmp(event->name, OPEN_FOLDER) == 0)
		f->open_watch = watch(f, OPEN_FOLDER);
	/* A link in open/ is called as its segment without the end. */
	(void)snprintf(name, sizeof(name), "%s%s", event->name,
		event->wd == f->open_watch ? ".jsonl" : "");
	return merge_is_segment(name) ? read_new(f, name, q) : 0;
}

/** All events that wait. */
static int take_events(struct audit_follow *f, struct audit_query *q)
{
	union {
		struct inotify_event event; /* for its alignment */
		char bytes[EVENTS_BYTES];
	} block;
	int r = 0;
	for (;;) {
		ssize_t got = read(f->inotify_fd, block.bytes, sizeof(block.bytes));
		if (got < 0)
			return errno == EAGAIN || errno == EINTR ? 0 : -errno;
		for (size_t at = 0; r == 0 && at < (size_t)got;) {
			const struct inotify_event *event = (const void *)(block.bytes + at);
			at += sizeof(*event) + event->len;
			r = take_event(f, event, q);
		}
		if (r < 0)
			return r;
	}
}

int audit_follow_run(struct audit_follow *f, struct audit_query *q, struct audit_output *output)
{
	struct pollfd fds[] = {
		{.fd = f->inotify_fd, .events = POLLIN}, {.fd = output->fd, .events = 0}};
	int r = merge_files(q->merge, add_known, f);
	while (r == 0) {
		if (poll(fds, array_size(fds), -1) < 0 && errno != EINTR)
			return complain("poll", -errno);
		if ((fds[1].revents & (POLLERR | POLLHUP)) != 0)
			return -EPIPE;
		r = take_events(f, q);
		if (r == 0)
			r = audit_output_flush(output);
	}
	return r;
}

void audit_follow_fini(struct audit_follow *f)
{
	for (size_t i = 0; i < f->count; i++)
		free(f->files[i].name);
	free(f->files);
	f->files = NULL;
	f->count = 0;
	fd_close(&f->inotify_fd);
}
