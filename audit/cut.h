/* Cutting text to a size that counts what JSON escaping will add. */
#ifndef ECLUSA_AUDIT_CUT_H
#define ECLUSA_AUDIT_CUT_H

#include "common/buf.h"

/** How many leading bytes of @text take at most @limit bytes as a JSON string; never splits a character. */
size_t cut_fit(struct slice text, size_t limit);
/** Cut what is in @text, a "[cut:N]" at its end saying how much is missing. @return whether it was cut. */
bool cut_to(struct buf *text, size_t limit);
/** The same with what is behind the first @from bytes. */
bool cut_tail(struct buf *text, size_t from, size_t limit);

#endif
