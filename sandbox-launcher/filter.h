/*
 * The filter of system calls: the program that filter_table.h is compiled into, and loading it. Compiling takes some
 * microseconds and no library: libseccomp can't say "none of these bits in 32 of 64", and has one answer for calls with
 * and without tests.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_FILTER_H
#define ECLUSA_SANDBOX_LAUNCHER_FILTER_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>

#define FILTER_CODE_MAX 1536 /* the kernel takes 4,096 */

/** Classic BPF over struct seccomp_data (seccomp(2)). */
struct filter_program {
	struct sock_filter code[FILTER_CODE_MAX];
	unsigned short count;
	bool bound; /* with the rows of that kind */
};

/** Compile the table. @bound: the program may write to something of the host's. Allocates nothing. */
void filter_build(struct filter_program *ret, bool bound);

/**
 * Load it into the calling thread, whose no_new_privs must be set. Afterwards a call outside the table fails with ENOSYS, one
 * of a foreign ABI kills, and one whose row says so waits for the answer of whoever reads from *ret_listener. With
 * nobody there it fails with ENOSYS, and so it does when *ret_listener is -1: the process had a listener already.
 * Async-signal-safe. @return 0 or negative errno.
 */
int filter_load(const struct filter_program *program, int *ret_listener);

#endif
