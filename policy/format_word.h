/* The words of one statement in their one spelling and order. */
#ifndef ECLUSA_POLICY_FORMAT_WORD_H
#define ECLUSA_POLICY_FORMAT_WORD_H

#include "common/buf.h"
#include "policy/lexer.h"

/** Sort the attributes of a statement. */
void format_sort(struct statement_line *line);
/** Append word @index of a sorted statement. */
void format_word(const struct statement_line *line, size_t index, struct buf *to);

#endif
