/* See confine.h. Called first, so that not even messages are read with more. */
#include "netd/confine.h"

#include "common/privilege.h"

#include <errno.h>
#include <stdint.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CONFINE_KEPT ((UINT64_C(1) << CAP_NET_ADMIN) | (UINT64_C(1) << CAP_SYS_ADMIN))

/** After this an exec gives nothing back either. */
static int confine_bounding_set(void)
{
	for (int cap = 0; cap < 64; cap++) {
		if ((CONFINE_KEPT >> cap & 1) != 0)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
			continue;
		if (errno == EINVAL)
			break; /* past the kernel's last capability */
		if (errno == EPERM)
			break; /* without CAP_SETPCAP; no_new_privs makes the bounding set moot */
		return -errno;
	}
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ? -errno : 0;
}

static int confine_capabilities(void)
{
	int r = confine_bounding_set();
	if (r < 0)
		return r;
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {
		{.effective = (uint32_t)CONFINE_KEPT, .permitted = (uint32_t)CONFINE_KEPT},
		{.effective = (uint32_t)(CONFINE_KEPT >> 32),
			.permitted = (uint32_t)(CONFINE_KEPT >> 32)},
	};
	return syscall(SYS_capset, &header, sets) < 0 ? -errno : 0;
}

int confine_apply(int first_fd, struct failure *why)
{
	int r = privilege_close_from(first_fd);
	if (r < 0)
		return failure_errno(why, r, "can't close inherited descriptors");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return failure_errno(why, -errno, "can't set no_new_privs");
	r = confine_capabilities();
	if (r < 0)
		return failure_errno(
			why, r, "can't reduce capabilities to CAP_NET_ADMIN, CAP_SYS_ADMIN");
	r = privilege_hide();
	return r < 0 ? failure_errno(why, r, "can't become non-dumpable") : 0;
}
