/* See feed.h. Files take turns, so that one that is long does not keep others waiting. */
#include "export/feed_state.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <inttypes.h>
#include <sys/stat.h>

#define OPEN_FILES_MAX   256 /* descriptors; the one that was used longest ago is closed */
#define LINE_BYTES_GUESS 1500

int feed_open(int channel, struct cursor *cursor, struct feed **ret, struct failure *why)
{
	struct feed *f = calloc(1, sizeof(*f));
	if (f == NULL)
		return failure_errno(why, -ENOMEM, "audit folder");
	f->channel = channel;
	f->cursor = cursor;
	f->index_fd = -1;
	f->fresh = cursor->index_offset == 0 && cursor->count == 0;
	*ret = f;
	return 0;
}

void feed_free(struct feed *f)
{
	if (f == NULL)
		return;
	fd_close(&f->index_fd);
	names_fini(&f->names);
	free(f);
}

static void close_segment(struct feed *f, struct cursor_segment *s)
{
	if (s->fd < 0)
		return;
	fd_close(&s->fd);
	f->open_files--;
}

static void close_oldest(struct feed *f)
{
	struct cursor_segment *oldest = NULL;
	for (size_t i = 0; i < f->cursor->count; i++) {
		struct cursor_segment *s = f->cursor->segments[i];
		if (s->fd >= 0 && (oldest == NULL || s->used < oldest->used))
			oldest = s;
	}
	if (oldest != NULL)
		close_segment(f, oldest);
}

/** @return 0 or negative errno. */
static int open_segment(struct feed *f, struct cursor_segment *s)
{
	s->used = ++f->uses;
	if (s->fd >= 0)
		return 0;
	if (f->open_files >= OPEN_FILES_MAX)
		close_oldest(f);
	int fd = folder_ask(f->channel, s->name);
	if (fd < 0)
		return fd;
	s->fd = fd;
	f->open_files++;
	return 0;
}

static void drop_segment(struct feed *f, struct cursor_segment *s)
{
	close_segment(f, s);
	cursor_remove(f->cursor, s);
}

/** It was removed, or moved away, before all of it was delivered. */
static void lose_segment(struct feed *f, struct cursor_segment *s)
{
	uint64_t lost = s->fresh && s->offset == 0 ? 0
		: !s->closed                       ? 1
		: s->last > s->sequence            ? s->last - s->sequence
						   : 0;
	if (lost > 0)
		log_event(LOG_LEVEL_ERROR, "file-lost",
			"file=%s lines=%s%" PRIu64 " it is gone, and they were not delivered",
			s->name, s->closed ? "" : "at-least-", lost);
	f->cursor->lost += lost;
	drop_segment(f, s);
}

