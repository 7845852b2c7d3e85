/* See service.h. */
#include "ipc/service.h"

#include "common/cleanup.h"
#include "ipc/channel.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define SERVICE_BACKLOG 1024
#define SERVICE_WAIT_S  10 /* of a launcher, until what it says is taken */

static int service_address(const char *path, struct sockaddr_un *ret, struct failure *why)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	int len = snprintf(ret->sun_path, sizeof(ret->sun_path), "%s", path);
	if (len < 0 || (size_t)len >= sizeof(ret->sun_path) || path[0] != '/')
		return failure_set(why, -EINVAL,
			"%s: a socket's path begins with / and has at most %zu bytes", path,
			sizeof(ret->sun_path) - 1);
	return 0;
}

/** What is in the way: only a socket at which nobody listens. */
static int service_replace(const struct sockaddr_un *sa, struct failure *why)
{
	struct stat st;
	if (lstat(sa->sun_path, &st) < 0)
		return errno == ENOENT ? 0 : failure_errno(why, -errno, "%s", sa->sun_path);
	if (!S_ISSOCK(st.st_mode))
		return failure_set(why, -EEXIST, "%s is there, and is no socket", sa->sun_path);
	auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return failure_errno(why, -errno, "%s", sa->sun_path);
	if (connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) == 0 || errno == EAGAIN)
		return failure_set(
			why, -EADDRINUSE, "%s: a service is there already", sa->sun_path);
	return unlink(sa->sun_path) < 0 ? failure_errno(why, -errno, "%s", sa->sun_path) : 0;
}

int service_listen(const char *path, struct failure *why)
{
	struct sockaddr_un sa;
	int r = service_address(path, &sa, why);
	if (r == 0)
		r = service_replace(&sa, why);
	if (r < 0)
		return r;
	auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* The peer's user is asked for at each connection; the mode only keeps others from trying. */
	if (fd < 0 || fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 ||
		listen(fd, SERVICE_BACKLOG) < 0)
		return failure_errno(why, -errno, "can't listen on %s", path);
	return fd_take(&fd);
}

int service_accept(int listener_fd, uid_t *ret_uid, pid_t *ret_pid)
{
	auto_fd fd = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t len = sizeof(peer);
	if (fd < 0)
		return -errno;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return -errno;
	if (peer.uid != 0) {
		message_send_failed(fd, -EPERM, "only root may use this service");
		return -EPERM;
	}
	*ret_uid = peer.uid;
	*ret_pid = peer.pid;
	return fd_take(&fd);
}

/** Whoever listens there gives a sandbox its network, and the run its log: nobody but root may. */
static int service_check(int fd, const char *path, struct failure *why)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return failure_errno(why, -errno, "--service: %s", path);
	return peer.uid == 0
		? 0
		: failure_set(why, -EPERM, "--service: who listens on %s is uid %u, and not root",
			  path, peer.uid);
}

int service_connect(const char *path, struct failure *why)
{
	struct sockaddr_un sa;
	int r = service_address(path, &sa, why);
	if (r < 0)
		return r;
	const struct timeval wait = {.tv_sec = SERVICE_WAIT_S};
	auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	/* Also for connect(), which waits where many others do. */
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0)
		return failure_errno(why, -errno, "--service");
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0) {
		r = service_check(fd, path, why);
		return r < 0 ? r : fd_take(&fd);
	}
	r = errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (r == -ENOENT || r == -ECONNREFUSED)
		return failure_set(
			why, r, "--service: no service listens on %s (eclusa serve)", path);
	return failure_errno(why, r, "--service: %s", path);
}
