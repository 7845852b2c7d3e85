/* See verify.h: the folder as a whole. Files are listed before the index is read, and read after it: so what runs beside this add is no finding. */
#include "audit/verify_state.h"

#include "audit/index.h"
#include "common/cleanup.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

static const char *const kind_names[] = {
	[VERIFY_CHANGED] = "changed",
	[VERIFY_NO_LINE] = "no-line",
	[VERIFY_ORDER] = "order",
	[VERIFY_TORN] = "torn",
	[VERIFY_SHORT] = "short",
	[VERIFY_REPLACED] = "replaced",
	[VERIFY_MISSING] = "missing",
	[VERIFY_UNLISTED] = "unlisted",
	[VERIFY_INDEX] = "index",
	[VERIFY_SIGNATURE] = "signature",
	[VERIFY_UNSIGNED] = "unsigned",
};
static_assert(array_size(kind_names) == VERIFY_KIND_COUNT, "a name for every kind");

const char *verify_kind_name(enum verify_kind kind)
{
	return kind_names[kind];
}

void verify_find(struct verify *v, enum verify_kind kind, const char *file, uint64_t line,
	const char *format, ...)
{
	struct verify_result *r = v->result;
	va_list args;
	if (r->count == VERIFY_FINDINGS_MAX) {
		r->left_out++;
		return;
	}
	if (r->findings == NULL)
		r->findings = calloc(VERIFY_FINDINGS_MAX, sizeof(*r->findings));
	char *name = strdup(file);
	if (r->findings == NULL || name == NULL) {
		free(name);
		r->left_out++; /* out of memory; that there is one is what counts */
		return;
	}
	struct verify_finding *f = &r->findings[r->count++];
	*f = (struct verify_finding){.kind = kind, .file = name, .line = line};
	va_start(args, format);
	(void)vsnprintf(f->text, sizeof(f->text), format, args); /* cut when too long */
	va_end(args);
}

void verify_advance(struct verify *v, uint64_t bytes)
{
	v->done_bytes += bytes;
	if (v->options->progress != NULL)
		v->options->progress(v->options->arg, v->done_bytes, v->all_bytes);
}

int verify_base(const struct verify *v)
{
	return v->options->files != NULL ? AT_FDCWD : v->options->folder_fd;
}

