/* Which files of events there are: by the index, entry by entry, and by listing the folder. See feed.h. */
#include "export/feed_state.h"

#include "audit/index.h"
#include "audit/scan.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "export/walk.h"

#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <sys/stat.h>

#define LIST_NS     (60 * NS_PER_SEC)
#define NAMES_FIRST 256
#define MARK_BYTES  128 /* of the index's end: the hash of its last entry is in them */

/** An entry of the index. */
struct entry {
	struct slice kind, segment;
	uint64_t last;
};

static const struct walk_row entry_rows[] = {
	{"", "kind", WALK_TEXT, offsetof(struct entry, kind)},
	{"", "segment", WALK_TEXT, offsetof(struct entry, segment)},
	{"", "last", WALK_NUMBER, offsetof(struct entry, last)},
};

/** False: a line that is none of ours, such as one that a crash tore. */
static bool entry_read(struct slice line, struct entry *ret)
{
	struct entry found = {.last = 0};
	if (!walk_line(line, entry_rows, array_size(entry_rows), &found) ||
		!folder_name_is_valid(found.segment))
		return false;
	*ret = found;
	return true;
}

static bool entry_closes(const struct entry *e)
{
	return slice_equal(e->kind, SLICE("closed"));
}

/** FNV-1a; never 0. */
static uint64_t name_hash(struct slice name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < name.len; i++)
		hash = (hash ^ (unsigned char)name.ptr[i]) * UINT64_C(0x100000001b3);
	return hash | 1;
}

static bool names_has(const struct names *n, uint64_t hash)
{
	for (size_t i = 0; i < n->capacity; i++) {
		uint64_t slot = n->slots[(hash + i) & (n->capacity - 1)];
		if (slot == 0 || slot == hash)
			return slot == hash;
	}
	return false;
}

static void names_put(struct names *n, uint64_t hash)
{
	size_t at = hash & (n->capacity - 1);
	while (n->slots[at] != 0)
		at = (at + 1) & (n->capacity - 1);
	n->slots[at] = hash;
	n->count++;
}

/** @return 0 or -ENOMEM. */
static int names_add(struct names *n, uint64_t hash)
{
	if (names_has(n, hash))
		return 0;
	if (2 * (n->count + 1) > n->capacity) {
		struct names larger = {
			.capacity = n->capacity == 0 ? NAMES_FIRST : 2 * n->capacity};
		larger.slots = calloc(larger.capacity, sizeof(larger.slots[0]));
		if (larger.slots == NULL)
			return -ENOMEM;
		for (size_t i = 0; i < n->capacity; i++) {
			if (n->slots[i] != 0)
				names_put(&larger, n->slots[i]);
		}
		names_fini(n);
		*n = larger;
	}
	names_put(n, hash);
	return 0;
}

void names_fini(struct names *n)
{
	free(n->slots);
	*n = (struct names){.capacity = 0};
}

/** What a visit of entries is for. */
struct visit {
	struct feed *feed;
	struct slice segment; /* whose last closing is looked for */
	uint64_t last;
};

/** @return 0; 1: stop before this entry; negative errno. */
typedef int entry_visit(struct visit *v, const struct entry *e);

/** Whole lines from @from up to @end. *ret_end: where it stopped. @return 0 or negative errno. */
static int visit_entries(
	struct visit *v, entry_visit *visit, uint64_t from, uint64_t end, uint64_t *ret_end)
{
	struct scan scan = {.fd = v->feed->index_fd};
	struct slice line;
	struct entry entry;
	uint64_t at = from;
	int r = lseek(scan.fd, (off_t)from, SEEK_SET) < 0 ? -errno : 0;
	while (r == 0 && at < end && (r = scan_next(&scan, &line)) == 1) {
		r = scan.whole && entry_read(line, &entry) ? visit(v, &entry) : 0;
		if (!scan.whole || r != 0)
			break;
		at = from + scan.bytes;
	}
	scan_fini(&scan);
	*ret_end = at;
	return r < 0 ? r : 0;
}

static int visit_name(struct visit *v, const struct entry *e)
{
	return names_add(&v->feed->names, name_hash(e->segment));
}

static int visit_closing(struct visit *v, const struct entry *e)
{
	if (entry_closes(e) && slice_equal(e->segment, v->segment) && e->last > v->last)
		v->last = e->last;
	return 0;
}

/**
 * A file that was done with is closed again: a recovery added lines to it. What was delivered is everything up to its closing
 * before. @return 0 or negative errno.
 */
static int take_again(struct feed *f, const struct entry *e)
{
	struct visit v = {.feed = f, .segment = e->segment};
	uint64_t ignored;
	off_t here = lseek(f->index_fd, 0, SEEK_CUR);
	int r = visit_entries(&v, visit_closing, 0, f->cursor->index_offset, &ignored);
	if (here < 0 || lseek(f->index_fd, here, SEEK_SET) < 0)
		return -errno;
	if (r < 0 || v.last >= e->last)
		return r;
	struct cursor_segment *s = cursor_add(f->cursor, e->segment);
	if (s == NULL)
		return -ENOMEM;
	s->skip_through = v.last;
	s->sequence = v.last;
	return 0;
}

/** A file that the cursor is not at. @return 0; 1: not now; negative errno. */
static int take_file(struct feed *f, const struct entry *e)
{
	if (!entry_closes(e) && !slice_equal(e->kind, SLICE("opened")))
		return 0; /* pruned: what was not delivered shows when it is opened */
	if (f->cursor->count == CURSOR_SEGMENTS_MAX) {
		f->more = true;
		return 1;
	}
	if (entry_closes(e) && names_has(&f->names, name_hash(e->segment)))
		return take_again(f, e);
	struct cursor_segment *s = cursor_add(f->cursor, e->segment);
	if (s == NULL)
		return -ENOMEM;
	s->fresh = f->fresh;
	return 0;
}

