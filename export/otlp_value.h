/*
 * A JSON text as OTLP writes values of any type (AnyValue of its JSON form): each value is in an object that says its type, and integers
 * are strings. One pass without a tree; strings keep their escapes. What is no JSON text is refused; of strings and numbers only
 * their ends are looked at, since facts_find() judged the line.
 */
#ifndef ECLUSA_EXPORT_OTLP_VALUE_H
#define ECLUSA_EXPORT_OTLP_VALUE_H

#include "common/buf.h"

#define OTLP_DEPTH_MAX 64 /* objects and arrays in one another */

/** Append @text as an AnyValue. @return 0; -EBADMSG (a part may have been appended), -ENOBUFS, -ENOMEM. */
int otlp_value_write(struct slice text, struct buf *to);

#endif
