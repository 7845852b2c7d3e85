/*
 * A connection to a receiver that only listens: TCP, or TLS 1.3 over it. Syslog has no acknowledgement, so what the
 * receiver's program has read must be concluded: see wire_read_up_to() and wire_finish(). Blocking, with deadlines. What the receiver
 * sends is read for its end and its alerts alone.
 */
#ifndef ECLUSA_EXPORT_WIRE_H
#define ECLUSA_EXPORT_WIRE_H

#include "common/failure.h"
#include "common/slice.h"

/** TLS for one receiver: trusted CAs, our certificate, its name. See tls_client.c. */
struct tls_client;

struct tls_client_options {
	struct slice authorities;      /* PEM: no others are trusted */
	struct slice certificate, key; /* PEM; empty: none is shown */
	const char *name; /* host name or address that the receiver's certificate must have */
};

/** Contents are copied. @return 0 or negative errno with a line in @why. */
int tls_client_new(
	const struct tls_client_options *o, struct tls_client **ret, struct failure *why);
void tls_client_free(struct tls_client *t);

struct wire;

struct wire_options {
	const char *host; /* name or address; looked up at each connect */
	uint16_t port;
	const struct tls_client *tls; /* NULL: none; borrowed */
	unsigned timeout_ms;          /* without any progress */
};

/** Look up, connect to the first address that answers, shake hands. @return 0 or negative errno with a line in @why. */
int wire_connect(const struct wire_options *o, struct wire **ret, struct failure *why);
/** Close at once; what is on its way may be lost. */
void wire_free(struct wire *w);
/** Send all of it. @return 0 or negative errno with a line in @why. */
int wire_write(struct wire *w, struct slice text, struct failure *why);
/** Bytes on the wire so far: the place of what was written last. */
uint64_t wire_position(const struct wire *w);
/** Whether it is still open: an end or an alert of the receiver is a failure. Waits at most @wait_ms for one. */
int wire_check(struct wire *w, unsigned wait_ms, struct failure *why);
/**
 * The place up to which the receiver's program must have read: everything that lies further behind what its kernel
 * acknowledged than the largest window that it ever offered, since no more than that can wait there.
 */
uint64_t wire_read_up_to(struct wire *w);
/** Whether wire_read_up_to() comes to this place once what is on its way is acknowledged, with nothing more sent. */
bool wire_may_tell(const struct wire *w, uint64_t place);
/**
 * End in order: say that nothing follows and wait, at most @wait_ms, for the receiver's own end, which comes when its program has read
 * everything; a program that dies before that resets the connection. @return 0: it has; negative errno with a line.
 */
int wire_finish(struct wire *w, unsigned wait_ms, struct failure *why);

#endif
