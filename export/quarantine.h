/*
 * Lines that a receiver will never take, kept for people: NAME.quarantine.jsonl in the state folder, on the disk before the
 * cursor passes them. It has a limit, and a sink whose quarantine is full stands still until somebody looks at it: nothing is dropped.
 */
#ifndef ECLUSA_EXPORT_QUARANTINE_H
#define ECLUSA_EXPORT_QUARANTINE_H

#include "export/batch.h"

#define QUARANTINE_BYTES_MAX ((off_t)64 << 20)

/** Write the poison of a batch, if there is any. @return lines, or negative errno with a line in @why (-EDQUOT: full). */
int quarantine_write(int state_fd, const char *sink, const struct batch *b, struct failure *why);

#endif
