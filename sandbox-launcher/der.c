/* See der.h. */
#include "sandbox-launcher/der.h"

#include <assert.h>
#include <errno.h>

#define HEADER_BYTES_MAX 5 /* tag, and a length below 2^24 */
#define LONG_FORM        0x80

/* @return the bytes of the header. */
static size_t write_header(unsigned char to[static HEADER_BYTES_MAX], unsigned char tag, size_t len)
{
	size_t bytes = len < LONG_FORM ? 0 : len < 0x100 ? 1 : len < 0x10000 ? 2 : 3;
	to[0] = tag;
	to[1] = (unsigned char)(bytes == 0 ? len : LONG_FORM | bytes);
	for (size_t i = 0; i < bytes; i++)
		to[2 + i] = (unsigned char)(len >> (8 * (bytes - 1 - i)));
	return 2 + bytes;
}

int der_wrap(struct buf *to, size_t start, unsigned char tag)
{
	unsigned char header[HEADER_BYTES_MAX];
	size_t len = buf_len(to) - start;
	char *room;
	if (to->failed)
		return -ENOMEM;
	if (len >= 1 << 24) {
		to->failed = true;
		return -ENOBUFS;
	}
	size_t more = write_header(header, tag, len);
	int r = buf_reserve(to, more, &room);
	if (r < 0)
		return r;
	buf_grew(to, more);
	char *content = room - len;
	memmove(content + more, content, len);
	memcpy(content, header, more);
	return 0;
}

void der_front_init(struct der_front *f, size_t content_len)
{
	f->at = sizeof(f->bytes);
	f->len = content_len;
}

void der_front_add(struct der_front *f, struct slice text)
{
	assert(text.len <= f->at); /* what is wrapped is known beforehand, but for its length */
	f->at -= text.len;
	f->len += text.len;
	memcpy(f->bytes + f->at, text.ptr, text.len);
}

void der_front_wrap(struct der_front *f, unsigned char tag)
{
	unsigned char header[HEADER_BYTES_MAX];
	size_t bytes = write_header(header, tag, f->len);
	der_front_add(f, (struct slice){(const char *)header, bytes});
}

struct slice der_front_slice(const struct der_front *f)
{
	return (struct slice){(const char *)f->bytes + f->at, sizeof(f->bytes) - f->at};
}

/* The length behind the tag. @return the bytes of the header, 0: none that DER has. */
static size_t read_header(struct slice text, size_t *ret_len)
{
	size_t len = text.len < 2 ? 0 : (unsigned char)text.ptr[1], bytes = 0;
	if (text.len < 2)
		return 0;
	if (len >= LONG_FORM) {
		bytes = len - LONG_FORM;
		if (bytes == 0 || bytes > 3 || text.len < 2 + bytes)
			return 0;
		len = 0;
		for (size_t i = 0; i < bytes; i++)
			len = len << 8 | (unsigned char)text.ptr[2 + i];
	}
	*ret_len = len;
	return 2 + bytes;
}

int der_take(
	struct slice *rest, unsigned char tag, struct slice *ret_whole, struct slice *ret_content)
{
	size_t len = 0;
	if (rest->len == 0 || (unsigned char)rest->ptr[0] != tag)
		return -ENOENT;
	size_t header = read_header(*rest, &len);
	if (header == 0 || len > rest->len - header)
		return -EBADMSG;
	if (ret_whole != NULL)
		*ret_whole = slice_part(*rest, 0, header + len);
	if (ret_content != NULL)
		*ret_content = slice_part(*rest, header, header + len);
	*rest = slice_part(*rest, header + len, rest->len);
	return 0;
}
