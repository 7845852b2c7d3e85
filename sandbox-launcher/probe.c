/* See probe.h. */
#include "sandbox-launcher/probe.h"

#include "common/cleanup.h"
#include "sandbox-launcher/filter_table.h"
#include "sandbox-launcher/landlock.h"
#include "sandbox-launcher/limits.h"
#include "sandbox-launcher/machine.h"
#include "sandbox-launcher/userns.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#define TEXT_BYTES 8192

static int read_namespaces(ino_t ret[static PROBE_NAMESPACES])
{
	static const char *const names[PROBE_NAMESPACES] = {
		"user", "mnt", "pid", "ipc", "uts", "cgroup", "net"};
	auto_fd folder = open("/proc/self/ns", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0)
		return -errno;
	for (size_t i = 0; i < PROBE_NAMESPACES; i++) {
		struct stat st;
		if (fstatat(folder, names[i], &st, 0) < 0)
			return -errno;
		ret[i] = st.st_ino;
	}
	return 0;
}

int probe_outside(struct probe_outside *ret)
{
	return read_namespaces(ret->namespaces);
}

/* @return what is in the file, up to @to's size; empty when it can't be read. */
static struct slice read_text(const char *path, char to[static TEXT_BYTES])
{
	size_t used = 0;
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : 1;
	while (got > 0 && used < TEXT_BYTES) {
		got = read(fd, to + used, TEXT_BYTES - used);
		used += got > 0 ? (size_t)got : 0;
	}
	return (struct slice){to, got < 0 ? 0 : used};
}

bool probe_cgroup(const struct cgroup *g)
{
	char text[TEXT_BYTES];
	struct slice rest = read_text("/proc/self/cgroup", text), line;
	unsigned wanted = g->kind == CGROUP_V2, found = 0;
	for (int i = 0; i < CGROUP_PART_COUNT; i++)
		wanted += g->join[i] >= 0;
	while (slice_split(rest, '\n', &line, &rest))
		found += slice_ends(line, slice_of(g->name));
	return wanted > 0 && found >= wanted;
}

static bool namespaces_differ(const struct probe_outside *outside)
{
	ino_t own[PROBE_NAMESPACES] = {0};
	bool differ = read_namespaces(own) == 0;
	for (size_t i = 0; i < PROBE_NAMESPACES && differ; i++)
		differ = own[i] != outside->namespaces[i];
	return differ;
}

/* Whether a file can't be made at @path: EROFS is what a read-only mount says, before anybody asks for permission. */
static bool refuses_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return errno == EROFS;
	fd_close(&fd);
	(void)unlink(path);
	return false;
}

static bool mounts_hold(void)
{
	struct statvfs root;
	const unsigned long flags = ST_RDONLY | ST_NOSUID | ST_NODEV;
	struct stat own, above;
	return statvfs("/", &root) == 0 && (root.f_flag & flags) == flags &&
		refuses_file("/.eclusa-probe") && stat("/", &own) == 0 &&
		stat("/..", &above) == 0 && own.st_dev == above.st_dev &&
		own.st_ino == above.st_ino;
}

/* Whether what tells of the machine is ours, wherever this kernel has a file of that name. */
static bool machine_is_ours(void)
{
	bool ours = true;
	for (size_t i = 0; MACHINE_FILES[i] != NULL && ours; i++) {
		char path[32];
		struct statfs fs;
		(void)snprintf(path, sizeof(path), "/proc/%s", MACHINE_FILES[i]); /* fits */
		ours = statfs(path, &fs) == 0 ? fs.f_type == TMPFS_MAGIC : errno == ENOENT;
	}
	return ours;
}

static bool proc_holds(void)
{
	struct statfs fs;
	char self[16] = "", most[4] = "";
	auto_fd setting = open("/proc/sys/kernel/core_pattern", O_WRONLY | O_CLOEXEC);
	bool closed = setting < 0 && (errno == EROFS || errno == EACCES || errno == EPERM);
	auto_fd below = open("/proc/sys/user/max_user_namespaces", O_RDONLY | O_CLOEXEC);
	return closed && machine_is_ours() && getpid() == 1 && statfs("/proc", &fs) == 0 &&
		fs.f_type == PROC_SUPER_MAGIC && readlink("/proc/self", self, sizeof(self)) == 1 &&
		self[0] == '1' && below >= 0 && read(below, most, sizeof(most)) == 2 &&
		most[0] == '0';
}

