/* See buf.h. */
#include "common/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define BUF_FIRST_BYTES 512

void buf_init(struct buf *b, size_t limit)
{
	*b = (struct buf){.limit = limit};
}

void buf_fini(struct buf *b)
{
	size_t limit = b->limit;
	free(b->data);
	buf_init(b, limit);
}

static int buf_fail(struct buf *b, int code)
{
	b->failed = true;
	return code;
}

int buf_reserve_more(struct buf *b, size_t want, char **ret_ptr)
{
	size_t limit = b->limit == 0 ? BUF_LIMIT_DEFAULT : b->limit;
	size_t len = buf_len(b);
	if (b->failed || want > limit || len > limit - want)
		return buf_fail(b, -ENOBUFS);
	if (b->capacity - b->end < want && b->start > 0) {
		memmove(b->data, b->data + b->start, len);
		b->start = 0;
		b->end = len;
	}
	if (b->capacity - b->end < want) {
		size_t capacity = b->capacity == 0 ? BUF_FIRST_BYTES : b->capacity;
		while (capacity < len + want)
			capacity *= 2;
		char *data = realloc(b->data, capacity);
		if (data == NULL)
			return buf_fail(b, -ENOMEM);
		b->data = data;
		b->capacity = capacity;
	}
	*ret_ptr = b->data + b->end;
	return 0;
}

void buf_consume(struct buf *b, size_t len)
{
	b->start += len;
	if (b->start >= b->end) {
		b->start = 0;
		b->end = 0;
	}
}

void buf_clear(struct buf *b)
{
	b->start = 0;
	b->end = 0;
	b->failed = false;
}

int buf_append(struct buf *b, struct slice text)
{
	char *room;
	if (text.len == 0)
		return b->failed ? -ENOBUFS : 0;
	int r = buf_reserve(b, text.len, &room);
	if (r < 0)
		return r;
	memcpy(room, text.ptr, text.len);
	buf_grew(b, text.len);
	return 0;
}

int buf_append_text(struct buf *b, const char *text)
{
	return buf_append(b, slice_of(text));
}

int buf_printf(struct buf *b, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	va_list again;
	va_copy(again, args);
	int len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	char *room;
	int r = len < 0 ? buf_fail(b, -EINVAL) : buf_reserve(b, (size_t)len + 1, &room);
	if (r == 0) {
		(void)vsnprintf(room, (size_t)len + 1, format, again);
		buf_grew(b, (size_t)len);
	}
	va_end(again);
	return r;
}
