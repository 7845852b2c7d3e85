/*
 * /proc of a sandbox: fresh, of its own processes, read-only, without what tells about the host or reaches beyond the sandbox,
 * and with the texts of machine.h in place of some files.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_PROC_H
#define ECLUSA_SANDBOX_LAUNCHER_PROC_H

#include "sandbox-launcher/view.h"

/**
 * A detached fresh /proc of the caller's pid namespace, read-only as a whole, where processes that may not be traced (our own init)
 * do not show. User namespaces below the caller's are forbidden with it. @return descriptor or negative errno.
 */
int proc_make(void);
/**
 * Mount it at "proc" of the working directory, and cover what must not be read. @base: a file system of ours
 * that can be written. @return 0 or negative errno; *ret_loadavg: the kernel's own loadavg, which is covered; untouched when NULL.
 */
int proc_mount(int base, const struct view *v, int *ret_loadavg);

#endif
