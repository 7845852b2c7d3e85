/* See verify.h: one file of the log, line by line. After a line that is wrong the next one is judged by what stands there, so that one change is told once. */
#include "audit/verify_state.h"

#include "audit/event.h"
#include "audit/reader.h"
#include "audit/scan.h"
#include "common/cleanup.h"

#include <fcntl.h>
#include <sys/stat.h>

#define LIFECYCLE_FRONT "{\"class_uid\":6002," /* event.c writes class_uid first */
#define DECISION_FRONT  "{\"class_uid\":400"   /* of the network's classes, 4001 to 4003 */
#define CHECKPOINT_CODE "\"status_code\":\"audit.checkpoint\""

/** A reading in progress. */
struct reading {
	struct verify *v;
	struct verify_segment *s;
	const struct verify_entry
		*entries;          /* what the index says of this file, lowest line first */
	size_t entry_count, entry; /* entry: the next to be met */
	uint64_t at;               /* line of the file */
};

/** The state of the index that a chain's first line names. */
static int index_visit(void *arg, const struct audit_line *line)
{
	struct verify_segment *s = arg;
	struct slice head = audit_line_text(line, "unmapped.eclusa.index.head");
	if (head.len == DIGEST_TEXT_BYTES - 1) {
		s->saw_index = true;
		s->index_last = audit_line_number_at(line, "unmapped.eclusa.index.last");
		(void)slice_copy(head, s->index_head, sizeof(s->index_head)); /* it fits */
	}
	return 0;
}

static void read_index_state(struct verify_segment *s, struct slice line)
{
	struct audit_read read = {.visit = index_visit, .arg = s};
	(void)audit_read_line(&read, line); /* one that is no event names none */
}

/** A checkpoint must speak of the line before it, and be signed by the key that the caller has. */
static void check_checkpoint(struct reading *r, struct slice line)
{
	struct verify_segment *s = r->s;
	struct checkpoint c;
	if (memmem(line.ptr, line.len, CHECKPOINT_CODE, sizeof(CHECKPOINT_CODE) - 1) == NULL)
		return;
	if (checkpoint_read(line, &c) < 0) {
		verify_find(r->v, VERIFY_SIGNATURE, s->name, r->at, "a checkpoint that is none");
		return;
	}
	if (c.key[0] == '\0')
		return; /* said in the log: there was no key */
	r->v->result->checkpoints++;
	if (strcmp(c.chain, s->chain) != 0 || c.last != s->last || strcmp(c.head, s->head) != 0)
		verify_find(r->v, VERIFY_SIGNATURE, s->name, r->at,
			"a checkpoint of another line than the one before it");
	else if (r->v->options->key == NULL)
		return;
	else if (checkpoint_verify(&c, r->v->options->key) < 0)
		verify_find(r->v, VERIFY_SIGNATURE, s->name, r->at,
			"a checkpoint that the given key did not sign (it names key %s)", c.key);
	else
		s->signed_last = c.last;
}

/** What the index says of this line. */
static void check_entries(struct reading *r, uint64_t number, struct slice hash)
{
	while (r->entry < r->entry_count && r->entries[r->entry].last <= number) {
		const struct verify_entry *e = &r->entries[r->entry++];
		if (e->last == number && !slice_equal(hash, slice_of(e->head)))
			verify_find(r->v, VERIFY_REPLACED, r->s->name, r->at,
				"not the line %llu that the index has", (unsigned long long)number);
	}
}

static void check_follows(struct reading *r, uint64_t number, const struct chain_link *link)
{
	const struct verify_segment *s = r->s;
	bool same = slice_equal(link->chain, slice_of(s->chain));
	bool follows = slice_equal(link->prev, slice_of(s->head));
	unsigned long long is = number, expected = s->last + 1;
	if (same && follows && is == expected)
		return;
	if (same && is > expected)
		verify_find(r->v, VERIFY_ORDER, s->name, r->at,
			"%llu lines are missing before line %llu", is - expected, is);
	else if (same && is < expected)
		verify_find(r->v, VERIFY_ORDER, s->name, r->at,
			"line %llu stands where line %llu belongs", is, expected);
	else
		verify_find(r->v, VERIFY_ORDER, s->name, r->at,
			"line %llu does not follow the one before it", is);
}