/** How far the file goes now. @return 0, -ENOENT, another negative errno. */
static int measure(struct feed *f, struct cursor_segment *s)
{
	struct stat st;
	int r = open_segment(f, s);
	if (r < 0)
		return r;
	if (fstat(s->fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0 && (uint64_t)st.st_size <= s->read && s->read == s->offset)
		s->closed = true; /* removed when all was delivered */
	if ((uint64_t)st.st_size < s->read && s->read == s->offset) {
		log_event(LOG_LEVEL_WARN, "file-replaced",
			"file=%s it is shorter than before: all of it is read", s->name);
		s->offset = s->read = s->sequence = 0;
	}
	s->size = (uint64_t)st.st_size;
	return 0;
}

/** Whether there is something to read; the beginning of a line that is being written is not. */
static bool is_unread(const struct cursor_segment *s)
{
	return s->size > s->read && s->size != s->partial;
}

int feed_look(struct feed *f, struct failure *why)
{
	bool unread = false;
	int r = feed_find(f, why);
	for (size_t i = f->cursor->count; r == 0 && i-- > 0;) {
		struct cursor_segment *s = f->cursor->segments[i];
		int error = measure(f, s);
		if (error == -ENOENT && s->read == s->offset)
			lose_segment(f, s);
		else if (error < 0 && error != -ENOENT)
			r = failure_errno(why, error, "audit folder: %s", s->name);
		else if (error == 0 && is_unread(s))
			unread = true;
		else if (error == 0 && s->closed && s->size <= s->read && s->offset == s->read)
			drop_segment(f, s);
	}
	return r < 0 ? r : unread || f->more;
}

/** Behind a line that is too long. @return bytes of @got that belong to it. */
static size_t skip(struct cursor_segment *s, struct slice got)
{
	ptrdiff_t end = slice_find(got, '\n');
	s->skipping = end < 0;
	return end < 0 ? got.len : (size_t)end + 1;
}

/** Read bytes of the file behind what is in raw. @return bytes or negative errno. */
static ssize_t read_more(struct batch *b, const struct cursor_segment *s, struct slice *ret)
{
	char *room;
	size_t want =
		s->size - s->read < batch_room(b) ? (size_t)(s->size - s->read) : batch_room(b);
	int r = buf_reserve(&b->raw, want, &room);
	if (r < 0)
		return r;
	ssize_t got = pread(s->fd, room, want, (off_t)s->read);
	if (got < 0)
		return -errno;
	*ret = (struct slice){room, (size_t)got};
	return got;
}

/** What was read becomes lines. *ret_used: bytes of it. @return 0 or negative errno. */
static int take_lines(struct batch *b, struct cursor_segment *s, struct slice got, size_t *ret_used,
	uint64_t *ret_sequence)
{
	const char *last = got.len == 0 ? NULL : memrchr(got.ptr, '\n', got.len);
	if (s->skipping) {
		*ret_used = skip(s, got);
		return 0;
	}
	if (last == NULL && got.len >= BATCH_LINE_BYTES_MAX) {
		s->skipping = true;
		*ret_used = got.len;
		buf_grew(&b->raw, BATCH_POISON_BYTES);
		return batch_take_poison(b, slice_part(got, 0, BATCH_POISON_BYTES),
			"the line is longer than 64 KiB");
	}
	if (last == NULL && s->closed && s->read + got.len == s->size) {
		*ret_used = got.len; /* torn, and nobody will end it */
		return 0;
	}
	size_t whole = last == NULL ? 0 : (size_t)(last - got.ptr) + 1;
	int r = batch_take(b, slice_part(got, 0, whole), s->skip_through, ret_used, ret_sequence);
	if (r == 0)
		buf_grew(&b->raw, *ret_used);
	return r;
}

/** Lines of one file into the batch. @return 0 or negative errno. */
static int read_segment(struct feed *f, struct batch *b, struct cursor_segment *s)
{
	struct slice bytes = {NULL, 0};
	uint64_t sequence = 0;
	size_t used = 0;
	int r = open_segment(f, s);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* the next look says so */
	ssize_t got = read_more(b, s, &bytes);
	if (got < 0)
		return (int)got;
	r = take_lines(b, s, bytes, &used, &sequence);
	if (r == 0 && used == 0 && s->read + bytes.len == s->size)
		s->partial = s->size;
	if (r < 0 || used == 0)
		return r;
	s->read += used;
	b->parts[b->part_count++] = (struct batch_part){s, s->read, sequence};
	return 0;
}

/** The chain's name, as it stands in a file's behind the time. */
static const char *chain_of(const struct cursor_segment *s)
{
	const char *dash = strchr(s->name, '-');
	return dash == NULL ? s->name : dash;
}

/**
 * A chain that goes on in another file is read in its order: a file waits until those before it are read. Files are in the order in which
 * they were begun, and were looked at last first, so that none of them had a line more then.
 */
static bool is_behind(const struct feed *f, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (is_unread(f->cursor->segments[i]) &&
			strcmp(chain_of(f->cursor->segments[i]),
				chain_of(f->cursor->segments[index])) == 0)
			return true;
	}
	return false;
}

/** How much is there to read, at most @limit. */
static size_t available(const struct feed *f, size_t limit)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < f->cursor->count && sum < limit; i++) {
		const struct cursor_segment *s = f->cursor->segments[i];
		sum += is_unread(s) ? s->size - s->read : 0;
	}
	return sum < limit ? (size_t)sum : limit;
}

int feed_take(struct feed *f, const struct sink_config *c, struct batch **ret, struct failure *why)
{
	size_t bytes = available(
		f, c->batch_bytes < BATCH_LINE_BYTES_MAX ? BATCH_LINE_BYTES_MAX : c->batch_bytes);
	size_t count = f->cursor->count;
	if (bytes == 0 || count == 0)
		return 0;
	struct batch *b = batch_new(c, bytes);
	int r = b == NULL ? -ENOMEM : 0;
	for (size_t i = 0; r == 0 && i < count && b->part_count < BATCH_PARTS_MAX; i++) {
		size_t at = (f->turn + i) % count;
		struct cursor_segment *s = f->cursor->segments[at];
		if (b->sink.count >= b->lines_max || batch_room(b) == 0)
			break;
		if (is_unread(s) && !is_behind(f, at))
			r = read_segment(f, b, s);
	}
	f->turn = (f->turn + 1) % count;
	if (r < 0 || b->part_count == 0) {
		batch_free(b);
		return r < 0 ? failure_errno(why, r, "audit folder") : 0;
	}
	*ret = b;
	return 1;
}

void feed_acknowledge(struct feed *f, const struct batch *b)
{
	for (size_t i = 0; i < b->part_count; i++) {
		const struct batch_part *part = &b->parts[i];
		f->bytes += part->end - part->segment->offset;
		part->segment->offset = part->end;
		if (part->sequence > part->segment->sequence)
			part->segment->sequence = part->sequence;
	}
	f->lines += b->sink.count;
}

void feed_lag(const struct feed *f, struct feed_lag *ret)
{
	struct feed_lag lag = {.bytes = 0};
	uint64_t line =
		f->lines > 0 && f->bytes > f->lines ? f->bytes / f->lines : LINE_BYTES_GUESS;
	for (size_t i = 0; i < f->cursor->count; i++) {
		const struct cursor_segment *s = f->cursor->segments[i];
		uint64_t bytes = s->size > s->offset ? s->size - s->offset : 0;
		bool known = s->closed && s->last >= s->sequence;
		lag.bytes += bytes;
		lag.events += known ? s->last - s->sequence : (bytes + line - 1) / line;
	}
	*ret = lag;
}
