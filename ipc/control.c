/* See control.h. */
#include "ipc/control.h"

#include "common/cleanup.h"
#include "ipc/channel.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define CONTROL_BACKLOG 16

/** By way of the folder's descriptor: a socket's path has room for 107 bytes only. */
static struct sockaddr_un control_address(int folder_fd)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	(void)snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d/" CONTROL_NAME,
		folder_fd); /* fits */
	return sa;
}

int control_listen(int folder_fd, struct failure *why)
{
	struct sockaddr_un sa = control_address(folder_fd);
	auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return failure_errno(why, -errno, "control socket");
	if (unlinkat(folder_fd, CONTROL_NAME, 0) < 0 && errno != ENOENT)
		return failure_errno(why, -errno, "control socket: can't replace " CONTROL_NAME);
	/* The peer's user is asked for at each connection; the mode only keeps others from trying. */
	if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
		listen(fd, CONTROL_BACKLOG) < 0)
		return failure_errno(why, -errno, "control socket");
	return fd_take(&fd);
}

int control_accept(int listener_fd)
{
	auto_fd fd = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t len = sizeof(peer);
	if (fd < 0)
		return -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	if (peer.uid != geteuid() && peer.uid != 0)
		return -EPERM;
	return fd_take(&fd);
}

int control_ask(const char *folder, enum control_kind question, uint64_t deadline_ns,
	struct control_answer *ret, struct failure *why)
{
	auto_fd folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder_fd < 0)
		return failure_errno(why, -errno, "%s", folder);
	struct sockaddr_un sa = control_address(folder_fd);
	auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return failure_errno(why, -errno, "control socket");
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		return failure_errno(why, -errno,
			"%s: no proxy that may be asked has this state folder", folder);
	const struct control_request request = {.header = {.kind = question}};
	int r = channel_send(fd, &request, sizeof(request), NULL, 0);
	if (r == 0)
		r = channel_receive_until(fd, deadline_ns, ret, sizeof(*ret), NULL, 0, NULL);
	if (r < 0)
		return failure_errno(why, r, "%s: the proxy does not answer", folder);
	if (r != (int)sizeof(*ret) || ret->header.kind != CONTROL_ANSWER)
		return failure_set(why, -EPROTO, "%s: the proxy ended without an answer", folder);
	ret->text[sizeof(ret->text) - 1] = '\0';
	ret->before[sizeof(ret->before) - 1] = ret->after[sizeof(ret->after) - 1] = '\0';
	return 0;
}
