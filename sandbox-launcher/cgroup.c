/* See cgroup.h: what both versions share. */
#include "sandbox-launcher/cgroup.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>

void cgroup_init(struct cgroup *g)
{
	*g = (struct cgroup){.kind = CGROUP_NONE, .oom = -1};
	for (int i = 0; i < CGROUP_PART_COUNT; i++)
		g->parent[i] = g->group[i] = g->join[i] = -1;
}

int cgroup_create(struct cgroup *g, const char *id, const struct spec *spec, struct failure *why)
{
	(void)snprintf(g->name, sizeof(g->name), CGROUP_PREFIX "%s", id);
	struct failure first = {0};
	struct buf own;
	buf_init(&own, 1 << 20);
	int r = file_read(AT_FDCWD, "/proc/self/cgroup", 65536, &own);
	if (r < 0)
		buf_clear(&own);
	r = cgroup_v1_find(g, buf_slice(&own), &first);
	if (r == -ENOENT)
		r = cgroup_v2_create(g, spec, buf_slice(&own), &first);
	buf_fini(&own);
	if (r == 0)
		return 0;
	(void)failure_set(why, r, "%s", first.text);
	if (g->kind != CGROUP_NONE)
		return r;
	return 0;
}

int cgroup_join(const struct cgroup *g)
{
	for (int i = 0; i < CGROUP_PART_COUNT; i++) {
		if (g->join[i] < 0)
			continue;
		if (write(g->join[i], "0", 1) != 1)
			return -errno;
	}
	return 0;
}

void cgroup_forget(struct cgroup *g)
{
	fd_close(&g->oom);
	for (int i = 0; i < CGROUP_PART_COUNT; i++) {
		fd_close(&g->join[i]);
		fd_close(&g->group[i]);
		fd_close(&g->parent[i]);
	}
}

/* @return the locked folder; -EAGAIN when a sweeping launcher came between: it holds the lock, the folder may go. */
static int make_locked(int parent, const char *name)
{
	struct stat ours, now;
	if (mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
		return -errno;
	auto_fd fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	if (fstat(fd, &ours) < 0 || fstatat(parent, name, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
		ours.st_ino != now.st_ino)
		return -EAGAIN;
	return fd_take(&fd);
}

/* The name holds 50 random bits, so a folder that is there already is the one of an attempt before. */
int cgroup_make(int parent, const char *name)
{
	int r = -EAGAIN;
	for (int attempt = 0; attempt < 100 && r == -EAGAIN; attempt++) {
		struct timespec pause = {.tv_nsec = 200000};
		if (attempt > 0)
			(void)nanosleep(&pause, NULL); /* a sweep takes microseconds */
		r = make_locked(parent, name);
	}
	return r;
}

int cgroup_own_path(struct slice own, const char *controller, char *ret_path, size_t capacity)
{
	struct slice line;
	bool found = false;
	int r = 0;
	while (!found && own.len > 0) {
		if (!slice_split(own, '\n', &line, &own)) {
			line = own;
			own.len = 0;
		}
		struct slice number, controllers, path, word;
		if (!slice_split(line, ':', &number, &line) ||
			!slice_split(line, ':', &controllers, &path))
			continue;
		found = controllers.len == 0 && controller[0] == '\0';
		while (controllers.len > 0 && !found) {
			if (!slice_split(controllers, ',', &word, &controllers)) {
				word = controllers;
				controllers.len = 0;
			}
			found = slice_equal(word, slice_of(controller));
		}
		if (found)
			r = slice_copy(path, ret_path, capacity);
	}
	return r < 0 ? r : found ? 0 : -ENOENT;
}

uint64_t cgroup_number(int group, const char *file, const char *key)
{
	char text[4096];
	auto_fd fd = group < 0 ? -1 : openat(group, file, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text));
	if (got <= 0)
		return UINT64_MAX;
	struct slice rest = {text, (size_t)got}, line, name, value;
	uint64_t number;
	while (rest.len > 0) {
		if (!slice_split(rest, '\n', &line, &rest)) {
			line = rest;
			rest.len = 0;
		}
		value = line;
		if (key != NULL &&
			(!slice_split(line, ' ', &name, &value) ||
				!slice_equal(name, slice_of(key))))
			continue;
		return slice_decimal(value, UINT64_MAX, true, &number) == 0 ? number : UINT64_MAX;
	}
	return UINT64_MAX;
}

uint64_t cgroup_cpu_ns(const struct cgroup *g)
{
	if (g->kind == CGROUP_V1)
		return cgroup_number(g->group[CGROUP_CPUACCT], "cpuacct.usage", NULL);
	uint64_t us = g->kind == CGROUP_V2 ? cgroup_number(g->group[0], "cpu.stat", "usage_usec")
					   : UINT64_MAX;
	return us == UINT64_MAX ? us : us * 1000;
}

bool cgroup_oom_seen(const struct cgroup *g)
{
	uint64_t times;
	return g->oom >= 0 && read(g->oom, &times, sizeof(times)) == (ssize_t)sizeof(times);
}

void cgroup_read(const struct cgroup *g, struct cgroup_usage *ret)
{
	*ret = (struct cgroup_usage){.cpu_ns = cgroup_cpu_ns(g),
		.memory_peak_bytes = UINT64_MAX,
		.pids_peak = UINT64_MAX,
		.io_read_bytes = UINT64_MAX,
		.io_written_bytes = UINT64_MAX};
	cgroup_io_read(g, ret);
	uint64_t oom = UINT64_MAX, pids = UINT64_MAX;
	if (g->kind == CGROUP_V1) {
		int memory = g->group[CGROUP_MEMORY];
		ret->memory_peak_bytes = cgroup_number(memory, "memory.max_usage_in_bytes", NULL);
		oom = cgroup_number(memory, "memory.oom_control", "oom_kill");
		pids = cgroup_number(g->group[CGROUP_PIDS], "pids.events", "max");
		ret->pids_peak = cgroup_number(g->group[CGROUP_PIDS], "pids.peak", NULL);
	} else if (g->kind == CGROUP_V2) {
		ret->memory_peak_bytes = cgroup_number(g->group[0], "memory.peak", NULL);
		oom = cgroup_number(g->group[0], "memory.events", "oom_kill");
		pids = cgroup_number(g->group[0], "pids.events", "max");
		ret->pids_peak = cgroup_number(g->group[0], "pids.peak", NULL);
	}
	ret->oom_kills = oom == UINT64_MAX ? 0 : oom;
	ret->pids_refused = pids == UINT64_MAX ? 0 : pids;
}

/* The kernel lets go of the last process a moment after it was reaped. */
static void remove_folder(int parent, const char *name)
{
	for (int i = 0; i < 100; i++) {
		if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno != EBUSY)
			return;
		struct timespec pause = {.tv_nsec = 500000};
		(void)nanosleep(&pause, NULL); /* a short pause is enough */
	}
}

