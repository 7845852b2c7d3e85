/*
 * The segment as the recorder keeps it: lines reach the disk within SPOOL_SYNC_MS of being written, many at a time; room is kept for the
 * lines of a full disk; checkpoints are written when they are due.
 */
#ifndef ECLUSA_PROXY_SPOOL_H
#define ECLUSA_PROXY_SPOOL_H

#include "audit/segment.h"
#include "ipc/message.h"

#define SPOOL_SYNC_MS                                                                              \
	25 /* from the first line that is not on the disk until it is asked to be; twice that with a slow disk's answer */

struct spool {
	struct audit_segment *segment;
	int segment_fd;
	int attest_fd;         /* to the keeper; -1: no checkpoints */
	uint64_t unsynced_ns;  /* since when lines wait for the disk; 0: none does */
	uint64_t covered;      /* the last line that is a checkpoint, or behind which one stands */
	uint64_t uncovered_ns; /* since when lines wait for one; 0: none does */
};

/** Lines were written. */
void spool_wrote(struct spool *s);
/** Lines that were written so far are on the disk. @return 0 or negative errno. */
int spool_commit(struct spool *s);
/** Do what is due. @return 0, or negative errno: the disk is full or failing, and requests must be denied. */
int spool_turn(struct spool *s);
/**
 * Go on in another file: the one before gets a checkpoint and is on the disk before the first line of this one. If a predecessor
 * had begun it, go on there. @return 0, then @fd is taken over; negative errno: the file before stays the one.
 */
int spool_move(struct spool *s, const struct message_segment *m, int fd);
/** The end: a last checkpoint. */
void spool_finish(struct spool *s);
/** Milliseconds until something is due, at most @limit_ms. */
int spool_timeout_ms(const struct spool *s, int limit_ms);

#endif
