/*
 * Control groups of one run: memory, pids, cpu. v1 (a child in each hierarchy, joined by the sandbox itself
 * through descriptors that it is sent) or v2 (the sandbox is born in it). Lives under the launcher's own
 * group. Each is locked while its launcher lives. The first is made first and removed last, so that the next start finds by it what a
 * killed launcher left.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_CGROUP_H
#define ECLUSA_SANDBOX_LAUNCHER_CGROUP_H

#include "sandbox-launcher/spec.h"

enum cgroup_kind { CGROUP_NONE, CGROUP_V1, CGROUP_V2 };
enum cgroup_part { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_CPUACCT, CGROUP_PART_COUNT };

#define CGROUP_NAME_BYTES 64
#define CGROUP_PREFIX     "eclusa-" /* then the sandbox id */

/** Descriptors are -1 where absent; hierarchies that are mounted together share the first one's group. */
struct cgroup {
	enum cgroup_kind kind;
	char name[CGROUP_NAME_BYTES];
	int parent[CGROUP_PART_COUNT]; /* folder that holds the group */
	int group[CGROUP_PART_COUNT];  /* the group, locked; v2 uses index 0 only */
	int join[CGROUP_PART_COUNT];   /* v1: `tasks`, write-only */
	int oom; /* v1: readable once memory ran out (v2 kills the group by itself); -1 elsewhere */
};

/** What the kernel counted. UINT64_MAX: not known. */
struct cgroup_usage {
	uint64_t cpu_ns;
	uint64_t memory_peak_bytes;
	uint64_t oom_kills;
	uint64_t pids_refused;
	uint64_t pids_peak;
	uint64_t io_read_bytes, io_written_bytes; /* of disks; v2 where io is given */
};

void cgroup_init(struct cgroup *g);
/**
 * Find where the group of run @id goes; kind NONE when this user can't have one (@why then says what lacks). v2: it is made, with the
 * spec's limits, as the sandbox is born in it. @return 0, also for NONE; negative errno when a group was made but a limit could not be set.
 */
int cgroup_create(struct cgroup *g, const char *id, const struct spec *spec, struct failure *why);
/** v1: make the groups, with the spec's limits, before the sandbox joins them. @return 0 or negative errno. */
int cgroup_fill(struct cgroup *g, const struct spec *spec, struct failure *why);
/** In the sandbox's first process, before it has children or threads. Async-signal-safe. */
int cgroup_join(const struct cgroup *g);
/** In the sandbox: forget the descriptors. */
void cgroup_forget(struct cgroup *g);
void cgroup_read(const struct cgroup *g, struct cgroup_usage *ret);
/**
 * Let the group read so much a second from each disk that the host has now, and write as much; 0: no limit.
 * @return 0, -EOPNOTSUPP where the group can't have it, or another negative errno.
 */
int cgroup_io_limit(const struct cgroup *g, uint64_t bytes_per_second);
/** Whether memory ran out since this was asked last, where the kernel does not kill the group as a whole. */
bool cgroup_oom_seen(const struct cgroup *g);
/** Processor time so far; UINT64_MAX when not known. */
uint64_t cgroup_cpu_ns(const struct cgroup *g);
/** Remove the group; its processes must have ended. */
void cgroup_remove(struct cgroup *g);
/** Remove groups that dead launchers left beside this one. */
void cgroup_sweep(const struct cgroup *g);
const char *cgroup_kind_name(enum cgroup_kind kind);
/** Which rung of the ladder: none, v1, hybrid (v1, beside a v2 without controllers), v2, v2-delegated (to an ordinary user). */
const char *cgroup_rung(const struct cgroup *g, bool root);

/* For cgroup_v1.c and cgroup_v2.c. @own: /proc/self/cgroup, empty when it can't be read. */
int cgroup_v1_find(struct cgroup *g, struct slice own, struct failure *why);
int cgroup_v2_create(
	struct cgroup *g, const struct spec *spec, struct slice own, struct failure *why);
/** mkdir, open, lock, as often as a sweep of another launcher comes between. @return descriptor or negative errno. */
int cgroup_make(int parent, const char *name);
void cgroup_io_read(const struct cgroup *g, struct cgroup_usage *to);
/** The path of this process in the line that names @controller ("" = v2). @return 0 or -ENOENT, -ENAMETOOLONG. */
int cgroup_own_path(struct slice own, const char *controller, char *ret_path, size_t capacity);
/** A number from a file of the group, or after "@key " in it. UINT64_MAX: absent. */
uint64_t cgroup_number(int group, const char *file, const char *key);

#endif
