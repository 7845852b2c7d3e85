/* What folder.c and recover.c share, and nobody else. */
#ifndef ECLUSA_AUDIT_FOLDER_STATE_H
#define ECLUSA_AUDIT_FOLDER_STATE_H

#include "audit/segment.h"

#define FOLDER_NAME_BYTES 256

/** Open a file of open/ that no living run holds. @return descriptor (locked), or negative errno. */
int folder_open_unheld(int open_fd, const char *name);

#endif
