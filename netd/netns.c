/* See netns.h. The process is single-threaded, so that its namespace and its thread's are one. */
#include "netd/netns.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <sched.h>

int netns_create(void)
{
	if (unshare(CLONE_NEWNET) < 0)
		return -errno;
	int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

int netns_enter(int fd)
{
	return setns(fd, CLONE_NEWNET) < 0 ? -errno : 0;
}
