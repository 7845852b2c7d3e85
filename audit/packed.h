/*
 * An event on its way from a worker to the recorder: what is known of it as numbers and texts, one behind the other. Texts are redacted
 * and cut when it is packed, so that no secret is ever in a ring; the line is made by whoever reads it. Reading takes nothing for granted: a
 * worker parses hostile bytes, and what it says of itself is a peer's word.
 */
#ifndef ECLUSA_AUDIT_PACKED_H
#define ECLUSA_AUDIT_PACKED_H

#include "audit/event.h"

#define AUDIT_PACKED_BYTES_MAX AUDIT_LINE_BYTES_MAX

/**
 * Append an event of a class that workers make (HTTP, network, DNS, entity). Without memory of its own, if @to has @limit free bytes. @limit: at most
 * AUDIT_PACKED_BYTES_MAX; texts are cut shorter to fit. What is counted on the way, and the time if it has none, is set in @e. @return 0; -EINVAL: another class; -ENOBUFS, -ENOMEM.
 */
int audit_event_pack(struct audit_event *e, size_t limit, struct buf *to);
/** An event with what it points to. */
struct audit_unpacked {
	struct audit_event event;
	struct audit_dns dns;
};

/** The event of these bytes, whose texts stay in them. @return 0, -EBADMSG: *ret is not to be used. */
int audit_event_unpack(struct slice packed, struct audit_unpacked *ret);

#endif
