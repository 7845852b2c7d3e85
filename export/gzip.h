/* Compression of a request's body, RFC 1952, by zlib. */
#ifndef ECLUSA_EXPORT_GZIP_H
#define ECLUSA_EXPORT_GZIP_H

#include "common/buf.h"

/** Append one gzip member with @text to @to. @return 0, -ENOBUFS, -ENOMEM. */
int gzip_append(struct slice text, struct buf *to);

#endif
