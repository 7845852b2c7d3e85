/* See landlock.h. */
#include "sandbox-launcher/landlock.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Newer than some headers: landlock(7). */
#define ACCESS_REFER     (UINT64_C(1) << 13) /* ABI 2 */
#define ACCESS_TRUNCATE  (UINT64_C(1) << 14) /* ABI 3 */
#define ACCESS_IOCTL_DEV (UINT64_C(1) << 15) /* ABI 5 */
#define SCOPE_ABSTRACT   (UINT64_C(1) << 0)  /* ABI 6 */
#define SCOPE_SIGNAL     (UINT64_C(1) << 1)

#define MAKE_DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)
#define WRITES                                                                                     \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                           \
		LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR |                     \
		LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                       \
		LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* struct landlock_ruleset_attr of ABI 6; an older kernel takes the front of it. */
struct ruleset {
	uint64_t handled_fs, handled_net, scoped;
};

int landlock_abi(void)
{
	long abi = syscall(
		SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
	return abi < 0 ? 0 : (int)abi;
}

static uint64_t writes_of(int abi)
{
	uint64_t set = WRITES | ACCESS_REFER;
	return abi >= 3 ? set | ACCESS_TRUNCATE : set;
}

static int add_path(int rules, const char *path, uint64_t access)
{
	auto_fd fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		access &= LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE;
	struct landlock_path_beneath_attr beneath = {.allowed_access = access, .parent_fd = fd};
	return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0
		? -errno
		: 0;
}

int landlock_apply(const char *const *writable, size_t count)
{
	int abi = landlock_abi();
	if (abi < LANDLOCK_ABI_MIN)
		return 0;
	uint64_t ioctls = abi >= 5 ? ACCESS_IOCTL_DEV : 0;
	const struct ruleset attr = {.handled_fs = writes_of(abi) | MAKE_DEVICES | ioctls,
		.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL};
	size_t known = abi >= 6 ? sizeof(attr) : sizeof(attr.handled_fs);
	auto_fd rules = (int)syscall(SYS_landlock_create_ruleset, &attr, known, 0);
	if (rules < 0)
		return -errno;
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		r = add_path(rules, writable[i], writes_of(abi));
	if (r == 0) /* null, zero, random: nodes of the host's on read-only mounts */
		r = add_path(rules, "/dev",
			LANDLOCK_ACCESS_FS_WRITE_FILE | ioctls | (abi >= 3 ? ACCESS_TRUNCATE : 0));
	if (r == 0 && syscall(SYS_landlock_restrict_self, rules, 0) < 0)
		r = -errno;
	return r < 0 ? r : abi;
}

bool landlock_holds(const char *folder)
{
	char path[PATH_MAX];
	(void)snprintf(path, sizeof(path), "%s/.eclusa-device", folder);
	/* without Landlock it is EPERM: no capability */
	bool made = mknod(path, S_IFBLK | 0600, 0) == 0;
	if (made)
		(void)unlink(path);
	return !made && errno == EACCES;
}
