/*
 * The system calls that a sandboxed program may make: default deny. The two programs (which calls there are, and with
 * which arguments) are compiled when Eclusa is built, by filter_gen.c with libseccomp; here they are loaded.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_FILTER_H
#define ECLUSA_SANDBOX_LAUNCHER_FILTER_H

/**
 * Load both into the calling thread, whose no_new_privs must be set. Afterwards a call outside the table fails with
 * ENOSYS, one that exists to gain privileges with EPERM, and one of a foreign ABI kills. Async-signal-safe.
 * @return 0 or negative errno.
 */
int filter_load(void);

#endif
