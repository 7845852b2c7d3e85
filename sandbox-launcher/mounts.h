/*
 * The file tree of a sandbox, built by its first process in its own mount namespace: a read-only root of tmpfs with
 * the view in it, fresh /proc, and the few writable folders. Afterwards nothing of the host's tree can be named.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_MOUNTS_H
#define ECLUSA_SANDBOX_LAUNCHER_MOUNTS_H

#include "sandbox-launcher/view.h"

#define MOUNTS_OUT "/out"

/** What to build. Descriptors are borrowed. */
struct mounts {
	const struct view *view;
	int out;                /* detached tmpfs that the launcher also holds */
	bool has_late;          /* something of the caller's is in the view */
	uint64_t scratch_bytes; /* size of /tmp, /work, and home and /dev/shm each */
};

/**
 * Build and enter it; the working directory becomes /work. The caller has CAP_SYS_ADMIN in its user namespace,
 * which owns its mount and pid namespaces, and its uid is the sandbox's. *ret_loadavg: of proc_mount(). @return 0 or negative errno.
 */
int mounts_enter(const struct mounts *m, int *ret_loadavg, struct failure *why);
/** Size of each writable folder but /out: they are memory, so that half leaves room for the program. */
static inline uint64_t mounts_scratch_bytes(uint64_t memory_bytes)
{
	return memory_bytes / 2;
}
/** A writable folder that is full, seen from inside; NULL: none. @to: room for its path. */
const char *mounts_full(const struct view *v, char to[static VIEW_PATH_BYTES + 1]);
/** Whether a mount of the caller's hides this folder of ours (absolute). */
bool mounts_is_shadowed(const struct view *v, const char *folder);

#endif
