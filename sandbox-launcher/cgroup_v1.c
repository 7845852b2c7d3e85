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
static int open_own(const char *controller)
{
	char path[PATH_MAX], full[PATH_MAX + 64];
	struct statfs fs;
	(void)snprintf(full, sizeof(full), "/sys/fs/cgroup/%s", controller);
	if (statfs(full, &fs) < 0 || fs.f_type != CGROUP_SUPER_MAGIC)
		return -ENOENT;
	if (cgroup_own_path(controller, path, sizeof(path)) < 0)
		return -ENOENT;
	(void)snprintf(full, sizeof(full), "/sys/fs/cgroup/%s%s", controller, path);
	int fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	(void)snprintf(full, sizeof(full), "/sys/fs/cgroup/%s", controller);
	fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* cpu and cpuacct are often one hierarchy under two names. */
static int same_as_earlier(const struct cgroup *g, int part, int fd)
{
	struct stat own, other;
	if (fstat(fd, &own) < 0)
		return -1;
	for (int i = 0; i < part; i++)
		if (g->parent[i] >= 0 && fstat(g->parent[i], &other) == 0 &&
			own.st_dev == other.st_dev && own.st_ino == other.st_ino)
			return i;
	return -1;
}

static int make_part(struct cgroup *g, int part)
{
	auto_fd parent = open_own(CONTROLLERS[part]);
	if (parent < 0)
		return parent;
	int same = same_as_earlier(g, part, parent);
	if (same >= 0) {
		g->group[part] = fcntl(g->group[same], F_DUPFD_CLOEXEC, 3);
		return g->group[part] < 0 ? -errno : 0;
	}
	int group = cgroup_make(parent, g->name);
	if (group < 0)
		return group;
	g->group[part] = group;
	g->parent[part] = fd_take(&parent);
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

int cgroup_v1_create(struct cgroup *g, const struct spec *spec, struct failure *why)
{
	for (int part = 0; part < CGROUP_PART_COUNT; part++) {
		int r = make_part(g, part);
		if (r == 0)
			continue;
		cgroup_remove(g); /* all or nothing: half a limit is no limit */
		if (r == -ENOENT)
			return r;
		return failure_errno(why, r, "can't make a control group of %s", CONTROLLERS[part]);
	}
	g->kind = CGROUP_V1;
	int r = set_limits(g, spec);
	if (r == 0)
		r = watch_oom(g);
	return r < 0 ? failure_errno(why, r, "can't set the limits of a control group") : 0;
}
