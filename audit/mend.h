/*
 * Completing an event line that a crash tore: what is appended makes it one valid JSON object again, so that
 * nothing that was written is ever taken back. Input is the front of a line of event.c.
 */
#ifndef ECLUSA_AUDIT_MEND_H
#define ECLUSA_AUDIT_MEND_H

#include "common/buf.h"

/**
 * Append to @to what @torn lacks, without newline: ends of strings and objects, metadata.sequence, the marks
 * recovered and torn in unmapped.eclusa. @return 0; -EINVAL when it can't be the front of an event (then a newline is all
 * that helps); -ENOMEM.
 */
int mend_line(struct slice torn, uint64_t sequence, struct buf *to);

#endif
