/* See live.h. The links in open/ name the files that are being written; each is read on from where the last look ended. */
#include "cli/live.h"

#include "audit/lines.h"
#include "audit/reader.h"
#include "audit/ring.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { ACTION_ALLOWED = 1, ACTION_DENIED = 2, DISPOSITION_ERROR = 27 };

struct live_file {
	char name[LIVE_NAME_BYTES]; /* in the folder, ".jsonl" too */
	off_t at;                   /* lines before it were taken */
	bool seen;                  /* in open/ at this look */
};

struct live {
	int folder_fd;
	struct live_file files[LIVE_FILES_MAX];
	size_t file_count;
	struct live_sandbox sandboxes[LIVE_FILES_MAX];
	size_t sandbox_count;
	const struct live_file *reading;
	uint64_t left_out, looked_ns;
	bool behind;
};

struct live *live_new(int folder_fd)
{
	struct live *l = calloc(1, sizeof(*l));
	if (l != NULL)
		l->folder_fd = folder_fd;
	return l;
}

void live_free(struct live *l)
{
	free(l);
}

const struct live_sandbox *live_sandboxes(const struct live *l, size_t *ret_count)
{
	*ret_count = l->sandbox_count;
	return l->sandboxes;
}

uint64_t live_left_out(const struct live *l)
{
	return l->left_out;
}

bool live_is_behind(const struct live *l)
{
	return l->behind;
}

/* --- events --- */

static struct live_sandbox *sandbox_find(struct live *l, const char *id)
{
	for (size_t i = 0; i < l->sandbox_count; i++) {
		if (strcmp(l->sandboxes[i].id, id) == 0)
			return &l->sandboxes[i];
	}
	return NULL;
}

/** The one that an event is of; NULL: there is no room, or it is of none. */
static struct live_sandbox *sandbox_of(struct live *l, const struct audit_line *line)
{
	char id[LIVE_TEXT_BYTES];
	struct slice text = audit_line_text(line, "container.uid");
	if (text.len == 0)
		text = audit_line_text(line, "src_endpoint.uid");
	if (text.len == 0)
		return NULL;
	(void)slice_escape(text, id, sizeof(id));
	struct live_sandbox *s = sandbox_find(l, id);
	if (s == NULL && l->sandbox_count < LIVE_FILES_MAX) {
		s = &l->sandboxes[l->sandbox_count++];
		*s = (struct live_sandbox){.began_ms = audit_line_number_at(line, "time")};
		memcpy(s->id, id, sizeof(s->id));
	}
	if (s != NULL)
		memcpy(s->file, l->reading->name, sizeof(s->file));
	return s;
}

static void take_denial(struct live_sandbox *s, const struct audit_line *line)
{
	char reason[LIVE_TEXT_BYTES], host[LIVE_TEXT_BYTES];
	struct slice name = audit_line_text(line, "dst_endpoint.hostname");
	if (name.len == 0)
		name = audit_line_text(line, "dst_endpoint.ip");
	(void)snprintf(s->denied, sizeof(s->denied), "%s %s",
		slice_escape(audit_line_text(line, "status_code"), reason, sizeof(reason)),
		slice_escape(name, host, sizeof(host)));
}

static void take_profile(struct live_sandbox *s, const struct audit_line *line)
{
	struct slice label = audit_line_text(line, "metadata.labels.0");
	if (s->profile[0] == '\0' && slice_starts(label, SLICE("profile:")))
		(void)slice_escape(slice_part(label, sizeof("profile:") - 1, label.len), s->profile,
			sizeof(s->profile));
}

/** A sum of what a file says stops at the end of the numbers. */
static void add(struct live_sandbox *s, enum live_count what, uint64_t count)
{
	if (__builtin_add_overflow(s->counts[what], count, &s->counts[what]))
		s->counts[what] = UINT64_MAX;
}

static int take_event(void *arg, const struct audit_line *line)
{
	struct live *l = arg;
	struct live_sandbox *s = sandbox_of(l, line);
	uint64_t action;
	if (s == NULL || !audit_line_counts(line))
		return 0;
	take_profile(s, line);
	if (audit_line_is_answer(line) || !audit_line_find_number(line, "action_id", &action))
		return 0;
	uint64_t count = audit_line_number_at(line, "unmapped.eclusa.count");
	count = count == 0 ? 1 : count;
	if (action == ACTION_DENIED) {
		take_denial(s, line);
		add(s, LIVE_DENIED, count);
	} else if (action == ACTION_ALLOWED) {
		add(s, LIVE_ALLOWED, count);
		if (audit_line_number_at(line, "disposition_id") == DISPOSITION_ERROR)
			add(s, LIVE_FAILED, count);
		if (audit_line_text(line, "unmapped.eclusa.would").len > 0)
			add(s, LIVE_WOULD, count);
	}
	add(s, LIVE_OUT, audit_line_number_at(line, "traffic.bytes_out"));
	add(s, LIVE_IN, audit_line_number_at(line, "traffic.bytes_in"));
	return 0;
}

/* --- files --- */