/* The first group goes last: while it is there, a sweep finds the others by it. */
void cgroup_remove(struct cgroup *g)
{
	for (int i = CGROUP_PART_COUNT; i-- > 0;)
		if (g->group[i] >= 0 && g->parent[i] >= 0)
			remove_folder(g->parent[i], g->name);
	cgroup_forget(g);
}

static void sweep_one(const struct cgroup *g, const char *name)
{
	auto_fd fd = openat(g->parent[0], name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	for (int i = CGROUP_PART_COUNT; i-- > 0;)
		if (g->parent[i] >= 0 && unlinkat(g->parent[i], name, AT_REMOVEDIR) < 0 &&
			errno != ENOENT)
			return; /* still in use: the next start tries again */
}

void cgroup_sweep(const struct cgroup *g)
{
	int fd = g->parent[0] < 0 ? -1
				  : openat(g->parent[0], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	if (folder == NULL) {
		fd_close(&fd);
		return;
	}
	while ((entry = readdir(folder)) != NULL)
		if (entry->d_type == DT_DIR && strcmp(entry->d_name, g->name) != 0 &&
			slice_starts(slice_of(entry->d_name), SLICE(CGROUP_PREFIX "sb-")))
			sweep_one(g, entry->d_name);
	(void)closedir(folder); /* only read from */
}

const char *cgroup_kind_name(enum cgroup_kind kind)
{
	static const char *const names[] = {"none", "v1", "v2"};
	return names[kind];
}

const char *cgroup_rung(const struct cgroup *g, bool root)
{
	struct statfs fs;
	if (g->kind == CGROUP_V1 && statfs("/sys/fs/cgroup/unified", &fs) == 0 &&
		fs.f_type == CGROUP2_SUPER_MAGIC)
		return "hybrid";
	if (g->kind == CGROUP_V2 && !root)
		return "v2-delegated";
	return cgroup_kind_name(g->kind);
}
