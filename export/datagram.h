/* Sending datagrams: to a name and port, or to a Unix socket. */
#ifndef ECLUSA_EXPORT_DATAGRAM_H
#define ECLUSA_EXPORT_DATAGRAM_H

#include "common/failure.h"
#include "common/slice.h"

/** Look up and connect to the first address. @return 0 or negative errno with a line in @why. */
int datagram_connect(const char *host, uint16_t port, int *ret_fd, struct failure *why);
int datagram_connect_unix(const char *path, int *ret_fd, struct failure *why);
/** One datagram; waits at most @timeout_ms for room. @return 0, -EMSGSIZE, -ETIMEDOUT, another negative errno. */
int datagram_send(int fd, struct slice text, unsigned timeout_ms);
/** An empty one that carries a descriptor. */
int datagram_send_fd(int fd, int sent, unsigned timeout_ms);

#endif
