/* See channel.h. */
#include "ipc/channel.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>

int channel_pair(int ret_ends[static 2])
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return -errno;
	ret_ends[0] = ends[0];
	ret_ends[1] = ends[1];
	return 0;
}

int channel_send(int fd, const void *bytes, size_t len, const int *fds, size_t fd_count)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * CHANNEL_FDS_MAX)];
		struct cmsghdr align;
	} control = {0};
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (fd_count > CHANNEL_FDS_MAX || len > CHANNEL_BYTES_MAX)
		return -EMSGSIZE;
	if (fd_count > 0) {
		message.msg_control = control.space;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * fd_count);
		struct cmsghdr *head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int) * fd_count);
		memcpy(CMSG_DATA(head), fds, sizeof(int) * fd_count);
	}
	ssize_t sent;
	do {
		sent = sendmsg(fd, &message, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return -errno;
	return (size_t)sent == len ? 0 : -EIO;
}

/** Move received descriptors to @ret_fds; close those that do not fit. */
static size_t channel_descriptors(
	struct msghdr *message, int *ret_fds, size_t capacity, bool *ret_over)
{
	size_t count = 0;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
		head = CMSG_NXTHDR(message, head)) {
		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		size_t here = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < here; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(fd));
			if (count < capacity)
				ret_fds[count++] = fd;
			else {
				fd_close(&fd);
				*ret_over = true;
			}
		}
	}
	return count;
}

int channel_receive(int fd, void *bytes, size_t capacity, int *ret_fds, size_t fd_capacity,
	size_t *ret_fd_count)
{
	union {
		char space[CMSG_SPACE(sizeof(int) * CHANNEL_FDS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec part = {.iov_base = bytes, .iov_len = capacity};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.space,
		.msg_controllen = sizeof(control.space)};
	ssize_t got;
	do {
		got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == ECONNRESET ? 0 : -errno;
	bool over = (message.msg_flags & MSG_CTRUNC) != 0;
	size_t count = channel_descriptors(&message, ret_fds, fd_capacity, &over);
	if (over || (message.msg_flags & MSG_TRUNC) != 0) {
		for (size_t i = 0; i < count; i++)
			fd_close(&ret_fds[i]);
		return over ? -EPROTO : -EMSGSIZE;
	}
	if (ret_fd_count != NULL)
		*ret_fd_count = count;
	return (int)got;
}

int channel_receive_until(int fd, uint64_t deadline_ns, void *bytes, size_t capacity, int *ret_fds,
	size_t fd_capacity, size_t *ret_fd_count)
{
	for (;;) {
		uint64_t now = clock_monotonic_ns();
		uint64_t left_ms =
			now >= deadline_ns ? 0 : (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS;
		struct pollfd wait = {.fd = fd, .events = POLLIN};
		int r = poll(&wait, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0)
			return channel_receive(
				fd, bytes, capacity, ret_fds, fd_capacity, ret_fd_count);
		if (r == 0 && left_ms == 0)
			return -ETIMEDOUT;
	}
}
