/* See cursor.h. Numbers are decimal, a thing a line, and the last line says that it is whole. */
#include "export/cursor.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#define HEAD "eclusa-export cursor 1"

struct cursor_segment *cursor_add(struct cursor *c, struct slice name)
{
	struct cursor_segment *made = calloc(1, sizeof(*made));
	struct cursor_segment **more =
		reallocarray(c->segments, c->count + 1, sizeof(struct cursor_segment *));
	if (more != NULL)
		c->segments = more;
	if (made == NULL || more == NULL || slice_copy(name, made->name, sizeof(made->name)) < 0) {
		free(made);
		return NULL;
	}
	made->fd = -1;
	c->segments[c->count++] = made;
	return made;
}

struct cursor_segment *cursor_find(const struct cursor *c, struct slice name)
{
	for (size_t i = c->count; i-- > 0;) { /* what is asked for is mostly new */
		if (slice_equal(name, slice_of(c->segments[i]->name)))
			return c->segments[i];
	}
	return NULL;
}

void cursor_remove(struct cursor *c, struct cursor_segment *segment)
{
	size_t i = 0;
	while (c->segments[i] != segment)
		i++;
	fd_close(&segment->fd);
	free(segment);
	memmove(&c->segments[i], &c->segments[i + 1],
		(c->count - i - 1) * sizeof(struct cursor_segment *));
	c->count--;
}

void cursor_fini(struct cursor *c)
{
	while (c->count > 0)
		cursor_remove(c, c->segments[c->count - 1]);
	free(c->segments);
	*c = (struct cursor){.count = 0};
}

int cursor_write(const struct cursor *c, struct buf *to)
{
	(void)buf_printf(to, HEAD "\nindex %" PRIu64, c->index_offset); /* errors show below */
	if (c->index_mark > 0)
		(void)buf_printf(to, " %" PRIu64, c->index_mark);
	(void)buf_printf(to, "\ndelivered %" PRIu64 "\nquarantined %" PRIu64 "\nlost %" PRIu64 "\n",
		c->delivered, c->quarantined, c->lost);
	for (size_t i = 0; i < c->count; i++) {
		const struct cursor_segment *s = c->segments[i];
		(void)buf_printf(to,
			"segment %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %" PRIu64 "\n", s->name,
			s->offset, s->sequence, s->skip_through, s->closed ? "closed" : "open",
			s->last);
	}
	return buf_append(to, SLICE("end\n"));
}

/** The next word of a line. Behind the last one nothing stands, not even a space: line->ptr is NULL then. */
static bool take_word(struct slice *line, struct slice *ret)
{
	struct slice rest = {NULL, 0};
	if (line->ptr == NULL)
		return false;
	if (!slice_split(*line, ' ', ret, &rest))
		*ret = *line;
	else if (rest.len == 0)
		return false;
	*line = rest;
	return true;
}

static bool take_number(struct slice *line, uint64_t *ret)
{
	struct slice word;
	return take_word(line, &word) && slice_decimal(word, INT64_MAX, false, ret) == 0;
}

/** "NAME NUMBER" as the whole next line. */
static bool take_named(struct slice *text, struct slice name, uint64_t *ret)
{
	struct slice line, word;
	return slice_split(*text, '\n', &line, text) && take_word(&line, &word) &&
		slice_equal(word, name) && take_number(&line, ret) && line.ptr == NULL;
}

/** "index OFFSET MARK"; cursors of before had no mark. */
static bool take_index(struct slice *text, struct cursor *to)
{
	struct slice line, word;
	if (!slice_split(*text, '\n', &line, text) || !take_word(&line, &word) ||
		!slice_equal(word, SLICE("index")) || !take_number(&line, &to->index_offset))
		return false;
	return line.ptr == NULL ||
		(take_number(&line, &to->index_mark) && to->index_mark > 0 && line.ptr == NULL);
}

