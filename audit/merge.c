/*
 * See merge.h. A segment enters the heap of those being read when the merge gets to the time that it can begin at (forwards: the one in
 * its name) or end at (backwards: that of its last change).
 */
#include "audit/merge.h"

#include "audit/index.h"
#include "common/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define SEGMENT_END ".jsonl"
#define SLACK_MS    UINT64_C(60000) /* clocks and file systems are not that exact */
#define NAME_TIME   "%Y%m%dT%H%M%SZ"
#define NAME_BYTES  17 /* a time and '-' */

struct source {
	char *name;
	off_t size;
	uint64_t edge_ms; /* no line comes before it in the direction of the merge */
	struct lines lines;
	struct slice line; /* the next one */
	uint64_t time_ms;
};

struct merge {
	int folder_fd;
	bool backwards;
	struct source *sources; /* in the order of their edges */
	size_t count, entered;
	struct source **heap; /* of those being read: the next line is the first one's */
	size_t heap_count;
	struct source *given; /* whose line the caller has */
	uint64_t done_bytes, all_bytes, too_long;
};

bool merge_is_segment(const char *name)
{
	struct slice text = slice_of(name);
	return slice_ends(text, SLICE(SEGMENT_END)) &&
		!slice_equal(text, SLICE(AUDIT_INDEX_NAME)) && name[0] != '.';
}

/** The time in a segment's name; 0 when it has none. */
static uint64_t name_time_ms(const char *name)
{
	char text[NAME_BYTES];
	struct tm tm = {0};
	if (strlen(name) < NAME_BYTES || name[NAME_BYTES - 1] != '-')
		return 0;
	(void)slice_copy((struct slice){name, NAME_BYTES - 1}, text, sizeof(text)); /* fits */
	const char *end = strptime(text, NAME_TIME, &tm);
	time_t seconds = end == NULL || *end != '\0' ? 0 : timegm(&tm);
	return seconds < 0 ? 0 : (uint64_t)seconds * 1000;
}

static uint64_t change_time_ms(const struct stat *st)
{
	return st->st_mtim.tv_sec < 0
		? 0
		: (uint64_t)st->st_mtim.tv_sec * 1000 + (uint64_t)st->st_mtim.tv_nsec / 1000000;
}

