/*
 * The segment as the recorder keeps it: lines reach the disk within SPOOL_SYNC_MS of being written, many at a time; room is kept for the
 * lines of a full disk; checkpoints are written when they are due.
 */
#ifndef ECLUSA_PROXY_SPOOL_H
#define ECLUSA_PROXY_SPOOL_H

#include "audit/segment.h"
#include "ipc/message.h"
#include "proxy/disk.h"

#define SPOOL_SYNC_MS 25   /* from the first line that is not on the disk until it is asked for */
#define SPOOL_LATE_MS 2000 /* without the disk's answer, before requests are denied */

struct spool {
	struct audit_segment *segment;
	int segment_fd;
	struct disk *disk;
	int attest_fd; /* to the keeper; -1: no checkpoints */
	uint64_t
		unsynced_ns; /* since when lines wait that the disk was not asked for; 0: none does */
	uint64_t asked_ns;   /* when it was asked last */
	int error;           /* its last answer: 0 or negative errno */
	bool answered;       /* and nobody has heard it yet */
	uint64_t covered;    /* the last line that is a checkpoint, or behind which one stands */
	uint64_t uncovered_ns; /* since when lines wait for one; 0: none does */
};

/** Lines were written. */
void spool_wrote(struct spool *s);
/** Whether lines wait, for so long that the disk is to be asked. It answers one question at a time. */
bool spool_sync_due(const struct spool *s);
/** Ask the disk for all lines that were written so far, if there are any. @return whether it is asked now. */
bool spool_sync(struct spool *s);
/** Whether it has answered since; s->error has what. */
bool spool_synced(struct spool *s);
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
