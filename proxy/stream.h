/*
 * A connection with its buffers, plain or inside TLS: non-blocking reads into a bounded buffer,
 * writes out of one, readiness from the loop. Knows bytes and ends, and nothing of what they mean.
 * Input: a peer's bytes.
 */
#ifndef ECLUSA_PROXY_STREAM_H
#define ECLUSA_PROXY_STREAM_H

#include "common/buf.h"
#include "proxy/poller.h"
#include "proxy/tls.h"

/** Told when the descriptor became ready; never from inside of a stream_*() call. */
typedef void stream_wake(void *arg);

/** Bytes that wait in the streams of one owner, as of their last stream_watch(). Over the limit each stream has less room. */
struct stream_account {
	size_t bytes;
	size_t limit;
};

enum stream_want { STREAM_READS = 1, STREAM_WRITES = 2 };

/** Fields are for reading; only in and out are used directly: consume from in, append to out. */
struct stream {
	struct poller *poller; /* borrowed */
	struct poller_target target;
	int fd;
	struct tls_session *tls; /* NULL: plain */
	struct buf in;           /* received, not used yet; at most STREAM_BUFFER_BYTES */
	struct buf out;          /* to be sent; writers stop at STREAM_BUFFER_BYTES */
	size_t peeked;           /* bytes at the end of in that are still in the socket */
	bool ended;              /* the peer ended its direction in an orderly way */
	bool broken; /* an error, a reset, TLS cut short: nothing more is said or heard */
	bool mute;   /* the peer takes nothing more; what it said before can still be read */
	bool said_end;
	bool readable; /* as far as known: until a read would block */
	bool writable;
	bool plenty; /* the last read took all that there was room for: the next one may take more */
	bool much;   /* the last read took more than a head or two */
	bool held;   /* who reads it has no room: nothing more is wanted now */
	bool owed;   /* bytes for it wait in a pipe */
	bool handshaking;
	bool handshake_writes; /* it waits for room to send */
	bool stepwise; /* a read may get less than is there: before the end, and up to an urgent byte, tcp(7) */
	bool asked;       /* it will be told if it is ready now: nothing was since it asked */
	unsigned wanted;  /* of enum stream_want: what it is woken for */
	uint32_t watched; /* what the kernel was asked for; 0: nothing yet */
	stream_wake *wake;
	void *arg;
	struct stream_account *account; /* set by the owner, and outlives the stream; NULL: none */
	size_t counted;                 /* of the account's bytes */
	struct tls_fault fault;         /* of a broken TLS stream */
};

/** Takes over @fd (connected, non-blocking). @return NULL when out of memory; then @fd is closed. */
struct stream *stream_new(struct poller *poller, int fd, stream_wake *wake, void *arg);
/** Close and release; bytes not yet sent are lost. Accepts NULL. */
void stream_free(struct stream *s);
/** stream_free() with a reset instead of an orderly end: what was sent must not look complete. */
void stream_reset(struct stream *s);

/** Read once, if anything may be there and in has room. @return whether something happened. */
bool stream_fill(struct stream *s);
/** Ask the descriptor itself: nothing came but what TLS has to say, no end, and nothing waits in the buffer. */
bool stream_is_silent(struct stream *s);
/**
 * As stream_fill() on a plain stream, but the bytes stay in the socket until stream_take() says
 * how many of them belong here; what follows is left for who reads the descriptor next.
 */
bool stream_peek(struct stream *s);
void stream_take(struct stream *s, size_t len);
/** Send what waits. @return whether something happened. */
bool stream_flush(struct stream *s);
/**
 * Between a plain stream's socket and a pipe, without a copy: as much as there is, or as there is room for, up to @len.
 * @return how much; 0: see readable, ended and broken, or writable and mute.
 */
size_t stream_to_pipe(struct stream *s, int pipe_fd, size_t len);
size_t stream_from_pipe(struct stream *s, int pipe_fd, size_t len);
/** Begin TLS over the descriptor; the session is owned. Then stream_handshake() until it is done. */
void stream_start_tls(struct stream *s, struct tls_session *session);
/** tls_handshake(). TLS_ERROR makes the stream broken, with s->fault. */
enum tls_result stream_handshake(struct stream *s);
/** Throw away what came, undecrypted: nothing more is said after this. @return how much. */
size_t stream_discard(struct stream *s);
/** Tell the peer that everything was said: close_notify and FIN. Once; out must be empty. */
void stream_end(struct stream *s);
/** The same where the stream is freed next, which says the FIN, and whatever came was read. */
void stream_end_last(struct stream *s);
/** Be woken for what the stream waits for. @reading: whether more bytes are wanted at all. */
void stream_watch(struct stream *s, bool reading);
/** Release the memory of empty buffers. */
void stream_trim(struct stream *s);

/** How much one of its buffers may hold now. */
static inline size_t stream_capacity(const struct stream *s)
{
	bool scarce = s->account != NULL && s->account->bytes >= s->account->limit;
	return scarce ? STREAM_READ_BYTES : STREAM_BUFFER_BYTES;
}

/** Room for more in out, up to the limit at which writers stop. */
static inline size_t stream_room(const struct stream *s)
{
	size_t used = buf_len(&s->out);
	size_t capacity = stream_capacity(s);
	return used < capacity ? capacity - used : 0;
}

#endif
