/*
 * The life of a sink's process: reads lines, gives them to its sink, tries again with growing pauses, keeps poison aside, and moves
 * the cursor when lines are delivered. In order, at least once: what is not known to be delivered is given again, in the order
 * of the log.
 */
#ifndef ECLUSA_EXPORT_COURIER_H
#define ECLUSA_EXPORT_COURIER_H

#include "export/gauge.h"

#define COURIER_WINDOW_MAX 64 /* batches in memory */

struct courier_setup {
	const struct sink_config *config;
	struct sink *sink; /* borrowed */
	int channel;       /* where files of the log are asked for; its end is the order to stop */
	int notify_fd; /* inotify on the audit folder; -1: none, the log is looked at once a second */
	int state_fd;
	struct gauge *gauge;
	bool once; /* end when everything is delivered */
};

/** @return 0: told to stop, or @once and everything is delivered; negative errno with a line: it can't go on here. */
int courier_run(const struct courier_setup *setup, struct failure *why);

#endif
