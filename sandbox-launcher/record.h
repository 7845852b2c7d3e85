/* What a run leaves in the audit log: its start, what the gateway and the filter refused, its end. One segment a run. */
#ifndef ECLUSA_SANDBOX_LAUNCHER_RECORD_H
#define ECLUSA_SANDBOX_LAUNCHER_RECORD_H

#include "audit/segment.h"
#include "ipc/message.h"
#include "sandbox-launcher/leased.h"
#include "sandbox-launcher/plan.h"

struct record {
	int folder;  /* -1 = not open */
	int segment; /* -1 = not open; of a service's sandbox, after its end: its lines alone */
	struct audit_segment *log; /* attached to it by record_start() */
	struct leased *leased;     /* whose service has the log, borrowed; NULL: it is our own */
	uint64_t start_ms;
	char name[128]; /* of the segment's file */
};

void record_init(struct record *r);
/** Folder and segment; then sandbox.start is in it. What can't be recorded must not run. */
int record_start(struct record *r, const struct plan *p, const char *id, struct failure *why);
/**
 * The same where a service has the log: it records the start, and gives the network. *ret is the caller's; the record is told of the end before
 * it is freed.
 */
int record_lease(struct record *r, const struct plan *p, struct leased **ret, struct failure *why);
/** Refused packets by class, refused system calls, then sandbox.exit. The segment has no other writer now. @counters may be NULL. */
int record_finish(struct record *r, const struct plan *p, const struct result *result,
	const struct message_counters_read *counters, struct failure *why);
void record_fini(struct record *r);

#endif
