/* Sending one message, with descriptors, over a connected SOCK_SEQPACKET socket. */
#ifndef ECLUSA_IPC_CHANNEL_H
#define ECLUSA_IPC_CHANNEL_H

#include "common/failure.h"

#include <stddef.h>
#include <stdint.h>

#define CHANNEL_FDS_MAX   40
#define CHANNEL_BYTES_MAX 65536

/** Two connected ends, CLOEXEC, blocking. @return 0 or negative errno. */
int channel_pair(int ret_ends[static 2]);
/** Send one message. Descriptors are duplicated to the peer, not closed here. @return 0 or negative errno. */
int channel_send(int fd, const void *bytes, size_t len, const int *fds, size_t fd_count);
/**
 * Receive one message. @return its length; 0 at the end of the connection; negative errno: -EAGAIN,
 * -EMSGSIZE (did not fit: connection is unusable), -EPROTO (more descriptors than expected: all closed).
 * Received descriptors are CLOEXEC and owned by the caller.
 */
int channel_receive(int fd, void *bytes, size_t capacity, int *ret_fds, size_t fd_capacity,
	size_t *ret_fd_count);
/** channel_receive() that waits at most until @deadline_ns (monotonic); -ETIMEDOUT. */
int channel_receive_until(int fd, uint64_t deadline_ns, void *bytes, size_t capacity, int *ret_fds,
	size_t fd_capacity, size_t *ret_fd_count);

#endif
