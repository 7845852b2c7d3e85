/*
 * A segment: one append-only file of event lines. Any attached process may append: a lock of the file (fcntl, held for each append
 * or drain, freed by the kernel when its holder dies) makes it one writer at a time, and a writer that finds new lines
 * continues their sequence. The same lock makes the consumers of a ring one at a time.
 *
 * In the audit folder "open/" holds the rings and a second link of each segment that is being written, so that
 * recovery looks at what is unfinished and not at the whole history.
 */
#ifndef ECLUSA_AUDIT_SEGMENT_H
#define ECLUSA_AUDIT_SEGMENT_H

#include "audit/chain.h"
#include "audit/event.h"
#include "audit/ring.h"
#include "common/failure.h"

/**
 * What one run may fill. At the limit its lines wait in the ring and its requests are denied (deny.audit-full); its end is recorded
 * all the same. So a sandbox that provokes events can't fill the log's disk, which every other run needs.
 */
#define AUDIT_SEGMENT_BYTES_MAX ((off_t)256 << 20)

/**
 * Room on the disk that is kept for a segment beyond its end, so that a full disk still leaves some for the denials that it causes and
 * for the end of the run; of it the part that only the end may use.
 */
#define AUDIT_SEGMENT_RESERVE_BYTES     ((off_t)256 << 10)
#define AUDIT_SEGMENT_RESERVE_END_BYTES ((off_t)32 << 10)

struct audit_segment;

/** Default folder: /var/log/eclusa for root, else $XDG_STATE_HOME/eclusa/audit, else ~/.local/state/eclusa/audit. */
int audit_folder_default(bool root, char *ret_path, size_t capacity, struct failure *why);
/** Create (0700, parents too) and open an audit folder. @return descriptor or negative errno. */
int audit_folder_open(const char *path, struct failure *why);
/**
 * Complete what dead runs left: rings that nobody holds locked, torn last lines, and an end (sandbox.exit, event_code
 * audit.recovered, verdict unknown) for each run that has none. Called at each start. @return how many were completed.
 */
int audit_folder_recover(int folder_fd, struct failure *why);

/** Create <utc>-<id>.jsonl (0600, O_APPEND, readable through the same descriptor). @return descriptor. */
int audit_segment_create(
	int folder_fd, const char *id, char *ret_name, size_t capacity, struct failure *why);
/** The run ended in order: @name is no longer being written (its link in open/ goes). Recovery does the same for dead runs. */
void audit_segment_close(int folder_fd, const char *name);
/**
 * Start writing: finds the chain's head and number; completes a torn last line so that it stays one line. Borrows @fd.
 * @chain: its name while the segment is empty; NULL: continue what is there (-ENODATA when nothing is).
 */
int audit_segment_attach(
	int fd, const char *chain, struct audit_segment **ret, struct failure *why);
/**
 * Start writing the segment in which the chain of another one goes on. What is in @fd already is continued: then @before was at
 * its end. Opens nothing. @before stays as it is and is not needed afterwards.
 */
int audit_segment_follow(int fd, const struct audit_segment *before, struct audit_segment **ret,
	struct failure *why);
/** Bytes in it, as far as this writer knows. */
off_t audit_segment_size(const struct audit_segment *s);
/** Where the chain is, as far as this writer knows: up to date after an append of its own. */
const struct chain *audit_segment_chain(const struct audit_segment *s);
void audit_segment_free(struct audit_segment *s);
/**
 * Keep AUDIT_SEGMENT_RESERVE_BYTES free beyond the end. @return 0, also where the file system can't; -ENOSPC or another negative errno: what
 * is left is for denials.
 */
int audit_segment_reserve(struct audit_segment *s);
/** Nothing more will be written: give back what was kept. */
void audit_segment_release(struct audit_segment *s);
/** Append one line with one write(). @return 0 or negative errno (nothing half-written stays). */
int audit_segment_append_event(struct audit_segment *s, const struct audit_event *e);
/**
 * End a ring: the caller has released its own mapping and descriptors of it. Waits (at most 2 s) until no process holds it, moves what is
 * left into the segment, open decisions as recovered, and removes the file. @return lines or negative errno (-EBUSY: still held; the
 * next start's audit_folder_recover() completes it).
 */
int audit_ring_complete(int folder_fd, const char *id, struct audit_segment *s);
/**
 * Remove the file of a ring whose producer and consumer have both said that they are done, without waiting for their processes
 * to go. @return 0; -EBUSY: something is in it after all, use audit_ring_complete(); another negative errno.
 */
int audit_ring_retire(int folder_fd, const char *id);
/** Move all finished lines of a ring, advancing only after write(). With @orphaned also open decisions, marked recovered. @return lines or negative errno;
 * -EDQUOT: the segment has its size and this is not the end (@orphaned). */
int audit_segment_drain(struct audit_segment *s, struct audit_ring *ring, bool orphaned);

#endif
