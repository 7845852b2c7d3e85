/*
 * Landlock, where the kernel has it: a second opinion about files beside the mounts, never instead of them. Reading and
 * executing is left to the mounts; writing, making and removing is for the writable folders alone; devices can't be made
 * anywhere; abstract sockets and signals stay inside. Source: landlock(7).
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_LANDLOCK_H
#define ECLUSA_SANDBOX_LAUNCHER_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>

/* Before 2 a file could not move from one folder to another at all, which programs do. */
#define LANDLOCK_ABI_MIN 2

/** What the kernel has; 0: nothing, or not enabled. */
int landlock_abi(void);
/**
 * Restrict the caller, whose no_new_privs is set, to write below @writable only (absolute, @count of them; absent ones are
 * left out). @return the ABI that was applied; 0: the kernel has none that we use; negative errno.
 */
int landlock_apply(const char *const *writable, size_t count);
/** Whether it holds: asks for what only Landlock refuses with EACCES. @folder is one of the writable. */
bool landlock_holds(const char *folder);

#endif
