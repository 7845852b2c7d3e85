/* See cgroup.h: one group in the unified hierarchy, beside or below the launcher's own. */
#include "sandbox-launcher/cgroup.h"

#include "common/cleanup.h"
#include "common/file.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/statfs.h>

static bool has_word(struct slice text, struct slice word)
{
	struct slice one;
	text = slice_trim(text);
	while (text.len > 0) {
		if (!slice_split(text, ' ', &one, &text)) {
			one = text;
			text.len = 0;
		}
		if (slice_equal(slice_part(one, 0, one.len), word))
			return true;
	}
	return false;
}

/* Whether children of this group get memory, pids and cpu. */
static bool gives_controllers(int fd)
{
	char text[512];
	auto_fd file = openat(fd, "cgroup.subtree_control", O_RDONLY | O_CLOEXEC);
	ssize_t got = file < 0 ? -1 : read(file, text, sizeof(text));
	if (got <= 0)
		return false;
	struct slice words = {text, (size_t)got - 1}; /* without the newline */
	return has_word(words, SLICE("memory")) && has_word(words, SLICE("pids")) &&
		has_word(words, SLICE("cpu"));
}

/*
 * The nearest of the launcher's own group and its ancestors whose children get the controllers. A group that holds
 * processes can't give any, so it is usually the parent: root's slice, or one that was delegated to the user.
 */
static int open_parent(struct slice own)
{
	static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
	char path[PATH_MAX], full[PATH_MAX + 64];
	if (cgroup_own_path(own, "", path, sizeof(path)) < 0)
		return -ENOENT;
	for (size_t i = 0; i < array_size(roots); i++) {
		struct statfs fs;
		if (statfs(roots[i], &fs) < 0 || fs.f_type != CGROUP2_SUPER_MAGIC)
			continue;
		for (;;) {
			(void)snprintf(full, sizeof(full), "%s%s", roots[i], path);
			auto_fd fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (fd >= 0 && gives_controllers(fd))
				return fd_take(&fd);
			char *slash = strrchr(path, '/');
			if (slash == NULL || path[1] == '\0')
				break;
			slash[slash == path ? 1 : 0] = '\0';
		}
	}
	return -ENOENT;
}

static int set_limits(int group, const struct spec *spec)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)spec->memory_bytes);
	int r = file_write_text(group, "memory.max", text);
	if (r == 0) {
		r = file_write_text(group, "memory.swap.max", "0");
		if (r == -ENOENT)
			r = 0; /* a kernel without swap accounting */
	}
	if (r == 0)
		r = file_write_text(group, "memory.oom.group", "1");
	(void)snprintf(text, sizeof(text), "%u", spec->pids_limit + 1);
	if (r == 0)
		r = file_write_text(group, "pids.max", text);
	(void)snprintf(text, sizeof(text), "%u 100000", spec->cpu_milli * 100);
	if (r == 0)
		r = file_write_text(group, "cpu.max", text);
	return r;
}

int cgroup_v2_create(
	struct cgroup *g, const struct spec *spec, struct slice own, struct failure *why)
{
	auto_fd parent = open_parent(own);
	if (parent < 0)
		return failure_set(why, parent,
			"no control group with memory, pids and cpu is mounted or delegated");
	int group = cgroup_make(parent, g->name);
	if (group < 0)
		return failure_errno(why, group, "can't make a control group");
	g->kind = CGROUP_V2;
	g->group[0] = group;
	g->parent[0] = fd_take(&parent);
	int r = set_limits(group, spec);
	return r < 0 ? failure_errno(why, r, "can't set the limits of a control group") : 0;
}