static void check_line(struct reading *r, struct slice line)
{
	struct verify_segment *s = r->s;
	struct chain_link link;
	uint64_t number = chain_sequence(line);
	if (line.len > AUDIT_LINE_BYTES_MAX || number == 0 ||
		!chain_read(line, CHAIN_EVENT_CLOSING, &link)) {
		verify_find(r->v, VERIFY_NO_LINE, s->name, r->at, "no line of the log");
		return;
	}
	bool skip = number < r->v->options->from;
	if (!skip && !chain_link_holds(&link))
		verify_find(
			r->v, VERIFY_CHANGED, s->name, r->at, "its hash is not that of its bytes");
	if (s->lines == 0) {
		(void)slice_copy(link.chain, s->chain, sizeof(s->chain)); /* they fit */
		(void)slice_copy(link.prev, s->prev, sizeof(s->prev));
		s->first = number;
		read_index_state(s, line);
	} else if (!skip) {
		check_follows(r, number, &link);
	}
	if (!skip)
		check_entries(r, number, link.hash);
	s->decides |= slice_starts(line, SLICE(DECISION_FRONT));
	if (slice_starts(line, SLICE(LIFECYCLE_FRONT)))
		check_checkpoint(r, line);
	(void)slice_copy(link.hash, s->head, sizeof(s->head)); /* it fits */
	s->last = number;
	s->lines++;
}

/** What can be said once the end is reached. */
static void check_end(struct reading *r)
{
	const struct verify_segment *s = r->s;
	uint64_t listed = r->entry_count == 0 ? 0 : r->entries[r->entry_count - 1].last;
	/* Whoever ends a file has its end in the index before the mark goes. */
	if (!s->open && r->entry_count > 0 && s->last > listed)
		verify_find(r->v, VERIFY_INDEX, s->name, r->at,
			"ends with line %llu, and the index has it up to line %llu: the index's end is cut off, or lines were added",
			(unsigned long long)s->last, (unsigned long long)listed);
	if (r->entry < r->entry_count)
		verify_find(r->v, VERIFY_SHORT, s->name, r->at,
			"ends with line %llu, and the index has line %llu: its end is cut off, or it is an older copy",
			(unsigned long long)s->last,
			(unsigned long long)r->entries[r->entry_count - 1].last);
}

static int read_lines(struct reading *r, struct scan *scan)
{
	struct slice line;
	uint64_t told = 0;
	int got;
	while ((got = scan_next(scan, &line)) > 0) {
		r->at = scan->number;
		if (scan->whole)
			check_line(r, line);
		else if (line.len >= SCAN_BUFFER_BYTES)
			verify_find(r->v, VERIFY_NO_LINE, r->s->name, r->at, "no line of the log");
		else if (!r->s->open)
			verify_find(r->v, VERIFY_TORN, r->s->name, r->at, "a line without its end");
		if (scan->bytes - told >= SCAN_BUFFER_BYTES) {
			verify_advance(r->v, scan->bytes - told);
			told = scan->bytes;
		}
	}
	verify_advance(r->v, scan->bytes - told);
	r->v->result->bytes += scan->bytes;
	return got;
}

int verify_segment_read(struct verify *v, struct verify_segment *s, struct failure *why)
{
	const char *slash = strrchr(s->name, '/');
	struct reading r = {.v = v, .s = s};
	auto_fd fd = openat(verify_base(v), s->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "%s", s->name);
	if (!S_ISREG(st.st_mode))
		return failure_set(why, -EINVAL, "%s: not a file of the log", s->name);
	r.entries = verify_index_of(&v->index, slash != NULL ? slash + 1 : s->name, &r.entry_count);
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* only faster */
	struct scan scan = {.fd = fd};
	int e = read_lines(&r, &scan);
	scan_fini(&scan);
	if (e < 0)
		return failure_errno(why, e, "%s", s->name);
	check_end(&r);
	v->result->lines += s->lines;
	return 0;
}
