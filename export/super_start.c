/* See super_start.h. */
#include "export/super_start.h"

#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/privilege.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#define LOCK_FILE     "lock"
#define LOCK_WAIT_NS  (2 * NS_PER_SEC) /* the processes of one that was killed end a moment later */
#define LOCK_RETRY_NS (5 * NS_PER_MS)

/** Of all rights only that to read what others may not, and that only if it is there. @return 0 or negative errno. */
static int keep_reading(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};
	const unsigned bit = 1U << CAP_DAC_READ_SEARCH; /* below 32 */
	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	bool may = (data[0].permitted & bit) != 0;
	struct __user_cap_data_struct kept[2] = {
		{.effective = may ? bit : 0, .permitted = may ? bit : 0}};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
		syscall(SYS_capset, &header, kept) < 0)
		return -errno;
	return 0;
}

/** @return 0, or negative errno with a line: the user that a start as root must name. */
static int find_user(const struct export_config *config, struct passwd **ret, struct failure *why)
{
	if (config->user[0] == '\0')
		return failure_set(why, -EPERM,
			"started as root, and the configuration has no 'user NAME' to become; make one: "
			"useradd --system --no-create-home eclusa-export");
	errno = 0;
	struct passwd *user = getpwnam(config->user);
	if (user == NULL)
		return failure_set(why, errno != 0 ? -errno : -ENOENT,
			"user %s: there is none; make one: useradd --system --no-create-home %s",
			config->user, config->user);
	if (user->pw_uid == 0)
		return failure_set(why, -EPERM, "user %s is root: name another one", config->user);
	*ret = user;
	return 0;
}

/** Root makes the state folder and gives it away; a user only makes it. @return descriptor or negative errno with a line. */
static int open_state(const char *path, const struct passwd *user, struct failure *why)
{
	struct stat st;
	bool there = stat(path, &st) == 0;
	int r = there ? 0 : file_make_dirs(path, 0700);
	if (r < 0)
		return failure_errno(why, r, "state-dir %s", path);
	auto_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return failure_errno(why, -errno, "state-dir %s", path);
	if (!there && user != NULL && fchown(fd, user->pw_uid, user->pw_gid) < 0)
		return failure_errno(why, -errno, "state-dir %s", path);
	uid_t owner = user != NULL ? user->pw_uid : geteuid();
	if (there && st.st_uid != owner)
		return failure_set(why, -EPERM,
			"state-dir %s belongs to somebody else: chown %u %s", path, owner, path);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return failure_set(
			why, -EPERM, "state-dir %s: others may write there: chmod go-w", path);
	return fd_take(&fd);
}

/** One exporter at a time has a state folder: the lock is every process's of it, and ends with the last. */
static int lock_state(int state_fd, struct failure *why)
{
	auto_fd fd = openat(state_fd, LOCK_FILE, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return failure_errno(why, -errno, "state-dir: its lock");
	uint64_t deadline_ns = clock_monotonic_ns() + LOCK_WAIT_NS;
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return failure_errno(why, -errno, "state-dir: its lock");
		if (clock_monotonic_ns() >= deadline_ns)
			return failure_set(
				why, -EBUSY, "state-dir: another eclusa-export is using it");
		const struct timespec pause = {.tv_nsec = (long)LOCK_RETRY_NS};
		(void)nanosleep(&pause, NULL); /* the next try tells */
	}
	return fd_take(&fd);
}

static int open_audit(
	struct super_base *b, const struct export_config *config, bool root, struct failure *why)
{
	int r = config->audit_folder[0] != '\0'
		? slice_copy(
			  slice_of(config->audit_folder), b->audit_folder, sizeof(b->audit_folder))
		: audit_folder_default(root, b->audit_folder, sizeof(b->audit_folder), why);
	if (r < 0)
		return r;
	b->audit_fd = open(b->audit_folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return b->audit_fd < 0 ? failure_errno(why, -errno, "audit-dir %s", b->audit_folder) : 0;
}

static int become(const struct passwd *user, struct failure *why)
{
	int r = 0;
	if (user != NULL && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0)
		r = -errno;
	if (r == 0 && user != NULL)
		r = privilege_change_user(user->pw_uid, user->pw_gid);
	if (r == 0)
		r = keep_reading();
	return r < 0 ? failure_errno(why, r, "can't give up root's rights") : 0;
}

int super_start(const struct export_config *config, struct super_base *ret, struct failure *why)
{
	bool root = geteuid() == 0;
	struct passwd *user = NULL;
	struct super_base b = {.audit_fd = -1, .state_fd = -1, .lock_fd = -1};
	int r = root ? find_user(config, &user, why) : 0;
	if (r == 0 && !root && config->user[0] != '\0') {
		const struct passwd *me = getpwuid(geteuid());
		if (me == NULL || strcmp(me->pw_name, config->user) != 0)
			r = failure_set(why, -EPERM,
				"only root can become user %s; this is somebody else",
				config->user);
	}
	if (r == 0)
		r = open_audit(&b, config, root, why);
	if (r == 0) {
		b.state_fd = open_state(config->state_folder, user, why);
		r = b.state_fd < 0 ? b.state_fd : become(user, why);
	}
	if (r == 0) {
		b.lock_fd = lock_state(b.state_fd, why);
		r = b.lock_fd < 0 ? b.lock_fd : 0;
	}
	if (r == 0 && faccessat(b.audit_fd, ".", R_OK | X_OK, AT_EACCESS) < 0)
		r = failure_errno(why, -errno, "audit-dir %s", b.audit_folder);
	if (r < 0)
		super_base_fini(&b);
	else
		*ret = b;
	return r;
}

void super_base_fini(struct super_base *b)
{
	fd_close(&b->audit_fd);
	fd_close(&b->state_fd);
	fd_close(&b->lock_fd);
}
