/* A segment from inside: shared by segment*.c, and by nobody else. */
#ifndef ECLUSA_AUDIT_SEGMENT_STATE_H
#define ECLUSA_AUDIT_SEGMENT_STATE_H

#include "audit/segment.h"

#define SEGMENT_BATCH_BYTES  ((size_t)64 << 10)
#define SEGMENT_DEVICE_BYTES 256
#define SEGMENT_BOOT_BYTES   64

/* No other key begins so, and a torn one may end anywhere in it. */
#define SEGMENT_SEAL_FIELD ",\"chain"

struct audit_segment {
	int fd;             /* borrowed */
	off_t end;          /* what we know of; another size means that others wrote */
	struct chain chain; /* its name is empty until it is known */
	off_t reserved;     /* the disk has room up to here */
	bool starved;       /* and has no more */
	char device[SEGMENT_DEVICE_BYTES]; /* ,"device":{...} */
	char boot[SEGMENT_BOOT_BYTES];     /* ,"boot_id":"..." */
	struct buf line;
	struct buf batch; /* lines on their way into one write() */
};

/* segment.c */
/** Take the lock and find the end. @return 0, then segment_unlock() is due. */
int segment_begin(struct audit_segment *s);
void segment_unlock(const struct audit_segment *s);
/** One write() or nothing: what a full disk cut short is taken back. */
int segment_write(struct audit_segment *s, struct slice text);
/** A line that ends the chain with this hash has been written. */
void segment_advance(struct audit_segment *s, const char hash[static DIGEST_TEXT_BYTES]);
/** Append an event's whole line, sealed; *ret_hash: the chain's head once it is written. @return 0, -ENOBUFS, -ENOMEM; @to may have a part of it, then. */
int segment_compose(struct audit_segment *s, const struct audit_event *e, struct buf *to,
	char ret_hash[static DIGEST_TEXT_BYTES]);
/** Under the lock and in sync. @return 0 or negative errno. */
int segment_put_event(struct audit_segment *s, const struct audit_event *e);

/* segment_tail.c */
/** Find the end and the chain's head when others have written. Under the lock, so a torn line's writer is dead. */
int segment_sync(struct audit_segment *s);

#endif
