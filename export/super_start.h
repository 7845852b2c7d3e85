/* What eclusa-export does before it has sinks: its user, its rights, and its folders. */
#ifndef ECLUSA_EXPORT_SUPER_START_H
#define ECLUSA_EXPORT_SUPER_START_H

#include "export/config.h"

/** What it stands on. Descriptors are owned. */
struct super_base {
	char audit_folder[EXPORT_VALUE_BYTES];
	int audit_fd;
	int state_fd;
	int lock_fd; /* of the state folder: held by every process of this exporter */
};

/**
 * Open the folders and become the configured user: afterwards nothing can be written that is not that user's, and of root's rights only that
 * to read is left. @return 0 or negative errno with a line in @why.
 */
int super_start(const struct export_config *config, struct super_base *ret, struct failure *why);
void super_base_fini(struct super_base *b);

#endif
