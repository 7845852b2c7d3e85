/*
 * HTTP/1.1 message bodies (RFC 9112 sections 6, 7): reading one framing incrementally, writing
 * another. Payload is never copied here: a reader points into the caller's input, a writer gives
 * the bytes that go before and after. Input: a peer's bytes. Chunk extensions are checked and
 * dropped. Trailers are checked, bounded and dropped: a proxy may (RFC 9112 7.1.2), and a field
 * after the body could not be judged before the body went out.
 */
#ifndef ECLUSA_PROXY_BODY_H
#define ECLUSA_PROXY_BODY_H

#include "common/buf.h"
#include "proxy/http_fault.h"

enum body_kind {
	BODY_NONE,   /* no body, whatever length was announced */
	BODY_LENGTH, /* exactly length bytes */
	BODY_CHUNKED,
	BODY_UNTIL_CLOSE, /* responses only; towards a client: the end of the connection is the end
			   */
};

/** How a message's end is found. @length only for BODY_LENGTH. */
struct body_framing {
	enum body_kind kind;
	uint64_t length;
};

enum body_result {
	BODY_MORE, /* all usable input was consumed; call again when there is more */
	BODY_DATA, /* a payload; call again with what follows the consumed bytes */
	BODY_DONE, /* the body ended; what follows the consumed bytes belongs to the next message */
	BODY_ERROR, /* malformed; the connection can't be used further. Sticky. */
};

struct limits;

/** A body being read; plain data without resources. Fields are the reader's own, but payload_total
 * is for all to read. */
struct body_reader {
	enum body_kind kind;
	int state;
	uint64_t remaining;     /* of the length or of the chunk */
	uint64_t payload_total; /* payload bytes handed out so far: what limits and budgets count */
	uint32_t line_bytes;
	uint32_t trailer_bytes;
	uint16_t digits;
	uint16_t trailer_fields;
	bool upstream;               /* faults are 502 */
	const struct limits *limits; /* borrowed; NULL: the largest */
	struct http_fault fault;
};

/** @upstream whether the body is a response's: then faults say 502 instead of 400. @limits of chunk lines and trailers, borrowed; NULL: the largest. */
void body_reader_init(struct body_reader *r, struct body_framing framing, bool upstream,
	const struct limits *limits);

/**
 * Read on. @in the unread input; it may be empty (a body without bytes is DONE at once).
 * *ret_consumed: how many bytes of @in were used, always set; *ret_payload: with BODY_DATA a
 * non-empty part of these bytes (still in @in: use it before dropping them), else empty. Does not
 * block or allocate.
 */
enum body_result body_read(
	struct body_reader *r, struct slice in, size_t *ret_consumed, struct slice *ret_payload);

/** The peer closed in an orderly way. @return BODY_DONE for BODY_UNTIL_CLOSE or a body already
 * done, else BODY_ERROR: it was cut. */
enum body_result body_read_end(struct body_reader *r);

/** Payload so far, and what is known to follow: all of a length, or the rest of a chunk whose size was said. Saturates. */
uint64_t body_reader_announced(const struct body_reader *r);
/** Whether the body is over; then body_read() uses no more input. */
bool body_reader_done(const struct body_reader *r);

/** A body being written. */
struct body_writer {
	enum body_kind kind;
	uint64_t remaining; /* BODY_LENGTH */
};

#define BODY_PREFIX_BYTES 24

/** What surrounds one payload on the wire. */
struct body_frame {
	size_t prefix_len;
	char prefix[BODY_PREFIX_BYTES];
	struct slice suffix; /* static text */
};

void body_writer_init(struct body_writer *w, struct body_framing framing);
/** The bytes before and after a payload of @len bytes (for len 0 none). @return 0, -EOVERFLOW: more
 * than the announced length. */
int body_frame_payload(struct body_writer *w, size_t len, struct body_frame *ret);
/** The bytes that complete the body, perhaps none. @return 0, -EPIPE: less than the announced
 * length was written; cut. */
int body_frame_end(struct body_writer *w, struct slice *ret);

/** body_frame_payload() and the payload itself appended to @out; the one copy. @return 0,
 * -EOVERFLOW, -ENOBUFS, -ENOMEM. */
int body_append(struct body_writer *w, struct slice payload, struct buf *out);
/** body_frame_end() appended to @out. */
int body_append_end(struct body_writer *w, struct buf *out);

#endif