/** Lines whose ends are there, up to a limit. @return 0 or negative errno. */
static int read_on(struct live *l, struct live_file *f)
{
	struct stat st;
	struct audit_read read = {.visit = take_event, .arg = l};
	struct slice line;
	if (fstatat(l->folder_fd, f->name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return 0; /* it went away, or is none of ours */
	off_t to = st.st_size - f->at > LIVE_TURN_BYTES ? f->at + LIVE_TURN_BYTES : st.st_size;
	struct lines lines = {.folder_fd = l->folder_fd, .name = f->name, .from = f->at, .to = to};
	int r = 1;
	l->reading = f;
	while (r == 1) {
		r = lines_next(&lines, &line);
		if (r == 1 && !lines.whole)
			break;
		f->at = lines.from - (off_t)(lines.end - lines.start);
		if (r == 1)
			r = audit_read_line(&read, line) < 0 ? -ENOMEM : 1;
	}
	lines_fini(&lines);
	l->behind |= to < st.st_size;
	return r < 0 ? r : 0;
}

static struct live_file *file_find(struct live *l, const char *name)
{
	for (size_t i = 0; i < l->file_count; i++) {
		if (strcmp(l->files[i].name, name) == 0)
			return &l->files[i];
	}
	if (l->file_count == LIVE_FILES_MAX)
		return NULL;
	struct live_file *f = &l->files[l->file_count++];
	*f = (struct live_file){0};
	(void)snprintf(f->name, sizeof(f->name), "%s", name); /* of the same size */
	return f;
}

/** "SANDBOX.ring", or with something between, as each worker has one. */
static void look_at_ring(struct live *l, const char *name)
{
	struct audit_ring_gauge gauge;
	char id[LIVE_NAME_BYTES], escaped[LIVE_TEXT_BYTES];
	struct slice ring = slice_of(name);
	if (slice_copy(slice_part(ring, 0, ring.len - sizeof(".ring") + 1), id, sizeof(id)) < 0 ||
		audit_ring_look(l->folder_fd, id, &gauge) < 0)
		return; /* it has just gone */
	struct slice owner = {id, strcspn(id, ".")};
	struct live_sandbox *s = sandbox_find(l, slice_escape(owner, escaped, sizeof(escaped)));
	if (s == NULL)
		return;
	s->open += gauge.open;
	s->waiting_bytes += gauge.waiting_bytes;
	s->stalled |= gauge.stalled;
}

/** What stands in open/: files first, since rings belong to sandboxes that are known by them. */
static int look_at_folder(struct live *l, DIR *dir, bool rings)
{
	struct dirent *entry;
	char name[LIVE_NAME_BYTES];
	int r = 0;
	rewinddir(dir);
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		bool is_ring = slice_ends(slice_of(entry->d_name), SLICE(".ring"));
		bool is_file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
		if (rings && is_ring)
			look_at_ring(l, entry->d_name);
		if (rings || is_ring || !is_file)
			continue;
		int len = snprintf(name, sizeof(name), "%s.jsonl", entry->d_name);
		struct live_file *f =
			len < 0 || (size_t)len >= sizeof(name) ? NULL : file_find(l, name);
		if (f == NULL) {
			l->left_out++;
			continue;
		}
		f->seen = true;
		r = read_on(l, f);
	}
	return r;
}

/** Forget files that are finished, and sandboxes whose last event stands in such a file. */
static void forget(struct live *l)
{
	size_t kept = 0;
	for (size_t i = 0; i < l->file_count; i++) {
		if (l->files[i].seen)
			l->files[kept++] = l->files[i];
	}
	l->file_count = kept;
	kept = 0;
	for (size_t i = 0; i < l->sandbox_count; i++) {
		bool live = false;
		for (size_t k = 0; k < l->file_count && !live; k++)
			live = strcmp(l->files[k].name, l->sandboxes[i].file) == 0;
		if (live)
			l->sandboxes[kept++] = l->sandboxes[i];
	}
	l->sandbox_count = kept;
}

static uint64_t rate(uint64_t more, uint64_t ns)
{
	return ns == 0 ? 0 : (uint64_t)((double)more * 1e12 / (double)ns);
}

/** @ns since the last look; 0: this is the first. */
static void measure(struct live *l, uint64_t ns)
{
	for (size_t i = 0; i < l->sandbox_count; i++) {
		struct live_sandbox *s = &l->sandboxes[i];
		for (size_t k = 0; k < LIVE_COUNTS; k++) {
			s->rates[k] = rate(s->counts[k] - s->before[k], ns);
			s->before[k] = s->counts[k];
		}
	}
}

int live_look(struct live *l)
{
	uint64_t now = clock_monotonic_ns();
	bool was_behind = l->behind;
	int fd = openat(l->folder_fd, "open", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r = dir == NULL && errno != ENOENT ? -errno : 0;
	l->left_out = 0;
	l->behind = false;
	for (size_t i = 0; i < l->file_count; i++)
		l->files[i].seen = false;
	for (size_t i = 0; i < l->sandbox_count; i++)
		l->sandboxes[i].open = l->sandboxes[i].waiting_bytes = l->sandboxes[i].stalled = 0;
	if (dir == NULL) {
		fd_close(&fd);
	} else {
		r = look_at_folder(l, dir, false);
		if (r == 0)
			r = look_at_folder(l, dir, true);
		(void)closedir(dir); /* only read */
	}
	forget(l);
	/* What was read late is no rate of now. */
	measure(l, l->looked_ns == 0 || was_behind || l->behind ? 0 : now - l->looked_ns);
	l->looked_ns = now;
	return r;
}
