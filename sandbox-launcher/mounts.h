/*
 * The file tree of a sandbox, built by its first process in its own mount namespace: a read-only root of tmpfs with
 * the view in it, fresh /proc, and the few writable folders. Afterwards nothing of the host's tree can be named.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_MOUNTS_H
#define ECLUSA_SANDBOX_LAUNCHER_MOUNTS_H

#include "sandbox-launcher/view.h"

#define MOUNTS_OUT     "/out"
#define MOUNTS_SCRATCH "/tmp, /work, " VIEW_HOME " and /dev/shm" /* one file system */

/** What to build. Descriptors are borrowed. */
struct mounts {
	const struct view *view;
	int out;                /* detached tmpfs that the launcher also holds */
	bool has_late;          /* something of the caller's is in the view */
	uint64_t scratch_bytes; /* size of what MOUNTS_SCRATCH names, together */
};

/**
 * Build and enter it; the working directory becomes /work. The caller has CAP_SYS_ADMIN in its user namespace,
 * which owns its mount and pid namespaces, and its uid is the sandbox's. *ret_loadavg: of proc_mount(). @return 0 or negative errno.
 */
int mounts_enter(const struct mounts *m, int *ret_loadavg, struct failure *why);
/** Size of the writable folders but /out: they are memory, so that half leaves room for the program. */
static inline uint64_t mounts_scratch_bytes(uint64_t memory_bytes)
{
	return memory_bytes / 2;
}
/** Writable folders that are full, seen from inside: MOUNTS_OUT, MOUNTS_SCRATCH or the place of a --tmpfs; NULL: none. @to: room for a path. */
const char *mounts_full(const struct view *v, char to[static VIEW_PATH_BYTES + 1]);

#endif
