/* See doctor.h: what the kernel lets a launcher make. Each thing is made, in the order and the namespaces of a run. */
#include "cli/doctor.h"

#include "common/cleanup.h"
#include "common/file.h"
#include "common/privilege.h"
#include "sandbox-launcher/filter.h"
#include "sandbox-launcher/proc.h"
#include "sandbox-launcher/overlay.h"
#include "sandbox-launcher/userns.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>

/* mount_setattr(2), and tables that belong to a socket (NFT_TABLE_F_OWNER) */
#define KERNEL_MAJOR 5
#define KERNEL_MINOR 12

#define MOUNTINFO_BYTES_MAX ((size_t)64 << 20)

void doctor_kernel(struct doctor_finding *f)
{
	struct utsname name;
	struct slice major, minor, rest;
	uint64_t numbers[2] = {0};
	if (uname(&name) < 0) {
		doctor_fail(f, NULL, "uname: %s", strerror(errno));
		return;
	}
	if (slice_split(slice_of(name.release), '.', &major, &rest)) {
		size_t digits = strspn(rest.ptr, "0123456789");
		minor = slice_part(rest, 0, digits);
		(void)slice_decimal(major, 1000, true, &numbers[0]); /* else it stays 0 */
		(void)slice_decimal(minor, 1000, true, &numbers[1]);
	}
	if (numbers[0] < KERNEL_MAJOR || (numbers[0] == KERNEL_MAJOR && numbers[1] < KERNEL_MINOR))
		doctor_fail(f, "apt-get install linux-image-amd64 && reboot",
			"%s %s is older than %d.%d", name.sysname, name.release, KERNEL_MAJOR,
			KERNEL_MINOR);
	else
		doctor_ok(f, "%s %s", name.sysname, name.release);
}

/* First word of a setting; "absent" when this kernel has none. */
static const char *setting(const char *path, char *to, size_t capacity)
{
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, to, capacity - 1);
	if (got <= 0)
		return "absent";
	to[got] = '\0';
	to[strcspn(to, "\n")] = '\0';
	return to;
}

void doctor_user_namespaces(struct doctor_finding *f)
{
	char most[32], restricted[32], allowed[32];
	const char *policy[] = {setting("/proc/sys/user/max_user_namespaces", most, sizeof(most)),
		setting("/proc/sys/kernel/unprivileged_userns_clone", allowed, sizeof(allowed)),
		setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", restricted,
			sizeof(restricted))};
	/* once as root, twice otherwise: the launcher's own, and the sandbox's below it */
	if (doctor_enter_sandbox(f) < 0)
		return;
	doctor_ok(f,
		"allowed (max_user_namespaces %s, unprivileged_userns_clone %s, AppArmor restriction %s)",
		policy[0], policy[1], policy[2]);
}

void doctor_namespaces(struct doctor_finding *f)
{
	static const struct {
		const char *name;
		int flag;
		const char *remedy;
	} kinds[] = {{"mount", CLONE_NEWNS, "sysctl -w user.max_mnt_namespaces=1000"},
		{"pid", CLONE_NEWPID, "sysctl -w user.max_pid_namespaces=1000"},
		{"net", CLONE_NEWNET, "sysctl -w user.max_net_namespaces=1000"},
		{"ipc", CLONE_NEWIPC, "sysctl -w user.max_ipc_namespaces=1000"},
		{"uts", CLONE_NEWUTS, "sysctl -w user.max_uts_namespaces=1000"},
		{"cgroup", CLONE_NEWCGROUP, "sysctl -w user.max_cgroup_namespaces=1000"}};
	if (doctor_enter_sandbox(f) < 0)
		return;
	for (size_t i = 0; i < array_size(kinds); i++) {
		if (unshare(kinds[i].flag) == 0)
			continue;
		int error = errno;
		doctor_fail(f, error == ENOSPC ? kinds[i].remedy : NULL, "%s: %s", kinds[i].name,
			strerror(error));
		return;
	}
	/* a sandbox lives in the host's time: only told */
	bool time = unshare(CLONE_NEWTIME) == 0;
	doctor_ok(f, "user mount pid net ipc uts cgroup%s",
		time ? " time" : "; no time, which is not used");
}

