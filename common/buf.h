/* A growable byte buffer with a limit: bytes are appended at the end and consumed at the front. */
#ifndef ECLUSA_COMMON_BUF_H
#define ECLUSA_COMMON_BUF_H

#include "common/slice.h"

#include <stdarg.h>

/** Owned bytes [start, end) of @data; never grows past @limit. Zero-initialise or buf_init(). */
struct buf {
	char *data;
	size_t start;
	size_t end;
	size_t capacity;
	size_t limit; /* bytes; 0 means BUF_LIMIT_DEFAULT */
	bool failed;  /* sticky: an append did not fit or memory ran out */
};

#define BUF_LIMIT_DEFAULT ((size_t)16 << 20)

void buf_init(struct buf *b, size_t limit);
/** Release the memory and leave an empty, usable buffer of the same limit. */
void buf_fini(struct buf *b);

static inline size_t buf_len(const struct buf *b)
{
	return b->end - b->start;
}

static inline struct slice buf_slice(const struct buf *b)
{
	return b->data == NULL ? (struct slice){NULL, 0}
			       : (struct slice){b->data + b->start, b->end - b->start};
}

/** What buf_reserve() does where memory has to be moved or fetched, or an error told. */
int buf_reserve_more(struct buf *b, size_t want, char **ret_ptr);

/** Room for @want more bytes at *ret_ptr; follow with buf_grew(). @return 0, -ENOBUFS, -ENOMEM. */
static inline int buf_reserve(struct buf *b, size_t want, char **ret_ptr)
{
	size_t limit = b->limit == 0 ? BUF_LIMIT_DEFAULT : b->limit;
	if (b->failed || want > b->capacity - b->end || buf_len(b) + want > limit ||
		b->data == NULL)
		return buf_reserve_more(b, want, ret_ptr);
	*ret_ptr = b->data + b->end; /* as nearly always */
	return 0;
}

static inline void buf_grew(struct buf *b, size_t len)
{
	b->end += len;
}

/** Drop @len bytes at the front. */
void buf_consume(struct buf *b, size_t len);
/** Drop @len bytes at the end, at most what is there. */
static inline void buf_drop_end(struct buf *b, size_t len)
{
	b->end -= len < buf_len(b) ? len : buf_len(b);
}
/** Drop everything, keep the memory. */
void buf_clear(struct buf *b);

/** Appends. @return 0, -ENOBUFS (limit), -ENOMEM; the failure is sticky in b->failed. */
int buf_append(struct buf *b, struct slice text);
int buf_append_text(struct buf *b, const char *text);
int buf_printf(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