/** Whether some process holds the file, as the one does that has it written. */
static bool is_held(const struct verify *v, const char *name)
{
	auto_fd fd = openat(verify_base(v), name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static int add_segment(struct verify *v, const char *name, struct failure *why)
{
	const char *slash = strrchr(name, '/'), *base = slash != NULL ? slash + 1 : name;
	char link[VERIFY_NAME_BYTES + 8];
	struct stat st;
	if (v->segment_count == v->segment_capacity) {
		size_t capacity = v->segment_capacity == 0 ? 64 : 2 * v->segment_capacity;
		struct verify_segment *more =
			reallocarray(v->segments, capacity, sizeof(*v->segments));
		if (more == NULL)
			return failure_errno(why, -ENOMEM, "audit verify");
		v->segments = more;
		v->segment_capacity = capacity;
	}
	struct verify_segment *s = &v->segments[v->segment_count];
	*s = (struct verify_segment){.name = strdup(name)};
	if (s->name == NULL)
		return failure_errno(why, -ENOMEM, "audit verify");
	v->segment_count++;
	if (strcmp(base, AUDIT_INDEX_NAME) == 0)
		return failure_set(why, -EINVAL,
			"%s: an index, which is read with its folder: --audit-dir %.*s", name,
			slash == NULL ? 1 : (int)(slash - name) + (slash == name),
			slash == NULL ? "." : name);
	if (fstatat(verify_base(v), name, &st, 0) < 0)
		return failure_errno(why, -errno, "%s", name);
	if (S_ISDIR(st.st_mode))
		return failure_set(why, -EISDIR, "%s: a folder: --audit-dir %s", name, name);
	v->all_bytes += (uint64_t)st.st_size;
	size_t stem = strlen(base) - (slice_ends(slice_of(base), SLICE(".jsonl")) ? 6 : 0);
	(void)snprintf(link, sizeof(link), "open/%.*s", (int)stem, base);
	s->open = v->options->folder_fd >= 0 &&
		faccessat(v->options->folder_fd, link, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	s->held = s->open && is_held(v, name);
	return 0;
}

static int segment_compare_name(const void *a, const void *b)
{
	const struct verify_segment *x = a, *y = b;
	return strcmp(x->name, y->name);
}

static int list_folder(struct verify *v, struct failure *why)
{
	int again = openat(v->options->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	if (dir == NULL) {
		fd_close(&again);
		return failure_errno(why, -errno, "audit folder");
	}
	int r = 0;
	struct dirent *entry;
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (slice_ends(slice_of(entry->d_name), SLICE(".jsonl")) &&
			strcmp(entry->d_name, AUDIT_INDEX_NAME) != 0)
			r = add_segment(v, entry->d_name, why);
	}
	(void)closedir(dir); /* only read */
	if (r == 0 && v->segment_count > 0)
		qsort(v->segments, v->segment_count, sizeof(*v->segments), segment_compare_name);
	return r;
}

/** A log that the index does not have, and has no reason not to have. */
static void check_listed(struct verify *v)
{
	if (!v->index.there && v->segment_count > 0)
		verify_find(v, VERIFY_MISSING, AUDIT_INDEX_NAME, 0, "the index is missing");
	for (size_t i = 0; i < v->segment_count && v->index.there; i++) {
		const struct verify_segment *s = &v->segments[i];
		size_t count;
		/* A first line is written before the index has the file: so long a killed run may have none there. */
		bool begun = s->held || (s->open && s->lines <= 1);
		if (!begun && verify_index_of(&v->index, s->name, &count) == NULL)
			verify_find(v, VERIFY_UNLISTED, s->name, 0,
				"the index has no such file: it was put here, or the index is an older copy");
	}
}

static bool has_segment(const struct verify *v, const char *name)
{
	const struct verify_segment wanted = {.name = (char *)(uintptr_t)name};
	return v->segment_count > 0 &&
		bsearch(&wanted, v->segments, v->segment_count, sizeof(wanted),
			segment_compare_name) != NULL;
}

/** A file that the index has must be there. Entries are in order of names. */
static void check_missing(struct verify *v)
{
	for (size_t i = 0; i < v->index.count; i++) {
		const struct verify_entry *e = &v->index.entries[i];
		bool last = i + 1 == v->index.count ||
			strcmp(e->segment, v->index.entries[i + 1].segment) != 0;
		bool gone = last && !has_segment(v, e->segment);
		v->result->pruned += gone && e->pruned;
		if (gone && !e->pruned && e->last >= v->options->from)
			verify_find(v, VERIFY_MISSING, e->segment, 0,
				"the index has it, up to line %llu", (unsigned long long)e->last);
	}
}

/** What chains saw of the index when they began must still be in it. */
static void check_index_states(struct verify *v)
{
	const struct verify_index *index = &v->index;
	for (size_t i = 0; i < v->segment_count && index->there; i++) {
		const struct verify_segment *s = &v->segments[i];
		if (!s->saw_index || s->index_last == 0)
			continue;
		if (s->index_last > index->count) {
			verify_find(v, VERIFY_INDEX, AUDIT_INDEX_NAME, 0,
				"ends with entry %zu; when %s began it had %llu", index->count,
				s->name, (unsigned long long)s->index_last);
		} else if (strcmp(index->by_number[s->index_last - 1].hash, s->index_head) != 0) {
			verify_find(v, VERIFY_INDEX, AUDIT_INDEX_NAME, s->index_last,
				"not the entry that was there when %s began", s->name);
		}
	}
}

static int segment_compare_chain(const void *a, const void *b)
{
	const struct verify_segment *x = a, *y = b;
	int order = strcmp(x->chain, y->chain);
	return order != 0 ? order : (x->first > y->first) - (x->first < y->first);
}

/** Whether what ended in this line was pruned: then a chain may begin behind it. */
static bool was_pruned(const struct verify *v, uint64_t last, const char *head)
{
	for (size_t i = 0; i < v->index.count; i++) {
		const struct verify_entry *e = &v->index.entries[i];
		if (e->pruned && e->last == last && strcmp(e->head, head) == 0)
			return true;
	}
	return false;
}

/** Segments of one chain continue one another; the first begins it. */
static void check_joint(
	struct verify *v, const struct verify_segment *before, const struct verify_segment *s)
{
	char zeros[DIGEST_TEXT_BYTES];
	unsigned long long first = s->first, last = before == NULL ? 0 : before->last;
	if (s->first < v->options->from && before == NULL)
		return;
	memset(zeros, '0', sizeof(zeros) - 1);
	zeros[sizeof(zeros) - 1] = '\0';
	const char *head = before == NULL ? zeros : before->head;
	bool asked_for_all = v->options->files == NULL;
	if (before == NULL && !asked_for_all)
		return; /* what was before it was not asked about */
	bool follows = s->first == last + 1 && strcmp(s->prev, head) == 0;
	if (follows || was_pruned(v, s->first - 1, s->prev))
		return;
	if (s->first != last + 1)
		verify_find(v, VERIFY_ORDER, s->name, 1,
			"begins with line %llu of its chain, where line %llu belongs", first,
			last + 1);
	else
		verify_find(v, VERIFY_ORDER, s->name, 1, "does not follow the file before it");
}

/** The highest entry of the index that some signature covers: one in a chain that began when the index had it. */
static uint64_t signed_index(const struct verify *v)
{
	uint64_t last = 0;
	for (size_t i = 0; i < v->segment_count; i++) {
		const struct verify_segment *s = &v->segments[i];
		if (s->signed_last > 0 && s->saw_index && s->index_last > last)
			last = s->index_last;
	}
	return last;
}

/** The last line of a file that a signature covers, its own or one of the index. */
static uint64_t signed_line(const struct verify *v, const struct verify_segment *s, uint64_t index)
{
	uint64_t last = s->signed_last;
	size_t count;
	const struct verify_entry *e = verify_index_of(&v->index, s->name, &count);
	for (size_t i = 0; e != NULL && i < count; i++) {
		if (e[i].number <= index && e[i].last > last)
			last = e[i].last;
	}
	return last < s->last ? last : s->last;
}

/** What is known of a chain while its parts are gone through. */
struct verify_chain {
	bool covered, decides, held;
};

/** At a chain's last part: nobody signed any of it, and it says what was let pass. */
static void check_covered(
	struct verify *v, const struct verify_chain *chain, const struct verify_segment *last)
{
	if (v->options->key == NULL || chain->covered || !chain->decides || chain->held ||
		last->last < v->options->from)
		return;
	verify_find(v, VERIFY_UNSIGNED, last->name, 0,
		"no signature covers a line of this chain, and it has decisions: its checkpoints were taken out, or it was put here%s",
		last->open ? ", or its run was killed" : "");
}

/** Chains, in order of their parts; also counts what is not signed. */
static void check_chains(struct verify *v)
{
	uint64_t index = signed_index(v);
	struct verify_chain chain = {0};
	if (v->segment_count > 0)
		qsort(v->segments, v->segment_count, sizeof(*v->segments), segment_compare_chain);
	for (size_t i = 0; i < v->segment_count; i++) {
		const struct verify_segment *s = &v->segments[i];
		const struct verify_segment *before = i > 0 ? &v->segments[i - 1] : NULL;
		const struct verify_segment *after =
			i + 1 < v->segment_count ? &v->segments[i + 1] : NULL;
		v->result->unfinished += s->open;
		if (s->chain[0] == '\0')
			continue;
		bool begins = before == NULL || strcmp(before->chain, s->chain) != 0;
		bool ends = after == NULL || strcmp(after->chain, s->chain) != 0;
		check_joint(v, begins ? NULL : before, s);
		if (begins)
			chain = (struct verify_chain){0};
		chain.covered |= signed_line(v, s, index) >= s->first;
		chain.decides |= s->decides;
		chain.held |= s->held;
		if (ends)
			check_covered(v, &chain, s);
		v->result->chains += begins;
		uint64_t left = s->last - signed_line(v, s, index);
		uint64_t bare = left < s->lines ? left : s->lines;
		if (!ends && after->signed_last > 0)
			bare = 0; /* the next part is signed, and it names this one's end */
		v->result->unsigned_lines += bare;
		v->result->unsigned_chains += ends && bare > 0;
	}
}

static int verify_all(struct verify *v, struct failure *why)
{
	const struct verify_options *o = v->options;
	int r = 0;
	for (size_t i = 0; i < o->file_count && r == 0; i++)
		r = add_segment(v, o->files[i], why);
	if (o->files == NULL)
		r = list_folder(v, why);
	if (r == 0 && o->folder_fd >= 0)
		r = verify_index_read(v, why);
	for (size_t i = 0; i < v->segment_count && r == 0; i++)
		r = verify_segment_read(v, &v->segments[i], why);
	if (r < 0)
		return r;
	v->result->files = v->segment_count;
	if (o->files == NULL) {
		check_listed(v);
		check_missing(v);
		check_index_states(v);
	}
	check_chains(v);
	return 0;
}

int audit_verify(
	const struct verify_options *options, struct verify_result *ret, struct failure *why)
{
	struct verify v = {.options = options, .result = ret};
	int r = verify_all(&v, why);
	for (size_t i = 0; i < v.segment_count; i++)
		free(v.segments[i].name);
	free(v.segments);
	verify_index_fini(&v.index);
	return r;
}

void verify_fini(struct verify_result *r)
{
	for (size_t i = 0; i < r->count; i++)
		free(r->findings[i].file);
	free(r->findings);
	*r = (struct verify_result){0};
}
