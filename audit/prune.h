/*
 * Deleting files of the log that ended before a moment, with a line in the index for each, so that a file that was pruned and one that
 * somebody took away are two things. What was pruned in the index but is still there was on its way: it is deleted the next time.
 */
#ifndef ECLUSA_AUDIT_PRUNE_H
#define ECLUSA_AUDIT_PRUNE_H

#include "common/failure.h"

#include <stdint.h>

struct prune_result {
	uint64_t files, bytes; /* that are gone now */
};

/** @return 0, or negative errno and a line in @why; *ret also tells what was done before that. */
int audit_prune(int folder_fd, uint64_t before_ms, struct prune_result *ret, struct failure *why);

#endif
