/*
 * The recorder: the one process of the proxy that writes the audit segment. It moves lines from the workers' rings
 * into it, and completes the ring of a worker that died. What it can't write stays in the rings, and workers deny meanwhile.
 */
#ifndef ECLUSA_PROXY_RECORDER_H
#define ECLUSA_PROXY_RECORDER_H

#include "audit/segment.h"
#include "ipc/message.h"
#include "proxy/disk.h"

#include <stdint.h>

enum recorder_kind {
	RECORDER_ORPHAN = 1, /* super -> recorder: the worker of this ring is dead: complete it */
	RECORDER_FINISH,     /* super -> recorder: every worker has ended: complete all rings */
	RECORDER_DONE,    /* recorder -> super: that is done; for FINISH the recorder then ends */
	RECORDER_SEGMENT, /* super -> recorder, with a file: go on there */
	RECORDER_TAKEN,   /* recorder -> super: its first line is written */
	RECORDER_SETTLE,  /* super -> recorder: write what all rings hold, then say that it is */
	RECORDER_SETTLED, /* recorder -> super: it is in the log, or could not be written */
	RECORDER_WANTED,  /* recorder -> super: the file has its size, another one is due */
};

struct recorder_message {
	uint32_t kind;
	uint32_t ring;                     /* of ORPHAN, and of DONE after it */
	uint32_t finish;                   /* DONE after FINISH */
	int32_t result;                    /* of DONE and SETTLED: 0 or negative errno */
	char sandbox_id[SANDBOX_ID_BYTES]; /* of SETTLE and SETTLED: the same */
	struct message_segment segment;    /* of SEGMENT */
};

struct recorder_context {
	int channel_fd;                /* seqpacket to super */
	int wake_fd;                   /* non-blocking; a byte: some ring has a line */
	struct audit_segment *segment; /* attached */
	int segment_fd;                /* its descriptor */
	struct disk *disk;             /* opened */
	off_t segment_bytes;           /* at this size another one is asked for; 0: never */
	const struct message_segment
		*next; /* the one that a predecessor was to go on in; NULL: none */
	int next_fd;
	int attest_fd;         /* to the keeper, which signs checkpoints; -1: there are none */
	const int *commit_fds; /* eventfds of the workers of the first rings */
	unsigned commit_count;
	struct audit_ring *const *rings;
	unsigned ring_count;
};

/** Serve until FINISH or the end of the channel. Called in the forked, confined child. @return exit status. */
int recorder_run(const struct recorder_context *context);

#endif