static int visit_new(struct visit *v, const struct entry *e)
{
	struct feed *f = v->feed;
	int r = cursor_find(f->cursor, e->segment) != NULL ? 0 : take_file(f, e);
	struct cursor_segment *s = cursor_find(f->cursor, e->segment);
	if (r == 0 && s != NULL && entry_closes(e)) {
		s->closed = true;
		s->partial = 0; /* a torn end is its end now */
		s->last = e->last > s->last ? e->last : s->last;
	}
	return r != 0 ? r : visit_name(v, e);
}

/** The index as it is now; it may have been moved away with the files that it lists. @return 0 or negative errno. */
static int open_index(struct feed *f)
{
	fd_close(&f->index_fd);
	int fd = folder_ask(f->channel, AUDIT_INDEX_NAME);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	f->index_fd = fd;
	return 0;
}

static int segment_compare_name(const void *a, const void *b)
{
	const struct cursor_segment *const *x = a, *const *y = b;
	return strcmp((*x)->name, (*y)->name);
}

/** No file of events, such as a link: it can't be read, and must not keep what can be from being read. */
static bool is_other(const struct dirent *entry)
{
	return entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN;
}

/** Told once, since it is known then. @return 0 or -ENOMEM. */
static int pass_over(struct feed *f, struct slice name)
{
	log_event(LOG_LEVEL_WARN, "file-ignored", "file=%.*s it is not a file of the log",
		(int)name.len, name.ptr);
	return names_add(&f->names, name_hash(name));
}

/** Files that the index lacks: a crash, or a disk that was full, came between a first line and its entry. */
static int list_files(struct feed *f)
{
	int fd = folder_ask_list(f->channel);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (dir == NULL) {
		int r = fd < 0 ? fd : -errno;
		fd_close(&fd);
		return r;
	}
	int r = 0;
	struct dirent *entry;
	size_t before = f->cursor->count;
	while (r == 0 && f->cursor->count < CURSOR_SEGMENTS_MAX && (entry = readdir(dir)) != NULL) {
		struct slice name = slice_of(entry->d_name);
		if (!folder_name_is_valid(name) || slice_equal(name, SLICE(AUDIT_INDEX_NAME)) ||
			names_has(&f->names, name_hash(name)) ||
			cursor_find(f->cursor, name) != NULL)
			continue;
		if (is_other(entry))
			r = pass_over(f, name);
		else if (cursor_add(f->cursor, name) == NULL)
			r = -ENOMEM;
	}
	(void)closedir(dir); /* only read */
	/* Names begin with the time: the file in which a chain goes on comes behind. */
	if (f->cursor->count > before)
		qsort(&f->cursor->segments[before], f->cursor->count - before,
			sizeof(f->cursor->segments[0]), segment_compare_name);
	return r;
}

/** What is known from before this life. */
static int learn_names(struct feed *f)
{
	struct visit v = {.feed = f};
	uint64_t ignored;
	return f->names.count > 0
		? 0
		: visit_entries(&v, visit_name, 0, f->cursor->index_offset, &ignored);
}

/** Of the bytes before @offset; never 0 when they are there, and small enough for a cursor. */
static uint64_t index_mark(int fd, uint64_t offset)
{
	char bytes[MARK_BYTES];
	size_t want = offset < sizeof(bytes) ? (size_t)offset : sizeof(bytes);
	ssize_t got = pread(fd, bytes, want, (off_t)(offset - want));
	if (want == 0 || got != (ssize_t)want)
		return 0;
	return (name_hash((struct slice){bytes, want}) & INT64_MAX) | 1;
}

/** Whether it goes on from where the cursor is. One that was moved away with its files left its place to another, which may be longer. */
static bool index_goes_on(const struct feed *f, uint64_t size)
{
	const struct cursor *c = f->cursor;
	return size >= c->index_offset &&
		(c->index_mark == 0 || index_mark(f->index_fd, c->index_offset) == c->index_mark);
}

static int take_entries(struct feed *f)
{
	struct visit v = {.feed = f};
	struct stat st;
	if (fstat(f->index_fd, &st) < 0)
		return -errno;
	if (!index_goes_on(f, (uint64_t)st.st_size)) {
		log_event(LOG_LEVEL_WARN, "index-replaced",
			"it is not the one before: all files that it lists are read");
		f->cursor->index_offset = 0;
		names_fini(&f->names);
	}
	f->more = false;
	int r = learn_names(f);
	if (r == 0 && (uint64_t)st.st_size > f->cursor->index_offset)
		r = visit_entries(&v, visit_new, f->cursor->index_offset, (uint64_t)st.st_size,
			&f->cursor->index_offset);
	f->cursor->index_mark = index_mark(f->index_fd, f->cursor->index_offset);
	f->fresh = f->fresh && f->more;
	return r;
}

int feed_find(struct feed *f, struct failure *why)
{
	uint64_t now = clock_monotonic_ns();
	bool list = f->looked_ns == 0 || now - f->looked_ns >= LIST_NS;
	int r = list || f->index_fd < 0 ? open_index(f) : 0;
	if (r == 0 && f->index_fd >= 0)
		r = take_entries(f);
	if (r == 0 && list) {
		r = list_files(f);
		f->looked_ns = now;
	}
	return r < 0 ? failure_errno(why, r, "audit folder") : 0;
}
