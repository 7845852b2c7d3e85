/*
 * eclusa-export itself: one process that may read the audit log and parses nothing of it, and one for each sink, which has its credentials
 * and gets the log as descriptors. The first keeps the others running and writes down their numbers.
 */
#ifndef ECLUSA_EXPORT_SUPER_H
#define ECLUSA_EXPORT_SUPER_H

#include "export/config.h"

struct super_options {
	const struct export_config *config;
	bool once;           /* end when every sink has everything */
	const char *metrics; /* where Prometheus is answered: scrape.h; NULL: nowhere */
};

/** Blocks until SIGTERM or SIGINT, or with once until everything is delivered. @return 0 or negative errno with a line in @why. */
int super_run(const struct super_options *options, struct failure *why);

#endif
