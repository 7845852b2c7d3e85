/* See userns.h. */
#include "sandbox-launcher/userns.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/privilege.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int userns_map(pid_t pid, uid_t inside_uid, uid_t uid, gid_t inside_gid, gid_t gid)
{
	char path[64], map[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	(void)snprintf(map, sizeof(map), "%u %u 1", inside_gid, gid);
	int r = file_write_text(AT_FDCWD, path, map);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	(void)snprintf(map, sizeof(map), "%u %u 1", inside_uid, uid);
	return file_write_text(AT_FDCWD, path, map);
}

int userns_for_idmap(uid_t from_uid, uid_t to_uid, gid_t from_gid, gid_t to_gid)
{
	/* the child only has to exist while its namespace is opened: it waits to be killed */
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
	if (pid < 0)
		return -errno;
	if (pid == 0)
		for (;;)
			(void)pause();
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : userns_map(pid, from_uid, to_uid, from_gid, to_gid);
	(void)kill(pid, SIGKILL);    /* our own child, not yet reaped */
	(void)waitpid(pid, NULL, 0); /* it was killed */
	return r < 0 ? r : fd_take(&fd);
}

bool userns_is_initial_root(void)
{
	char text[128];
	if (geteuid() != 0)
		return false;
	auto_fd fd = open("/proc/self/uid_map", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (got <= 0)
		return false;
	text[got] = '\0';
	return strstr(text, " 4294967295") != NULL;
}

/* A sysctl that may be absent. */
static bool sysctl_is(const char *path, char value)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	char text = 0;
	return fd >= 0 && read(fd, &text, 1) == 1 && text == value;
}

const char *userns_remedy(void)
{
	if (sysctl_is("/proc/sys/kernel/unprivileged_userns_clone", '0'))
		return "sysctl -w kernel.unprivileged_userns_clone=1, or run as root";
	if (sysctl_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", '1'))
		return "give eclusa an AppArmor profile with `userns,`, or "
		       "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or run as root";
	if (sysctl_is("/proc/sys/user/max_user_namespaces", '0'))
		return "sysctl -w user.max_user_namespaces=1000, or run as root";
	return "run as root, or ask the administrator to allow user namespaces";
}

int userns_enter(struct failure *why)
{
	int r = privilege_enter_user_namespace();
	if (r == 0)
		return 0;
	return failure_set(
		why, r, "user namespaces are refused here (%s): %s", strerror(-r), userns_remedy());
}
