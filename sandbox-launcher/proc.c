/* See proc.h. */
#include "sandbox-launcher/proc.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names in the base, for as long as it takes to mount what they name. */
#define COPY         ".covering"
#define EMPTY_FOLDER ".nothing"
#define NAME_BYTES   48

/*
 * Files that tell about the host or that reach beyond the sandbox. The rest of /proc is read-only, and what only root may
 * open is closed to a uid that is not root and has no capability.
 */
static const char *const MASKED[] = {
	"proc/kcore",
	"proc/keys",
	"proc/key-users",
	"proc/timer_list",
	"proc/sched_debug",
	"proc/latency_stats",
	"proc/sysrq-trigger",
	"proc/cmdline",
	/* how busy the host is, and with what */
	"proc/buddyinfo",
	"proc/cgroups",
	"proc/diskstats",
	"proc/interrupts",
	"proc/locks", /* those of open files, of every process */
	"proc/mdstat",
	"proc/partitions",
	"proc/schedstat",
	"proc/softirqs",
	"proc/zoneinfo",
};
static const char *const MASKED_FOLDERS[] = {"proc/acpi", "proc/bus", "proc/driver", "proc/fs",
	"proc/irq", "proc/pressure", "proc/scsi"};

int proc_make(void)
{
	auto_fd fs = fsopen("proc", FSOPEN_CLOEXEC);
	if (fs < 0)
		return -errno;
	if (fsconfig(fs, FSCONFIG_SET_STRING, "hidepid", "invisible", 0) < 0 ||
		fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	auto_fd mount = fsmount(
		fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (mount < 0)
		return -errno;
	int r = file_write_text(mount, "sys/user/max_user_namespaces", "0");
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
	if (r == 0 && mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0)
		r = -errno;
	return r < 0 ? r : fd_take(&mount);
}

/*
 * What is at @from, over each path, by one call each, as there are many and a start waits for them. The first that is covered is what the next ones are covered by: its path is shorter than one by the host's
 * /proc. @from exists, so that what is missing is the path.
 */
static int cover_each(const char *from, const char *const *paths, size_t count)
{
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		r = mount(from, paths[i], NULL, MS_BIND, NULL) < 0 ? -errno : 0;
		if (r == 0)
			from = paths[i];
		else if (r == -ENOENT) /* this kernel has no such file */
			r = 0;
	}
	return r;
}

/* By a name in the base, which the host's /proc leads to: it is still there. */
static int cover_folders(int base)
{
	char from[NAME_BYTES];
	int r = mkdirat(base, EMPTY_FOLDER, 0555) < 0 ? -errno : 0;
	(void)snprintf(from, sizeof(from), "/proc/self/fd/%d/" EMPTY_FOLDER, base); /* fits */
	if (r == 0 && access(from, F_OK) < 0)
		r = -errno;
	if (r == 0)
		r = cover_each(from, MASKED_FOLDERS, array_size(MASKED_FOLDERS));
	return r == 0 && unlinkat(base, EMPTY_FOLDER, AT_REMOVEDIR) < 0 ? -errno : r;
}

/* After cover_folders(), which showed that /proc leads there. Mounts keep what they are of: the file has no name afterwards. */
static int cover_by_text(int base, struct slice text, const char *const *paths, size_t count)
{
	char from[NAME_BYTES];
	auto_fd fd = openat(base, COPY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	int r = fd < 0 ? -errno : file_write_all(fd, text);
	(void)snprintf(from, sizeof(from), "/proc/self/fd/%d/" COPY, base); /* fits */
	if (r == 0)
		r = cover_each(from, paths, count);
	return r == 0 && unlinkat(base, COPY, 0) < 0 ? -errno : r;
}

static int cover_all(int base, const struct view *v)
{
	int r = cover_folders(base);
	if (r == 0)
		r = cover_by_text(base, SLICE(""), MASKED, array_size(MASKED));
	for (size_t i = 0; i < v->count && r == 0; i++) {
		const char *path = v->items[i].path;
		if (v->items[i].kind == VIEW_PROC)
			r = cover_by_text(base, v->items[i].text, &path, 1);
	}
	return r;
}

int proc_mount(int base, const struct view *v, int *ret_loadavg)
{
	auto_fd mount = proc_make();
	if (mount < 0)
		return mount;
	auto_fd loadavg = ret_loadavg == NULL ? -1 : openat(mount, "loadavg", O_RDONLY | O_CLOEXEC);
	if (ret_loadavg != NULL && loadavg < 0)
		return -errno;
	if (move_mount(mount, "", AT_FDCWD, "proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return -errno;
	int r = cover_all(base, v);
	/* what covers belongs to the sandbox's user, who must not change it */
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID |
			MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC};
	if (r == 0 && mount_setattr(AT_FDCWD, "proc", AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		r = -errno;
	if (r == 0 && ret_loadavg != NULL)
		*ret_loadavg = fd_take(&loadavg);
	return r;
}
