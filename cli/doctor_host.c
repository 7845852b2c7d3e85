/* See doctor.h: what a run takes of the host: a control group, a user id, a place for the log and its key. */
#include "cli/doctor.h"

#include "audit/key.h"
#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/file.h"
#include "common/id.h"
#include "common/privilege.h"
#include "common/uids.h"
#include "sandbox-launcher/cgroup.h"
#include "sandbox-launcher/userns.h"
#include "sandbox-launcher/view.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

static bool is_mounted(const char *path, long type)
{
	struct statfs fs;
	return statfs(path, &fs) == 0 && fs.f_type == type;
}

static const char *cgroup_mode(void)
{
	if (is_mounted("/sys/fs/cgroup", CGROUP2_SUPER_MAGIC))
		return "v2";
	if (!is_mounted("/sys/fs/cgroup/memory", CGROUP_SUPER_MAGIC) &&
		!is_mounted("/sys/fs/cgroup/pids", CGROUP_SUPER_MAGIC))
		return "none";
	return is_mounted("/sys/fs/cgroup/unified", CGROUP2_SUPER_MAGIC) ? "hybrid" : "v1";
}

void doctor_files(struct doctor_finding *f)
{
	struct failure why = {0};
	struct view v;
	if (doctor_enter(f) < 0)
		return;
	view_init(&v);
	int r = view_add_host(&v, &why);
	auto_fd out = r < 0 ? -1 : view_tmpfs(1 << 20, 1, 0755, 0, 0);
	if (r == 0 && out < 0)
		r = failure_errno(&why, out, "can't make /out");
	if (r < 0)
		doctor_fail(f, r == -EPERM ? DOCTOR_CAPABILITIES : NULL, "%s", why.text);
	else
		doctor_ok(f, "%zu files and folders of the host can be shown", v.count);
	view_fini(&v);
}

/* The group of a run is made, with the limits that a run has by default, and removed. */
void doctor_cgroup(struct doctor_finding *f)
{
	char id[SANDBOX_ID_BYTES];
	struct failure why = {0};
	struct cgroup g;
	struct spec spec;
	bool root = userns_is_initial_root();
	const char *mode = cgroup_mode();
	if (doctor_enter(f) < 0)
		return;
	spec_init(&spec);
	cgroup_init(&g);
	int r = cgroup_create(&g, sandbox_id_new(id), &spec, &why);
	enum cgroup_kind kind = g.kind;
	cgroup_remove(&g);
	spec_fini(&spec);
	if (r < 0)
		doctor_fail(f, NULL, "%s: %s", mode, why.text);
	else if (kind == CGROUP_NONE)
		doctor_warn(f, true,
			root ? "systemd-run --scope -p Delegate=yes eclusa run ..."
			     : "systemd-run --user --scope -p Delegate=yes eclusa run ...",
			"%s: %s: a run takes rung none, limits for each process", mode, why.text);
	else
		doctor_ok(f, "%s: memory, pids and cpu: a run takes rung %s", mode,
			cgroup_kind_name(kind));
}

/* @path, or what is nearest above it. @return whether it is @path itself that is there. */
static bool nearest(char *path)
{
	struct stat st;
	bool itself = true;
	while (stat(path, &st) < 0 && errno == ENOENT) {
		char *slash = strrchr(path, '/');
		if (slash == NULL || path[1] == '\0')
			break;
		slash[slash == path ? 1 : 0] = '\0';
		itself = false;
	}
	return itself;
}

/* A file without a name is made there; nothing of it stays. */
static int try_write(const char *folder)
{
	auto_fd fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return write(fd, "", 1) == 1 ? 0 : -errno;
	if (errno != EOPNOTSUPP && errno != EISDIR)
		return -errno;
	return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

void doctor_uids(struct doctor_finding *f)
{
	char folder[] = UIDS_FOLDER;
	struct failure why = {0};
	if (!userns_is_initial_root()) {
		doctor_warn(f, true, "sudo eclusa run ...",
			"none as an ordinary user: sandbox and proxy are uid %u of the host",
			(unsigned)geteuid());
		return;
	}
	if (uids_check(&why) < 0) {
		doctor_fail(f, "usermod -u NUMBER USER, or edit the range", "%s", why.text);
		return;
	}
	(void)nearest(folder);
	int r = try_write(folder);
	if (r < 0)
		doctor_fail(f, "mount -t tmpfs tmpfs /run", "%s, where claims are kept: %s: %s",
			UIDS_FOLDER, folder, strerror(-r));
	else if ((r = privilege_change_user(ECLUSA_UID_PROXY, (gid_t)ECLUSA_UID_PROXY)) < 0)
		doctor_fail(f, DOCTOR_CAPABILITIES, "can't become another user: %s", strerror(-r));
	else
		doctor_ok(f, "sandboxes and proxies get their own, from %u",
			(unsigned)ECLUSA_UID_BASE);
}

void doctor_audit_folder(struct doctor_finding *f)
{
	static const char remedy[] = "eclusa run --audit-dir DIR";
	char path[PATH_MAX], at[PATH_MAX];
	struct failure why = {0};
	int r = audit_folder_default(userns_is_initial_root(), path, sizeof(path), &why);
	if (r < 0) {
		doctor_fail(f, remedy, "%s", why.text);
		return;
	}
	(void)slice_copy(slice_of(path), at, sizeof(at)); /* same size */
	bool there = nearest(at);
	auto_fd fd = there ? audit_folder_open(path, &why) : -1;
	r = there && fd < 0 ? fd : try_write(at);
	if (r < 0)
		doctor_fail(f, remedy, "%.256s: %s", path, why.code < 0 ? why.text : strerror(-r));
	else
		doctor_ok(f, "%.256s%s", path, there ? "" : ", which the first run makes");
}

void doctor_audit_key(struct doctor_finding *f)
{
	char path[PATH_MAX], at[PATH_MAX], remedy[DOCTOR_REMEDY_BYTES];
	struct failure why = {0};
	int r = audit_key_path(userns_is_initial_root(), path, sizeof(path), &why);
	if (r < 0) {
		doctor_warn(f, true, "set HOME", "%s: the log is not signed", why.text);
		return;
	}
	(void)slice_copy(slice_of(path), at, sizeof(at)); /* same size */
	if (nearest(at)) {
		auto_fd fd = audit_key_open(path, &why);
		(void)snprintf(remedy, sizeof(remedy), "chmod 600 %.200s", path);
		if (fd < 0)
			doctor_fail(f, remedy, "%s", why.text);
		else
			doctor_ok(f, "%.256s", path);
		return;
	}
	r = try_write(at);
	if (r < 0)
		doctor_warn(f, true, "give a place for it that can be written: XDG_STATE_HOME=DIR",
			"%.256s can't be made (%s): the log is not signed", path, strerror(-r));
	else
		doctor_ok(f, "%.256s, which the first run makes", path);
}