/* A line "name:\tvalue" of /proc/self/status. */
static struct slice status_of(struct slice text, const char *name)
{
	struct slice line, key, value;
	while (slice_split(text, '\n', &line, &text))
		if (slice_split(line, ':', &key, &value) && slice_equal(key, slice_of(name)))
			return slice_trim(value);
	return (struct slice){0};
}

static uint32_t status_layers(void)
{
	static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
	char text[TEXT_BYTES];
	struct slice status = read_text("/proc/self/status", text);
	uint32_t found = LAYER_BIT(LAYER_CAPABILITIES);
	for (size_t i = 0; i < array_size(sets); i++) {
		uint64_t set;
		if (slice_hex(status_of(status, sets[i]), UINT64_MAX, &set) < 0 || set != 0)
			found = 0;
	}
	if (slice_equal(status_of(status, "NoNewPrivs"), SLICE("1")))
		found |= LAYER_BIT(LAYER_NO_NEW_PRIVS);
	return found;
}

/* A quiet row and a number without a row: neither waits for the launcher. */
static bool filter_holds(void)
{
	bool quiet = syscall(SYS_io_uring_setup, 0, NULL) < 0 && errno == EPERM;
	return quiet && syscall(FILTER_NUMBER_MAX + 1) < 0 && errno == ENOSYS;
}

static bool rlimits_hold(struct probe_facts *facts)
{
	struct rlimit core, files, queues;
	if (getrlimit(RLIMIT_CORE, &core) < 0 || getrlimit(RLIMIT_NOFILE, &files) < 0 ||
		getrlimit(RLIMIT_MSGQUEUE, &queues) < 0)
		return false;
	facts->open_files = files.rlim_max;
	return core.rlim_max <= 1 && files.rlim_max <= LIMITS_OPEN_FILES && queues.rlim_max == 0;
}

/* @return whether there is at most one beside lo. The first two lines are headings: proc_pid_net(5). */
static bool network_holds(struct probe_facts *facts)
{
	char text[TEXT_BYTES];
	struct slice rest = read_text("/proc/self/net/dev", text), line, name;
	unsigned lines = 0;
	bool loopback = false;
	while (slice_split(rest, '\n', &line, &rest)) {
		if (++lines <= 2 || !slice_split(line, ':', &name, &line))
			continue;
		if (slice_equal(slice_trim(name), SLICE("lo")))
			loopback = true;
		else
			facts->links++;
	}
	return loopback && facts->links <= 1;
}

/* "1000 OUTSIDE 1": what is outside as the launcher's namespace numbers it, where the launcher is 0. */
static bool has_own_uid(void)
{
	char text[TEXT_BYTES];
	struct slice line = read_text("/proc/self/uid_map", text), word;
	uint64_t numbers[2] = {0};
	for (size_t i = 0; i < array_size(numbers); i++) {
		line = slice_trim(line);
		if (!slice_split(line, ' ', &word, &line) ||
			slice_decimal(word, UINT32_MAX, true, &numbers[i]) < 0)
			numbers[i] = 0;
	}
	return numbers[0] == SANDBOX_UID && numbers[1] != 0 && getuid() == SANDBOX_UID;
}

void probe_inside(const struct probe_outside *outside, struct probe_facts *facts)
{
	const struct {
		enum layer layer;
		bool holds;
	} seen[] = {
		{LAYER_NAMESPACES, namespaces_differ(outside)},
		{LAYER_MOUNTS, mounts_hold()},
		{LAYER_PROC, proc_holds()},
		{LAYER_FILTER, filter_holds()},
		{LAYER_RLIMITS, rlimits_hold(facts)},
		{LAYER_NETWORK, network_holds(facts)},
		{LAYER_UID, has_own_uid()},
	};
	for (size_t i = 0; i < array_size(seen); i++)
		if (seen[i].holds)
			facts->layers |= LAYER_BIT(seen[i].layer);
	facts->layers |= status_layers();
}
