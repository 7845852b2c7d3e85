/* See gzip.h. */
#include "export/gzip.h"

#include <errno.h>
#include <zlib.h>

#define WINDOW_GZIP  (15 + 16) /* the largest window, with a gzip header */
#define MEMORY_LEVEL 8

int gzip_append(struct slice text, struct buf *to)
{
	z_stream z = {.avail_in = 0};
	if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WINDOW_GZIP, MEMORY_LEVEL,
		    Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	char *room;
	uLong bound = deflateBound(&z, text.len);
	int result = text.len > UINT32_MAX || bound > UINT32_MAX ? -ENOBUFS
								 : buf_reserve(to, bound, &room);
	if (result == 0) {
		z.next_in = (z_const Bytef *)text.ptr;
		z.avail_in = (uInt)text.len;
		z.next_out = (Bytef *)room;
		z.avail_out = (uInt)bound;
		result = deflate(&z, Z_FINISH) == Z_STREAM_END ? 0 : -ENOBUFS;
		if (result == 0)
			buf_grew(to, bound - z.avail_out);
	}
	(void)deflateEnd(&z); /* of a whole stream, or one that is given up */
	return result;
}
