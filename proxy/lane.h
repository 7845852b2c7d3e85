/*
 * One direction of a connection that is passed on as bytes: from a stream to another, by the kernel
 * where both are plain, else through their buffers. It takes more only when what it took is gone, so that a slow reader slows the
 * writer. Knows nothing of what the bytes mean.
 */
#ifndef ECLUSA_PROXY_LANE_H
#define ECLUSA_PROXY_LANE_H

#include "proxy/pipe.h"
#include "proxy/stream.h"

/** Zero-initialise, then set @from and @to, which are borrowed. */
struct lane {
	struct stream *from, *to;
	struct pipe pipe;
	bool fed;    /* the caller fills @from's buffer itself, to look at what comes */
	bool copies; /* there is no pipe for it */
	bool last;   /* nothing more is taken: what waits ends it */
	bool over;   /* nothing more will pass; @to has been told if it was an orderly end */
	bool cut;    /* it was none */
};

/** Bytes that were taken and have not left. */
size_t lane_waiting(const struct lane *l);
/** Send what waits. @return whether something happened. */
bool lane_send(struct lane *l);
/** Take what came, up to @room bytes, nothing waiting. @return how many; 0 also with an end, which shows in @from. */
size_t lane_take(struct lane *l, struct pipe_pool *pool, uint64_t room);
/** Pass on an end, orderly or not, behind the last byte. @return whether there was one. */
bool lane_end(struct lane *l);
/** Ask for what it waits for: both streams' readers and writers. */
void lane_watch(struct lane *l);
/** Throw away what waits in its pipe. @return how much */
size_t lane_drop(struct lane *l, struct pipe_pool *pool);

#endif