/** Behind "segment ". */
static int take_segment(struct slice line, struct cursor *to)
{
	struct slice name, state;
	uint64_t offset, sequence, skip, last;
	if (!take_word(&line, &name) || !folder_name_is_valid(name) ||
		!take_number(&line, &offset) || !take_number(&line, &sequence) ||
		!take_number(&line, &skip) || !take_word(&line, &state) ||
		!take_number(&line, &last) || line.ptr != NULL ||
		to->count == CURSOR_SEGMENTS_MAX || cursor_find(to, name) != NULL)
		return -EBADMSG;
	bool closed = slice_equal(state, SLICE("closed"));
	if (!closed && !slice_equal(state, SLICE("open")))
		return -EBADMSG;
	struct cursor_segment *s = cursor_add(to, name);
	if (s == NULL)
		return -ENOMEM;
	s->offset = s->read = offset;
	s->sequence = sequence;
	s->skip_through = skip;
	s->closed = closed;
	s->last = last;
	return 0;
}

static int parse(struct slice text, struct cursor *to)
{
	struct slice line;
	if (!slice_split(text, '\n', &line, &text) || !slice_equal(line, SLICE(HEAD)) ||
		!take_index(&text, to) || !take_named(&text, SLICE("delivered"), &to->delivered) ||
		!take_named(&text, SLICE("quarantined"), &to->quarantined) ||
		!take_named(&text, SLICE("lost"), &to->lost))
		return -EBADMSG;
	while (slice_split(text, '\n', &line, &text)) {
		struct slice word;
		if (slice_equal(line, SLICE("end")))
			return text.len == 0 ? 0 : -EBADMSG;
		if (!take_word(&line, &word) || !slice_equal(word, SLICE("segment")))
			return -EBADMSG;
		int r = take_segment(line, to);
		if (r < 0)
			return r;
	}
	return -EBADMSG;
}

int cursor_parse(struct slice text, struct cursor *ret)
{
	struct cursor made = {.count = 0};
	int r = parse(text, &made);
	if (r < 0)
		cursor_fini(&made);
	else
		*ret = made;
	return r;
}

static void file_names(const char *name, char *ret_name, char *ret_new, size_t capacity)
{
	(void)snprintf(ret_name, capacity, "%s.cursor", name); /* a sink's name is short */
	(void)snprintf(ret_new, capacity, "%s.cursor.new", name);
}

int cursor_load(int state_fd, const char *name, struct cursor *ret, struct failure *why)
{
	char file[FOLDER_NAME_BYTES], ignored[FOLDER_NAME_BYTES];
	struct buf text = {.limit = 2 * CURSOR_BYTES_MAX};
	file_names(name, file, ignored, sizeof(file));
	int r = file_read(state_fd, file, CURSOR_BYTES_MAX, &text);
	if (r == -ENOENT) {
		*ret = (struct cursor){.count = 0};
		r = 0;
	} else if (r == 0) {
		r = cursor_parse(buf_slice(&text), ret);
	}
	buf_fini(&text);
	if (r == -EBADMSG)
		return failure_set(why, r,
			"%s in the state folder is damaged; without it everything is sent again",
			file);
	return r < 0 ? failure_errno(why, r, "%s in the state folder", file) : 0;
}

int cursor_save(const struct cursor *c, int state_fd, const char *name, struct failure *why)
{
	char file[FOLDER_NAME_BYTES], made[FOLDER_NAME_BYTES];
	struct buf text = {.limit = CURSOR_BYTES_MAX};
	file_names(name, file, made, sizeof(file));
	int r = cursor_write(c, &text);
	auto_fd fd = r < 0 ? r
			   : openat(state_fd, made,
				     O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r == 0 && fd < 0)
		r = -errno;
	if (r == 0)
		r = file_write_all(fd, buf_slice(&text));
	if (r == 0 &&
		(fsync(fd) < 0 || renameat(state_fd, made, state_fd, file) < 0 ||
			fsync(state_fd) < 0))
		r = -errno;
	buf_fini(&text);
	return r < 0 ? failure_errno(why, r, "%s in the state folder", file) : 0;
}
