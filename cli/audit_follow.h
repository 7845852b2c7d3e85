/* What is written to an audit folder from now on: new lines of its segments and new segments, told by the kernel (inotify(7)). */
#ifndef ECLUSA_CLI_AUDIT_FOLLOW_H
#define ECLUSA_CLI_AUDIT_FOLLOW_H

#include "cli/audit_output.h"
#include "cli/audit_query.h"

struct followed;

/** Zero-initialise; release with audit_follow_fini(). */
struct audit_follow {
	int folder_fd, inotify_fd; /* the first is borrowed */
	int open_watch;            /* of the folder "open"; -1: not there yet */
	struct followed *files;
	size_t count, capacity;
};

/** Listen, from now on. @return 0, or negative errno after a line on stderr. */
int audit_follow_open(struct audit_follow *f, int folder_fd);
/**
 * Give the query the lines behind its picture, which was taken after audit_follow_open(), as they come, and write its output each
 * time. Ends when nobody reads the output, or with negative errno after a line on stderr.
 */
int audit_follow_run(struct audit_follow *f, struct audit_query *q, struct audit_output *output);
void audit_follow_fini(struct audit_follow *f);

#endif