/* The first entry of /proc under a mount of something else. binfmt_misc has an empty folder made for it, and is none. */
static bool covered_entry(char *ret_path, size_t capacity)
{
	struct buf text;
	buf_init(&text, 2 * MOUNTINFO_BYTES_MAX);
	int r = file_read(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_BYTES_MAX, &text);
	struct slice rest = buf_slice(&text), line, word;
	bool found = false;
	while (r == 0 && !found && slice_split(rest, '\n', &line, &rest)) {
		for (int field = 0; field < 5; field++) /* mountinfo: proc_pid_mountinfo(5) */
			if (!slice_split(line, ' ', &word, &line))
				break;
		found = slice_starts(word, SLICE("/proc/")) &&
			!slice_equal(word, SLICE("/proc/sys/fs/binfmt_misc"));
		if (found)
			(void)slice_escape(word, ret_path, capacity);
	}
	buf_fini(&text);
	return found;
}

/* A process of the new pid namespace. The exit status is an errno: all that this makes is smaller than 256. */
static int make_proc_inside(void)
{
	int status = 0;
	if (unshare(CLONE_NEWPID) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int fd = proc_make();
		_exit(fd < 0 ? -fd : 0);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

void doctor_proc(struct doctor_finding *f)
{
	char entry[256], remedy[DOCTOR_REMEDY_BYTES];
	if (doctor_enter_sandbox(f) < 0)
		return;
	int r = make_proc_inside();
	if (r == 0) {
		doctor_ok(f, "a fresh one can be mounted");
		return;
	}
	if (!covered_entry(entry, sizeof(entry))) {
		doctor_fail(f, NULL, "a fresh one can't be mounted: %s", strerror(-r));
		return;
	}
	(void)snprintf(remedy, sizeof(remedy),
		"umount %.96s; in a container: docker run --security-opt systempaths=unconfined, "
		"podman run --security-opt unmask=ALL",
		entry);
	doctor_fail(f, remedy, "a fresh one can't be mounted (%s): %s is covered, as in containers",
		strerror(-r), entry);
}

void doctor_seccomp(struct doctor_finding *f)
{
	static struct filter_program program;
	auto_fd listener = -1;
	filter_build(&program, true);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
		doctor_fail(f, NULL, "no_new_privs: %s", strerror(errno));
		return;
	}
	int r = filter_load(&program, &listener);
	if (r < 0)
		doctor_fail(f, "boot a kernel with CONFIG_SECCOMP_FILTER=y",
			"the filter can't be loaded: %s", strerror(-r));
	else if (listener < 0)
		doctor_warn(f, true,
			"start eclusa outside of what reads system calls by notification",
			"filter, but no notification: who started this reads refused calls, and no result "
			"tells them");
	else
		doctor_ok(f, "filter of %u instructions, and user notification", program.count);
}

void doctor_landlock(struct doctor_finding *f)
{
	long abi = syscall(
		SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi > 0)
		doctor_ok(f, "ABI %ld", abi);
	else
		doctor_warn(f, false, "add landlock to lsm= on the kernel's command line",
			"absent (%s): sandboxes and eclusa-export go without, --require landlock refuses",
			strerror(errno));
}

/* Two empty folders of a tmpfs, shown as one. */
static int make_overlay(void)
{
	auto_fd root = view_tmpfs((uint64_t)1 << 20, 64, 0755, SANDBOX_UID, SANDBOX_GID);
	if (root < 0)
		return root;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		move_mount(root, "", AT_FDCWD, "/usr", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
		fchdir(root) < 0 || mkdir("run", 0755) < 0)
		return -errno;
	int r = overlay_begin();
	auto_fd overlay = r < 0 ? r : overlay_open(OVERLAY_LAYERS);
	return overlay < 0 ? overlay : 0;
}

void doctor_overlay(struct doctor_finding *f)
{
	if (doctor_enter_sandbox(f) < 0)
		return;
	int r = make_overlay();
	if (r == 0)
		doctor_ok(f, "overlayfs in a user namespace");
	else
		doctor_warn(f, false, "modprobe overlay",
			"no overlayfs in a user namespace (%s): folders of --in are looked through, and those "
			"with a socket refused; locks and events of /usr are the host's",
			strerror(-r));
}
