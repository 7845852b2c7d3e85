/* See probe.h: descriptors, folders and mounts that lead out, and the runtime's own program. */
#include "tests/escape/probe.h"

#include "common/cleanup.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* CVE-2019-5736: a file of the host that runs outside, opened for writing through /proc. Nothing is written. */
static bool open_program(struct attempt *a, pid_t pid)
{
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	attempt_open(a, path, O_WRONLY);
	return !a->reached;
}

static void runtime_program(struct attempt *a)
{
	attempt_others(a, open_program);
	if (attempt_is_own(1))
		attempt_refused(a, "no program but this one");
	else if (!a->reached) /* where it is hidden from the list */
		attempt_open(a, "/proc/1/exe", O_WRONLY);
}

/* CVE-2024-21626: what the caller had open. */
static void leaked_descriptors(struct attempt *a)
{
	DIR *folder = opendir("/proc/self/fd");
	const struct dirent *entry;
	struct stat st;
	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		int fd = (int)strtol(entry->d_name, NULL, 10);
		if (entry->d_name[0] == '.' || fd == dirfd(folder))
			continue;
		if (fd > 2)
			attempt_reached(a, "descriptor %d is open", fd);
		else if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
			attempt_reached(a, "descriptor %d is a folder", fd);
	}
	if (folder == NULL)
		attempt_refused(a, "no /proc/self/fd");
	else if (!a->reached)
		attempt_refused(a, "only 0 to 2 are open");
	if (folder != NULL)
		(void)closedir(folder);
}

/* The same CVE: a working directory outside of the root, and the way up from there. */
static void leaked_folder(struct attempt *a)
{
	char path[PATH_MAX], up[64] = "secret";
	if (getcwd(path, sizeof(path)) == NULL)
		attempt_reached(a, "no name of the working directory: %s", strerrorname_np(errno));
	else if (path[0] != '/')
		attempt_reached(a, "the working directory is %.60s", path);
	for (int i = 0; i < 8 && !a->reached; i++) {
		if (attempt_is_secret(a, up))
			attempt_reached(a, "%s is the caller's", up);
		(void)snprintf(up, sizeof(up), "%.*s%s", 3 * (i + 1), "../../../../../../../../",
			"secret");
	}
	for (int fd = 0; fd <= 20 && !a->reached; fd++) {
		(void)snprintf(up, sizeof(up), "/proc/self/fd/%d/secret", fd);
		if (attempt_is_secret(a, up))
			attempt_reached(a, "%s is the caller's", up);
	}
	if (!a->reached)
		attempt_refused(a, "the working directory is %.60s", path);
}

/* CVE-2026-120699, CVE-2026-47243: files of the host that nobody gave. */
static void host_files(struct attempt *a)
{
	char path[PATH_MAX];
	(void)snprintf(path, sizeof(path), "%s/secret", a->folder);
	if (attempt_is_secret(a, path))
		attempt_reached(a, "read the caller's secret by its path");
	else
		attempt_refused(a, "the caller's secret: %s", strerrorname_np(errno));
	attempt_open(a, "/etc/shadow", O_RDONLY);
	attempt_open(a, "/proc/1/root/etc/shadow", O_RDONLY);
	attempt_open(a, "/var/log/dpkg.log", O_RDONLY);
	attempt_open(a, "/etc/machine-id", O_RDONLY);
}

/* CVE-2026-25725: a file that is not there yet, which somebody outside reads as settings later. What is made is removed. */
static void planted_settings(struct attempt *a)
{
	char paths[][PATH_MAX] = {"", "", "project/.settings"};
	(void)snprintf(paths[0], sizeof(paths[0]), "%s/.settings", a->folder);
	(void)snprintf(paths[1], sizeof(paths[1]), "%s/project/.settings", a->folder);
	for (size_t i = 0; i < array_size(paths); i++) {
		auto_fd fd = open(paths[i], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0) {
			attempt_refused(a, "settings: %s", strerrorname_np(errno));
			continue;
		}
		(void)unlink(paths[i]);
		attempt_reached(a, "made settings that the caller reads");
	}
}

/* CVE-2025-31133 and what sysctls gave before it: settings of the kernel. Opened, never written. */
static void kernel_settings(struct attempt *a)
{
	static const char *const paths[] = {"/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe", "/proc/sys/vm/panic_on_oom", "/proc/sysrq-trigger",
		"/proc/sys/user/max_user_namespaces", "/sys/kernel/uevent_helper",
		"/sys/kernel/mm/transparent_hugepage/enabled", "/sys/class/net/lo/mtu",
		"/sys/fs/cgroup/cgroup.procs"};
	for (size_t i = 0; i < array_size(paths); i++)
		attempt_open(a, paths[i], O_WRONLY);
}

/* CVE-2026-96812: devices beyond the harmless ones, those there and those that can be made. */
static void devices(struct attempt *a)
{
	static const char *const paths[] = {"/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/cuse",
		"/dev/net/tun", "/dev/kvm", "/dev/loop-control", "/dev/vda", "/dev/sda",
		"/dev/userfaultfd"};
	for (size_t i = 0; i < array_size(paths); i++)
		attempt_open(a, paths[i], O_RDONLY);
	static const char *const places[] = {"./made", "/tmp/made", "/dev/shm/made"};
	for (size_t i = 0; i < array_size(places); i++) {
		if (mknod(places[i], S_IFCHR | 0600, makedev(1, 3)) < 0) {
			attempt_refused(a, "mknod: %s", strerrorname_np(errno));
			continue;
		}
		attempt_open(a, places[i], O_RDONLY); /* another /dev/null */
		(void)unlink(places[i]);
	}
}

/* One line of mountinfo: a mount on which a program gains rights, or a device works. */
static void judge_mount(struct attempt *a, char *line)
{
	const char *fields[6] = {0};
	char *rest = line;
	for (size_t i = 0; i < array_size(fields); i++)
		fields[i] = strsep(&rest, " ");
	const char *where = fields[4], *flags = fields[5];
	if (where == NULL || flags == NULL)
		return;
	if (strstr(flags, "nosuid") == NULL)
		attempt_reached(a, "%.60s: suid", where);
	else if (strncmp(where, "/dev", 4) != 0 && strncmp(where, "/proc/", 6) != 0 &&
		strstr(flags, "nodev") == NULL)
		attempt_reached(a, "%.60s: devices", where);
}

static void mount_flags(struct attempt *a)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	size_t capacity = 0, count = 0;
	for (; file != NULL && getline(&line, &capacity, file) > 0; count++)
		judge_mount(a, line);
	if (file != NULL)
		(void)fclose(file);
	if (!a->reached)
		attempt_refused(a, "%zu mounts, all nosuid and nodev", count);
}

const struct probe PROBES_FILES[] = {{"runtime-program", runtime_program},
	{"leaked-descriptors", leaked_descriptors}, {"leaked-folder", leaked_folder},
	{"host-files", host_files}, {"planted-settings", planted_settings},
	{"kernel-settings", kernel_settings}, {"devices", devices}, {"mount-flags", mount_flags},
	{NULL, NULL}};
