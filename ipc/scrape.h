/*
 * Giving metrics to who asks: a Unix socket, or a port of this host's loopback, on which GET is answered with a text that the
 * caller writes. One descriptor of the caller's poll loop; never blocks. Who asks is a stranger: of what it sends only the first line is
 * looked at, few may ask at once, and each has a deadline.
 */
#ifndef ECLUSA_IPC_SCRAPE_H
#define ECLUSA_IPC_SCRAPE_H

#include "common/buf.h"
#include "common/failure.h"

#define SCRAPE_CLIENTS_MAX       8
#define SCRAPE_REQUEST_BYTES_MAX ((size_t)4096)
#define SCRAPE_TEXT_BYTES_MAX    ((size_t)1 << 20)
#define SCRAPE_DEADLINE_MS       5000

struct scrape;

/** Write all metrics. */
typedef void scrape_fill(void *arg, struct buf *to);

/** @where "/PATH" of a socket that only this user and root can reach, or "ADDRESS:PORT" of the loopback. @return 0 or negative errno. */
int scrape_open(const char *where, struct scrape **ret, struct failure *why);
/** Closes, and removes the socket's file. NULL is accepted. */
void scrape_close(struct scrape *s);
/** In a child that has nothing to do with it: closes, and leaves the socket's file. NULL is accepted. */
void scrape_leave(struct scrape *s);
/** The port that it has, where it was asked for any (0); 0: it is a Unix socket. */
unsigned scrape_port(const struct scrape *s);
/** Readable as soon as scrape_turn() has something to do, also when only time has passed. NULL: -1. */
int scrape_fd(const struct scrape *s);
/** Go on with whoever can. NULL is accepted. */
void scrape_turn(struct scrape *s, scrape_fill *fill, void *arg);

#endif
