/*
 * Completing what dead runs left in an audit folder: rings, torn lines, missing ends. A chain may have several files that are marked as
 * being written, when its recorder was killed on its way from one to the next: the last one with a line is where it goes on. See segment.h.
 */
#include "audit/folder_state.h"

#include "audit/index.h"
#include "audit/reader.h"
#include "common/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define STALE_SECONDS 60                           /* a ring that was never finished being made */
#define SCAN_BYTES    ((size_t)64 << 10)           /* of a segment, at a time */
#define LINKS_MAX     16                           /* files of one chain that are being written */
#define BEGUN_MAX     4096                         /* sandboxes without an end in one file */
#define CODE          "\"status_code\":\"sandbox." /* of starts and ends, and of violations */

/** Where the log is completed. */
struct recovery {
	int folder_fd, open_fd;
	struct failure *why;
};

/** The file in which a dead run's chain goes on. */
struct live {
	char file[FOLDER_NAME_BYTES];
	int fd;
	struct audit_segment *segment;
};

static void live_fini(struct live *l)
{
	audit_segment_free(l->segment);
	fd_close(&l->fd);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

/** Names in a folder that end so, in order. @return how many, or negative errno. */
static int list_suffix(
	int dir_fd, const char *suffix, char ret_names[static LINKS_MAX][FOLDER_NAME_BYTES])
{
	int again = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	if (dir == NULL) {
		fd_close(&again);
		return -errno;
	}
	int count = 0;
	struct dirent *entry;
	while (count < LINKS_MAX && (entry = readdir(dir)) != NULL) {
		if (slice_ends(slice_of(entry->d_name), slice_of(suffix)))
			(void)slice_copy(slice_of(entry->d_name), ret_names[count++],
				FOLDER_NAME_BYTES); /* it fits */
	}
	(void)closedir(dir); /* only read */
	qsort(ret_names, (size_t)count, FOLDER_NAME_BYTES, compare_names);
	return count;
}

/** Go on in this file, if there is a line in it or nothing better. */
static int live_step(struct live *l, int dir_fd, const char *name, const char *id)
{
	struct audit_segment *segment = NULL;
	struct stat st;
	auto_fd fd = openat(dir_fd, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (l->segment != NULL && st.st_size == 0)
		return 0;
	int r = l->segment == NULL ? audit_segment_attach(fd, id, &segment, NULL)
				   : audit_segment_follow(fd, l->segment, &segment, NULL);
	if (r < 0)
		return r;
	live_fini(l);
	l->segment = segment;
	l->fd = fd_take(&fd);
	bool linked = !slice_ends(slice_of(name), SLICE(".jsonl"));
	(void)snprintf(l->file, sizeof(l->file), "%.240s%s", name, linked ? ".jsonl" : "");
	return 0;
}

/**
 * Where the chain of this id goes on: links are "<utc>-<id>". A run that ended while its ring was still held has no link anymore; without a
 * file, too, a new one is made. @return 0 or negative errno.
 */
static int live_open(struct recovery *r, const char *id, struct live *ret)
{
	char names[LINKS_MAX][FOLDER_NAME_BYTES], suffix[FOLDER_NAME_BYTES];
	struct live l = {.fd = -1};
	int e = 0;
	(void)snprintf(suffix, sizeof(suffix), "-%.63s", id);
	int count = list_suffix(r->open_fd, suffix, names);
	for (int i = 0; i < count && e == 0; i++)
		e = live_step(&l, r->open_fd, names[i], id);
	if (count == 0) {
		(void)snprintf(suffix, sizeof(suffix), "-%.63s.jsonl", id);
		count = list_suffix(r->folder_fd, suffix, names);
		if (count > 0)
			e = live_step(&l, r->folder_fd, names[count - 1], id);
	}
	if (count == 0) {
		l.fd = audit_segment_create(r->folder_fd, id, l.file, sizeof(l.file), r->why);
		e = l.fd < 0 ? l.fd : audit_segment_attach(l.fd, id, &l.segment, r->why);
	}
	if (count < 0 || e < 0) {
		live_fini(&l);
		return failure_errno(r->why, count < 0 ? count : e, "audit folder: %s", id);
	}
	*ret = l;
	return 0;
}

/** What a recovery added ends a chain, or a part of it: the index says so. */
static int index_recovered(
	const struct recovery *r, const char *name, const struct audit_segment *segment)
{
	const struct audit_index_entry entry = {.kind = AUDIT_INDEX_CLOSED,
		.segment = name,
		.at = audit_segment_chain(segment),
		.recovered = true};
	if (entry.at->sequence == 1)
		return 0; /* not a line of it was ever written */
	return audit_index_append(r->folder_fd, &entry, r->why);
}

/** Of what stands in a file that this release does not read. */
static const struct audit_event unreadable = {.class = AUDIT_LIFECYCLE,
	.activity = 99, /* OCSF: Other */
	.reason = REASON_AUDIT_LOST,
	.detail = "a ring can't be read: what it held is not known"};

/** Into the run's own segment; then the ring is gone. @return lines or negative errno. */
static int recover_ring(struct recovery *r, const char *name)
{
	auto_fd fd = folder_open_unheld(r->open_fd, name);
	if (fd < 0)
		return 0; /* its run is alive, or another recovery is at it */
	struct audit_ring *ring = audit_ring_map(fd);
	struct live live = {.fd = -1};
	char id[CHAIN_NAME_BYTES]; /* "<id>.ring" or "<id>.<n>.ring" */
	(void)snprintf(id, sizeof(id), "%.*s", (int)strcspn(name, "."), name);
	int lines = live_open(r, id, &live);
	if (lines == 0) { /* a file that is no ring was one of another release */
		lines = ring == NULL ? audit_segment_append_event(live.segment, &unreadable)
				     : audit_segment_drain(live.segment, ring, true);
		if (lines < 0)
			(void)failure_errno(r->why, lines, "audit folder: can't complete %s", name);
	}
	int indexed = lines > 0 || ring == NULL ? index_recovered(r, live.file, live.segment) : 0;
	live_fini(&live);
	audit_ring_free(ring);
	if (lines >= 0)
		(void)unlinkat(r->open_fd, name, 0); /* drained: harmless if it stays */
	return indexed < 0 ? indexed : lines;
}

/** Sandboxes that a file says have started, and not that they have ended. A run's file has one, a service's many. */
struct begun {
	const char *own; /* id of the chain */
	bool own_ended;
	size_t count;
	char ids[BEGUN_MAX][CHAIN_NAME_BYTES];
};

static int begun_note(void *arg, const struct audit_line *line)
{
	struct begun *b = arg;
	struct slice code = audit_line_text(line, "status_code");
	struct slice id = audit_line_text(line, "container.uid");
	bool ended = slice_equal(code, SLICE("sandbox.exit"));
	size_t at = 0;
	if (id.len == 0 || id.len >= CHAIN_NAME_BYTES ||
		(!ended && !slice_equal(code, SLICE("sandbox.start"))))
		return 0;
	while (at < b->count && !slice_equal(id, slice_of(b->ids[at])))
		at++;
	if (ended && slice_equal(id, slice_of(b->own)))
		b->own_ended = true;
	if (ended && at < b->count)
		memmove(b->ids[at], b->ids[at + 1], (--b->count - at) * sizeof(b->ids[0]));
	else if (!ended && at == b->count && b->count < BEGUN_MAX)
		(void)slice_copy(id, b->ids[b->count++], CHAIN_NAME_BYTES); /* it fits */
	return 0;
}

/** Look at the lines that may tell of a start or an end. What peers wrote can't look like that: their quotes are escaped. */
static void begun_read(int fd, struct begun *b)
{
	auto_free char *window = malloc(SCAN_BYTES);
	struct audit_read read = {.visit = begun_note, .arg = b};
	size_t kept = 0; /* the beginning of a line that is not whole */
	off_t at = 0;
	for (;;) {
		ssize_t got = window == NULL ? 0 : pread(fd, window + kept, SCAN_BYTES - kept, at);
		if (got <= 0)
			return;
		struct slice rest = {window, kept + (size_t)got}, line;
		while (slice_split(rest, '\n', &line, &rest)) {
			if (memmem(line.ptr, line.len, CODE, sizeof(CODE) - 1) != NULL)
				(void)audit_read_line(
					&read, line); /* a line that is none is skipped */
		}
		at += got;
		kept = rest.len < SCAN_BYTES ? rest.len : 0; /* no line of ours is so long */
		if (kept > 0) /* a rest that is empty points nowhere */
			memmove(window, rest.ptr, kept);
	}
}

/** Whether a file goes on with a chain that began in another one. */
static bool file_continues(int fd)
{
	char first[AUDIT_LINE_BYTES_MAX];
	ssize_t got = pread(fd, first, sizeof(first), 0);
	return got > 0 && chain_sequence((struct slice){first, (size_t)got}) > 1;
}

static int append_end(struct audit_segment *segment, const char *id)
{
	const struct audit_event end = {.class = AUDIT_PROCESS,
		.activity = 2, /* OCSF: Terminate */
		.reason = REASON_SANDBOX_EXIT,
		.recovered = true,
		.sandbox_id = id,
		.verdict = "unknown",
		.detail = "its launcher was killed before it could record the end"};
	return audit_segment_append_event(segment, &end);
}

/**
 * What was recorded as started and not as ended gets an end, so that its file isn't taken for a broken one: sandboxes of a service, then the run
 * or the service itself.
 */
static int close_run(int fd, const char *name, struct audit_segment *segment)
{
	const char *dash = strchr(name, '-'); /* <utc>-<id> */
	auto_free struct begun *b = calloc(1, sizeof(*b));
	if (dash == NULL)
		return 0;
	if (b == NULL)
		return -ENOMEM;
	b->own = dash + 1;
	begun_read(fd, b);
	bool own = file_continues(fd) && !b->own_ended;
	int r = 0;
	for (size_t i = 0; i < b->count && r == 0; i++) {
		if (strcmp(b->ids[i], b->own) == 0)
			own = true;
		else
			r = append_end(segment, b->ids[i]);
	}
	return r == 0 && own ? append_end(segment, b->own) : r;
}

/** Whether the chain of this link goes on in a later one. */
static bool goes_on(const struct recovery *r, const char *name)
{
	char names[LINKS_MAX][FOLDER_NAME_BYTES];
	struct stat st;
	const char *dash = strchr(name, '-');
	int count = list_suffix(r->open_fd, dash == NULL ? name : dash, names);
	for (int i = 0; i < count; i++) {
		if (strcmp(names[i], name) > 0 &&
			fstatat(r->open_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			st.st_size > 0)
			return true;
	}
	return false;
}

/** Close the file of a dead run, the last one of its chain with an end. @return 0 or negative errno. */
static int close_segment(struct recovery *r, int fd, const char *name, const char *file)
{
	const char *dash = strchr(name, '-'); /* <utc>-<id> */
	const char *id = dash == NULL ? name : dash + 1;
	struct live live = {.fd = -1};
	bool more = goes_on(r, name);
	int e = more ? audit_segment_attach(fd, id, &live.segment, r->why)
		     : live_open(r, id, &live);
	if (e == 0 && !more)
		e = close_run(fd, name, live.segment);
	if (e == 0) {
		audit_segment_release(live.segment);
		e = index_recovered(r, file, live.segment);
	}
	live_fini(&live);
	return e;
}

/** A dead run may have left a torn last line, and has left no end. @return 1 if something was added. */
static int recover_segment(struct recovery *r, const char *name)
{
	char file[FOLDER_NAME_BYTES];
	struct stat before, after;
	auto_fd fd = folder_open_unheld(r->open_fd, name);
	if (fd < 0)
		return 0;
	if (fstat(fd, &before) < 0)
		return failure_errno(r->why, -errno, "audit folder: %s", name);
	(void)snprintf(file, sizeof(file), "%.240s.jsonl", name);
	if (before.st_size == 0)
		(void)unlinkat(
			r->folder_fd, file, 0); /* not a line was written; the index has none */
	int e = before.st_size == 0 ? 0 : close_segment(r, fd, name, file);
	if (e < 0)
		return failure_errno(r->why, e, "audit folder: can't complete %s", name);
	(void)unlinkat(r->open_fd, name, 0); /* the next start tries again */
	return fstat(fd, &after) == 0 && after.st_size != before.st_size;
}

static void remove_stale(int open_fd, const char *name)
{
	struct stat st;
	auto_fd fd = folder_open_unheld(open_fd, name);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_mtime + STALE_SECONDS < time(NULL))
		(void)unlinkat(open_fd, name, 0); /* the next start tries again */
}

enum open_kind { OPEN_RING, OPEN_UNFINISHED, OPEN_SEGMENT, OPEN_OTHER };

static enum open_kind open_kind(const char *name)
{
	struct slice text = slice_of(name);
	if (slice_ends(text, SLICE(".ring")))
		return OPEN_RING;
	if (slice_ends(text, SLICE(".ring.new")))
		return OPEN_UNFINISHED;
	return name[0] >= '0' && name[0] <= '9' ? OPEN_SEGMENT : OPEN_OTHER;
}

/** A bit of each kind of file that is there. */
static unsigned kinds_seen(DIR *dir)
{
	unsigned seen = 0;
	struct dirent *entry;
	while ((entry = readdir(dir)) != NULL)
		seen |= 1U << open_kind(entry->d_name);
	return seen;
}

/** Every file of one kind. @return how many were completed, or the first error once all were tried. */
static int recover_kind(struct recovery *r, DIR *dir, enum open_kind kind)
{
	int count = 0, error = 0;
	struct dirent *entry;
	rewinddir(dir);
	while ((entry = readdir(dir)) != NULL) {
		if (open_kind(entry->d_name) != kind)
			continue;
		int e = 0;
		if (kind == OPEN_RING)
			e = recover_ring(r, entry->d_name);
		else if (kind == OPEN_SEGMENT)
			e = recover_segment(r, entry->d_name);
		else
			remove_stale(r->open_fd, entry->d_name);
		count += e > 0;
		error = e < 0 ? e : error;
	}
	return error < 0 ? error : count;
}

int audit_folder_recover(int folder_fd, struct failure *why)
{
	int open_fd = openat(folder_fd, "open", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (open_fd < 0)
		return errno == ENOENT ? 0 : failure_errno(why, -errno, "audit folder: open/");
	DIR *dir = fdopendir(open_fd);
	if (dir == NULL) {
		fd_close(&open_fd);
		return failure_errno(why, -errno, "audit folder: open/");
	}
	struct recovery r = {.folder_fd = folder_fd, .open_fd = open_fd, .why = why};
	/* Rings first: what they hold goes into segments that are still marked as open. */
	static const enum open_kind order[] = {OPEN_RING, OPEN_UNFINISHED, OPEN_SEGMENT};
	unsigned seen = kinds_seen(dir);
	if ((seen & 1U << OPEN_RING) != 0) /* its lines may get a new file */
		seen |= 1U << OPEN_SEGMENT;
	int count = 0, error = 0;
	for (size_t i = 0; i < array_size(order); i++) {
		int e = (seen & 1U << order[i]) == 0 ? 0 : recover_kind(&r, dir, order[i]);
		count += e > 0 ? e : 0;
		error = e < 0 ? e : error;
	}
	(void)closedir(dir); /* only read */
	return error < 0 ? error : count;
}
