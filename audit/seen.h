/* Which events were met already, by their metadata.uid: one may stand in a log twice, written and then completed after a crash. */
#ifndef ECLUSA_AUDIT_SEEN_H
#define ECLUSA_AUDIT_SEEN_H

#include "common/slice.h"

struct audit_uid;

/** Zero-initialise. */
struct audit_seen {
	struct audit_uid *slots;
	size_t capacity; /* a power of two */
	size_t count;
};

/** @return 1 when it is new, 0 when it was there, -EINVAL when this is no UUID, -ENOMEM. */
int audit_seen_add(struct audit_seen *seen, struct slice uid);
void audit_seen_fini(struct audit_seen *seen);

#endif
