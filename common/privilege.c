/* See privilege.h. */
#include "common/privilege.h"

#include "common/buf.h"
#include "common/file.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int privilege_enter_user_namespace(void)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	char map[64];
	int r = file_write_text(AT_FDCWD, "/proc/self/setgroups", "deny");
	if (r < 0)
		return r;
	(void)snprintf(map, sizeof(map), "0 %u 1", gid);
	r = file_write_text(AT_FDCWD, "/proc/self/gid_map", map);
	if (r < 0)
		return r;
	(void)snprintf(map, sizeof(map), "0 %u 1", uid);
	return file_write_text(AT_FDCWD, "/proc/self/uid_map", map);
}

int privilege_change_user(uid_t uid, gid_t gid)
{
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0)
		return -errno;
	return 0;
}

int privilege_drop_all(void)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	for (int cap = 0; cap < 64; cap++) {
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break; /* past the kernel's last capability */
			if (errno != EPERM)
				return -errno;
			break; /* without CAP_SETPCAP; no_new_privs makes the bounding set moot */
		}
	}
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{0}};
	if (syscall(SYS_capset, &header, none) < 0)
		return -errno;
	return 0;
}

int privilege_hide(void)
{
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

int privilege_close_from(int first)
{
	return close_range((unsigned)first, ~0U, 0) < 0 ? -errno : 0;
}

int privilege_die_with_parent(pid_t parent, int signal)
{
	if (prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0) < 0)
		return -errno;
	return getppid() == parent ? 0 : -ESRCH;
}

bool privilege_is_host_root(void)
{
	struct buf map;
	buf_init(&map, 2 * 65536);
	bool host = file_read(AT_FDCWD, "/proc/self/uid_map", 4096, &map) < 0 ||
		slice_ends(slice_trim(slice_part(buf_slice(&map), 0, 64)), SLICE("4294967295\n"));
	buf_fini(&map);
	return host && geteuid() == 0;
}
