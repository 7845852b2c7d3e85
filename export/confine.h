/*
 * What a sink's process may do: no capability, no new privileges, unreadable by others, no program, only the system calls and sockets that
 * its kind needs, and, where the kernel has Landlock, no file but those of its state folder, its output's folder, and what
 * name look-ups read.
 */
#ifndef ECLUSA_EXPORT_CONFINE_H
#define ECLUSA_EXPORT_CONFINE_H

#include "common/failure.h"

struct confine_setup {
	unsigned needs;     /* bits of enum sink_need */
	int state_fd;       /* folder that may be written */
	const char *output; /* a file whose folder may be written; NULL: none */
};

/** For good. @return 0 or negative errno with a line in @why; then the process must end. */
int confine_sink(const struct confine_setup *setup, struct failure *why);

#endif
