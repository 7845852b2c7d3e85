/* See cgroup.h: a group in each v1 hierarchy that has what we limit. */
#include "sandbox-launcher/cgroup.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>

static const char *const CONTROLLERS[CGROUP_PART_COUNT] = {"memory", "pids", "cpu", "cpuacct"};

/* The launcher's own group in this hierarchy; within a container, where the path is the host's, its root. */
static int open_own(struct slice own, const char *controller)
{
	char path[PATH_MAX], full[PATH_MAX + 64];
	struct statfs fs;
	if (cgroup_own_path(own, controller, path, sizeof(path)) < 0)
		return -ENOENT;
	int len = snprintf(full, sizeof(full), "/sys/fs/cgroup/%s", controller);
	(void)slice_copy(slice_of(path), full + len, sizeof(full) - (size_t)len); /* fits */
	auto_fd fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	full[len] = '\0';
	if (fd < 0)
		fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstatfs(fd, &fs) < 0)
		return -errno;
	return fs.f_type == CGROUP_SUPER_MAGIC ? fd_take(&fd) : -ENOENT;
}

/* cpu and cpuacct are often one hierarchy under two names. @folders: of the parts so far. */
static bool is_of_earlier(
	const struct cgroup *g, int part, const struct stat folders[static CGROUP_PART_COUNT])
{
	for (int i = 0; i < part; i++)
		if (g->parent[i] >= 0 && folders[i].st_dev == folders[part].st_dev &&
			folders[i].st_ino == folders[part].st_ino)
			return true;
	return false;
}

static int find_part(
	struct cgroup *g, int part, struct slice own, struct stat folders[static CGROUP_PART_COUNT])
{
	auto_fd parent = open_own(own, CONTROLLERS[part]);
	if (parent < 0)
		return parent;
	if (fstat(parent, &folders[part]) < 0 ||
		faccessat(parent, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return -errno;
	if (!is_of_earlier(g, part, folders))
		g->parent[part] = fd_take(&parent);
	return 0;
}

int cgroup_v1_find(struct cgroup *g, struct slice own, struct failure *why)
{
	struct stat folders[CGROUP_PART_COUNT];
	for (int part = 0; part < CGROUP_PART_COUNT; part++) {
		int r = find_part(g, part, own, folders);
		if (r == 0)
			continue;
		cgroup_forget(g); /* all or nothing: half a limit is no limit */
		if (r == -ENOENT)
			return r;
		return failure_errno(why, r, "can't make a control group of %s", CONTROLLERS[part]);
	}
	g->kind = CGROUP_V1;
	return 0;
}

/* Without a parent it is in the group of the part before. */
static int make_part(struct cgroup *g, int part)
{
	if (g->parent[part] < 0) {
		g->group[part] = fcntl(g->group[part - 1], F_DUPFD_CLOEXEC, 3);
		return g->group[part] < 0 ? -errno : 0;
	}
	int group = cgroup_make(g->parent[part], g->name);
	if (group < 0)
		return group;
	g->group[part] = group;
	g->join[part] = openat(group, "tasks", O_WRONLY | O_CLOEXEC);
	return g->join[part] < 0 ? -errno : 0;
}

static int set_number(const struct cgroup *g, int part, const char *file, uint64_t value)
{
	char text[32];
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return file_write_text(g->group[part], file, text);
}

static int set_limits(const struct cgroup *g, const struct spec *spec)
{
	int r = set_number(g, CGROUP_MEMORY, "memory.limit_in_bytes", spec->memory_bytes);
	if (r == 0) {
		r = set_number(g, CGROUP_MEMORY, "memory.memsw.limit_in_bytes", spec->memory_bytes);
		if (r == -ENOENT) /* no swap accounting: then at least do not prefer swap */
			r = set_number(g, CGROUP_MEMORY, "memory.swappiness", 0);
	}
	if (r == 0) { /* v1 counts socket buffers by themselves, and not at all without this */
		r = set_number(
			g, CGROUP_MEMORY, "memory.kmem.tcp.limit_in_bytes", spec->memory_bytes / 2);
		if (r == -ENOENT)
			r = 0; /* a kernel without: see docs/limits.md */
	}
	if (r == 0) /* the sandbox's own init does not count against the user's number */
		r = set_number(g, CGROUP_PIDS, "pids.max", (uint64_t)spec->pids_limit + 1);
	if (r == 0)
		r = set_number(g, CGROUP_CPU, "cpu.cfs_quota_us", (uint64_t)spec->cpu_milli * 100);
	return r;
}

/* The kernel tells of it before it kills one process of the group; killing the others is ours. */
static int watch_oom(struct cgroup *g)
{
	char text[32];
	auto_fd control =
		openat(g->group[CGROUP_MEMORY], "memory.oom_control", O_RDONLY | O_CLOEXEC);
	auto_fd event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (control < 0 || event < 0)
		return -errno;
	(void)snprintf(text, sizeof(text), "%d %d", event, control);
	int r = file_write_text(g->group[CGROUP_MEMORY], "cgroup.event_control", text);
	if (r == 0)
		g->oom = fd_take(&event);
	return r;
}

int cgroup_fill(struct cgroup *g, const struct spec *spec, struct failure *why)
{
	if (g->kind != CGROUP_V1)
		return 0;
	for (int part = 0; part < CGROUP_PART_COUNT; part++) {
		int r = make_part(g, part);
		if (r < 0)
			return failure_errno(
				why, r, "can't make a control group of %s", CONTROLLERS[part]);
	}
	int r = set_limits(g, spec);
	if (r == 0)
		r = watch_oom(g);
	return r < 0 ? failure_errno(why, r, "can't set the limits of a control group") : 0;
}
