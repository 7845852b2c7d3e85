/*
 * The program's output on its way out: captured up to a limit, or passed on. Bytes are the sandbox's: never
 * interpreted. Never blocks, so that a reader who stops can't hold up the clocks.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_STREAM_H
#define ECLUSA_SANDBOX_LAUNCHER_STREAM_H

#include "common/buf.h"

#define STREAM_CHUNK 65536

/** From a pipe to memory (to -1) or to a descriptor of ours. */
struct stream {
	int from;         /* borrowed, non-blocking; -1 once it ended */
	int to;           /* borrowed; -1: capture */
	bool closes_from; /* whoever reads is gone: the program should learn by SIGPIPE */
	struct buf kept;  /* captured bytes, or those still to be passed on */
	uint64_t limit;
	uint64_t total;  /* bytes that the program wrote */
	int write_error; /* errno with which passing on ended; 0 = none */
};

void stream_init(struct stream *s, int from, int to, uint64_t limit);
void stream_fini(struct stream *s);
/** Whether to poll @from for reading: not while passed-on bytes wait. */
bool stream_wants_read(const struct stream *s);
bool stream_wants_write(const struct stream *s);
bool stream_done(const struct stream *s);
/**
 * Take at most STREAM_CHUNK of what is there: a writer that is faster than we are must not keep the caller from its
 * other work. @return 0, or negative errno (out of memory). Sets from to -1 at the end.
 */
int stream_read(struct stream *s);
/** Pass on what fits. A reader who is gone ends the stream. */
void stream_write(struct stream *s);
/** What nobody takes is not waited for any more: an error of writing. A capture stays. */
void stream_give_up(struct stream *s, int error);
/** What a capture has, without a character at its end of which more may come; all of it once the writer is gone. */
struct slice stream_text(const struct stream *s);
/** Bytes cut from a capture; the last, incomplete UTF-8 character is cut, too. Call once at the end. */
uint64_t stream_cut(struct stream *s);

#endif
