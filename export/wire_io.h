/* Between wire.c and tls_client.c: the TLS of one connection over a socket that does not block. */
#ifndef ECLUSA_EXPORT_WIRE_IO_H
#define ECLUSA_EXPORT_WIRE_IO_H

#include "export/wire.h"

struct tls_link;

/** What a step came to, when it is no count of bytes and no other negative errno. */
enum tls_step { TLS_STEP_WANTS_READ = -1000, TLS_STEP_WANTS_WRITE = -1001 };

int tls_link_new(const struct tls_client *t, int fd, struct tls_link **ret);
void tls_link_free(struct tls_link *l);
/** All: @return bytes (0 of a read: the peer's orderly end), enum tls_step, or negative errno with a line in @why. */
int tls_link_handshake(struct tls_link *l, struct failure *why);
int tls_link_write(struct tls_link *l, struct slice text, struct failure *why);
int tls_link_read(struct tls_link *l, char *to, size_t capacity, struct failure *why);
/** Send close_notify. */
int tls_link_close(struct tls_link *l, struct failure *why);
/** Bytes that went into the socket. */
uint64_t tls_link_written(const struct tls_link *l);

#endif
