/* See datagram.h. */
#include "export/datagram.h"

#include "common/cleanup.h"

#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SEND_BUFFER_BYTES (8 << 20) /* as much as the host allows, at most this */

int datagram_connect(const char *host, uint16_t port, int *ret_fd, struct failure *why)
{
	char text[8];
	struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV}, *all;
	(void)snprintf(text, sizeof(text), "%u", port);
	int r = getaddrinfo(host, text, &hints, &all);
	if (r != 0)
		return failure_set(why, -EHOSTUNREACH, "%s: %s", host,
			r == EAI_SYSTEM ? strerror(errno) : gai_strerror(r));
	auto_fd fd = socket(all->ai_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = fd < 0 || connect(fd, all->ai_addr, all->ai_addrlen) < 0 ? -errno : 0;
	freeaddrinfo(all);
	if (r < 0)
		return failure_errno(why, r, "%s port %u", host, port);
	*ret_fd = fd_take(&fd);
	return 0;
}

int datagram_connect_unix(const char *path, int *ret_fd, struct failure *why)
{
	int bytes = SEND_BUFFER_BYTES;
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	if (slice_copy(slice_of(path), to.sun_path, sizeof(to.sun_path)) < 0)
		return failure_set(why, -ENAMETOOLONG, "%s: too long for a socket", path);
	auto_fd fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return failure_errno(why, -errno, "%s", path);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes,
		sizeof(bytes)); /* larger ones are sent otherwise */
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return failure_errno(why, -errno, "%s", path);
	*ret_fd = fd_take(&fd);
	return 0;
}

static int send_message(int fd, const struct msghdr *message, unsigned timeout_ms)
{
	for (;;) {
		if (sendmsg(fd, message, MSG_NOSIGNAL) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return -errno;
		struct pollfd wait = {.fd = fd, .events = POLLOUT};
		int r = poll(&wait, 1, (int)timeout_ms);
		if (r == 0)
			return -ETIMEDOUT;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

int datagram_send(int fd, struct slice text, unsigned timeout_ms)
{
	struct iovec part = {(void *)text.ptr, text.len};
	const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	return send_message(fd, &message, timeout_ms);
}

int datagram_send_fd(int fd, int sent, unsigned timeout_ms)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	const struct msghdr message = {
		.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &sent, sizeof(int));
	return send_message(fd, &message, timeout_ms);
}