/** Add a file if it is one of ours and may hold what is asked for. */
static int add_source(struct merge *m, const struct merge_options *options, const char *name)
{
	struct stat st;
	if (fstatat(m->folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return 0;
	uint64_t first = name_time_ms(name), last = change_time_ms(&st) + SLACK_MS;
	first = first > SLACK_MS ? first - SLACK_MS : 0;
	if (last < options->since_ms || (options->until_ms != 0 && first >= options->until_ms))
		return 0;
	char *copy = strdup(name);
	if (copy == NULL)
		return -ENOMEM;
	m->sources[m->count++] = (struct source){.name = copy,
		.size = st.st_size,
		.edge_ms = m->backwards ? last : first,
		.lines = {.folder_fd = m->folder_fd,
			.name = copy,
			.to = st.st_size,
			.backwards = m->backwards}};
	m->all_bytes += (uint64_t)st.st_size;
	return 0;
}

/** Whether what @a has comes before what @b has. Equal times: in the order of names. */
static bool comes_before(const struct merge *m, uint64_t a_ms, const struct source *a,
	uint64_t b_ms, const struct source *b)
{
	bool before = a_ms != b_ms ? a_ms < b_ms : strcmp(a->name, b->name) < 0;
	return before != m->backwards;
}

static int by_edge(const void *a, const void *b, void *arg)
{
	const struct merge *m = arg;
	const struct source *x = a, *y = b;
	return comes_before(m, x->edge_ms, x, y->edge_ms, y) ? -1 : 1;
}

static int is_segment(const struct dirent *entry)
{
	return merge_is_segment(entry->d_name);
}

static int list(struct merge *m, const struct merge_options *options, struct failure *why)
{
	struct dirent **entries = NULL;
	int count = scandirat(m->folder_fd, ".", &entries, is_segment, NULL);
	int r = count < 0 ? failure_errno(why, -errno, "audit folder") : 0;
	if (count > 0) {
		m->sources = calloc((size_t)count, sizeof(*m->sources));
		m->heap = calloc((size_t)count, sizeof(*m->heap));
		if (m->sources == NULL || m->heap == NULL)
			r = failure_errno(why, -ENOMEM, "audit folder");
	}
	for (int i = 0; i < count; i++) {
		char shown[NAME_MAX + 1];
		bool room = r == 0 && m->sources != NULL;
		int here = room ? add_source(m, options, entries[i]->d_name) : 0;
		if (here < 0)
			r = failure_errno(why, here, "%s",
				slice_escape(slice_of(entries[i]->d_name), shown, sizeof(shown)));
		free(entries[i]);
	}
	free(entries);
	return r;
}

int merge_open(
	int folder_fd, const struct merge_options *options, struct merge **ret, struct failure *why)
{
	struct merge *m = calloc(1, sizeof(*m));
	if (m == NULL)
		return failure_errno(why, -ENOMEM, "audit folder");
	m->folder_fd = folder_fd;
	m->backwards = options->backwards;
	int r = list(m, options, why);
	if (r < 0) {
		merge_free(m);
		return r;
	}
	if (m->count > 1)
		qsort_r(m->sources, m->count, sizeof(*m->sources), by_edge, m);
	*ret = m;
	return 0;
}

static bool heap_before(const struct merge *m, size_t a, size_t b)
{
	const struct source *x = m->heap[a], *y = m->heap[b];
	return comes_before(m, x->time_ms, x, y->time_ms, y);
}

static void heap_swap(struct merge *m, size_t a, size_t b)
{
	struct source *kept = m->heap[a];
	m->heap[a] = m->heap[b];
	m->heap[b] = kept;
}

static void heap_up(struct merge *m, size_t at)
{
	for (; at > 0 && heap_before(m, at, (at - 1) / 2); at = (at - 1) / 2)
		heap_swap(m, at, (at - 1) / 2);
}

static void heap_down(struct merge *m)
{
	for (size_t at = 0, first = 0;; at = first) {
		for (size_t child = 2 * at + 1; child <= 2 * at + 2; child++) {
			if (child < m->heap_count && heap_before(m, child, first))
				first = child;
		}
		if (first == at)
			return;
		heap_swap(m, at, first);
	}
}

/** Read the next line of a source. @return 1, 0 at its end, negative errno. */
static int advance(struct merge *m, struct source *s, struct failure *why)
{
	char shown[NAME_MAX + 1];
	int r = lines_next(&s->lines, &s->line);
	if (r == 1)
		s->time_ms = lines_time_ms(s->line);
	if (r < 0)
		return failure_errno(
			why, r, "%s", slice_escape(slice_of(s->name), shown, sizeof(shown)));
	if (r == 0) {
		m->too_long += s->lines.too_long;
		lines_fini(&s->lines);
	}
	return r;
}

/** Go on behind the line that was given. */
static int move_on(struct merge *m, struct failure *why)
{
	struct source *s = ptr_take(m->given);
	if (s == NULL)
		return 0;
	int r = advance(m, s, why);
	if (r == 0)
		m->heap[0] = m->heap[--m->heap_count];
	if (m->heap_count > 0)
		heap_down(m);
	return r < 0 ? r : 0;
}

/** Let in every source that may have something before the first line of the heap. */
static int let_in(struct merge *m, struct failure *why)
{
	while (m->entered < m->count) {
		struct source *s = &m->sources[m->entered];
		if (m->heap_count > 0 &&
			comes_before(m, m->heap[0]->time_ms, m->heap[0], s->edge_ms, s))
			return 0;
		int r = advance(m, s, why);
		if (r < 0)
			return r;
		m->entered++;
		if (r == 1) {
			m->heap[m->heap_count++] = s;
			heap_up(m, m->heap_count - 1);
		}
	}
	return 0;
}

int merge_next(struct merge *m, struct merge_line *ret, struct failure *why)
{
	int r = move_on(m, why);
	if (r == 0)
		r = let_in(m, why);
	if (r < 0 || m->heap_count == 0)
		return r;
	struct source *s = m->given = m->heap[0];
	m->done_bytes += s->line.len + 1;
	*ret = (struct merge_line){
		.bytes = s->line, .file = s->name, .time_ms = s->time_ms, .whole = s->lines.whole};
	return 1;
}

void merge_free(struct merge *m)
{
	if (m == NULL)
		return;
	for (size_t i = 0; i < m->count; i++) {
		lines_fini(&m->sources[i].lines);
		free(m->sources[i].name);
	}
	free(m->sources);
	free(m->heap);
	free(m);
}

uint64_t merge_done_bytes(const struct merge *m)
{
	return m->done_bytes;
}

uint64_t merge_all_bytes(const struct merge *m)
{
	return m->all_bytes;
}

uint64_t merge_too_long(const struct merge *m)
{
	return m->too_long;
}

int merge_files(const struct merge *m, merge_visit *visit, void *arg)
{
	int r = 0;
	for (size_t i = 0; i < m->count && r == 0; i++)
		r = visit(arg, m->sources[i].name, m->sources[i].size);
	return r;
}
