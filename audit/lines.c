/* See lines.h. */
#include "audit/lines.h"

#include "audit/event.h"
#include "common/cleanup.h"

#include <assert.h>
#include <fcntl.h>

static_assert(LINES_BUFFER_BYTES > 2 * AUDIT_LINE_BYTES_MAX, "a whole line fits");

/** Read @len bytes at @at. @return how many there are, negative errno. */
static ssize_t read_at(const struct lines *l, char *to, size_t len, off_t at)
{
	auto_fd fd = openat(l->folder_fd, l->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	ssize_t got;
	do {
		got = pread(fd, to, len, at);
	} while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static int make_room(struct lines *l)
{
	if (l->data != NULL)
		return 0;
	off_t all = l->to - l->from;
	l->capacity = all < 1                     ? 1
		: all < (off_t)LINES_BUFFER_BYTES ? (size_t)all
						  : LINES_BUFFER_BYTES;
	l->data = malloc(l->capacity);
	return l->data == NULL ? -ENOMEM : 0;
}

/** More bytes behind those that are there. @return how many; 0: there are no more, or there is no room. */
static ssize_t fill_forwards(struct lines *l)
{
	if (l->start > 0)
		memmove(l->data, l->data + l->start, l->end - l->start);
	l->end -= l->start;
	l->start = 0;
	size_t room = l->capacity - l->end;
	off_t left = l->to - l->from;
	size_t want = left < (off_t)room ? (size_t)left : room;
	ssize_t got = want == 0 ? 0 : read_at(l, l->data + l->end, want, l->from);
	if (got <= 0)
		return got;
	l->end += (size_t)got;
	l->from += got;
	return got;
}

/** More bytes before those that are there; what is there ends where the buffer does. */
static ssize_t fill_backwards(struct lines *l)
{
	size_t have = l->end - l->start;
	size_t room = l->capacity - have;
	off_t left = l->to - l->from;
	size_t want = left < (off_t)room ? (size_t)left : room;
	if (have > 0)
		memmove(l->data + l->capacity - have, l->data + l->start, have);
	l->start = l->capacity - have;
	l->end = l->capacity;
	ssize_t got =
		want == 0 ? 0 : read_at(l, l->data + l->start - want, want, l->to - (off_t)want);
	if (got < 0)
		return got;
	if ((size_t)got < want)
		return -EIO; /* the file got shorter meanwhile: nobody of ours does that */
	l->start -= want;
	l->to -= (off_t)want;
	return (ssize_t)want;
}

static ssize_t fill_more(struct lines *l)
{
	return l->backwards ? fill_backwards(l) : fill_forwards(l);
}

/** Backwards: whether the last byte is the newline of the last line. A line's rest has none: it was taken with its end. */
static bool is_ended(const struct lines *l)
{
	return !l->passing_over && l->data[l->end - 1] == '\n';
}

/** Where the newline is that ends the first line, or that comes before the last one; -1: not in the buffer. */
static ptrdiff_t find_end(const struct lines *l)
{
	size_t have = l->end - l->start;
	if (have == 0)
		return -1;
	const char *from = l->data + l->start;
	if (!l->backwards) {
		const char *at = memchr(from, '\n', have);
		return at == NULL ? -1 : at - l->data;
	}
	const char *at = memrchr(from, '\n', have - is_ended(l));
	return at == NULL ? -1 : at - l->data;
}

/** Take the line up to the newline, or all that is left. */
static struct slice take(struct lines *l, ptrdiff_t newline)
{
	struct slice line;
	if (l->backwards) {
		size_t begin = newline < 0 ? l->start : (size_t)newline + 1;
		l->whole = is_ended(l);
		line = (struct slice){l->data + begin, l->end - begin - l->whole};
		l->end = begin;
	} else {
		size_t end = newline < 0 ? l->end : (size_t)newline;
		l->whole = newline >= 0;
		line = (struct slice){l->data + l->start, end - l->start};
		l->start = end + l->whole;
	}
	return line;
}

int lines_next(struct lines *l, struct slice *ret)
{
	for (;;) {
		int r = make_room(l);
		if (r < 0)
			return r;
		ptrdiff_t newline = find_end(l);
		ssize_t got = newline < 0 ? fill_more(l) : 0;
		if (got < 0)
			return (int)got;
		if (got > 0)
			continue;
		if (l->start == l->end)
			return 0;
		bool full = newline < 0 && l->from < l->to;
		struct slice line = take(l, newline);
		bool given = !l->passing_over && !full && line.len > 0;
		l->too_long += l->passing_over && !full;
		l->passing_over = full;
		if (given) {
			*ret = line;
			return 1;
		}
	}
}

void lines_fini(struct lines *l)
{
	free(l->data);
	l->data = NULL;
	l->start = l->end = l->capacity = 0;
}

uint64_t lines_time_ms(struct slice line)
{
	struct slice field = SLICE("\"time\":");
	const char *at = line.len == 0 ? NULL : memmem(line.ptr, line.len, field.ptr, field.len);
	uint64_t value = 0;
	if (at == NULL)
		return 0;
	struct slice rest = slice_part(line, (size_t)(at - line.ptr) + field.len, line.len);
	size_t end = 0;
	while (end < rest.len && rest.ptr[end] >= '0' && rest.ptr[end] <= '9')
		end++;
	return slice_decimal(slice_part(rest, 0, end), INT64_MAX, false, &value) == 0 ? value : 0;
}
