/* See filter.h. */
#include "sandbox-launcher/filter.h"

#include "common/cleanup.h"

#include <linux/filter.h>
#include <stdint.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>

/* FILTER_ARGUMENTS, then FILTER_CALLS: once the table of calls is loaded, seccomp() itself is gone */
#include "generated/filter_program.h"

static int load_one(const struct sock_filter *code, size_t count)
{
	struct sock_fprog program = {
		.len = (unsigned short)count,
		.filter = (struct sock_filter *)(uintptr_t)code, /* the kernel only reads it */
	};
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

int filter_load(void)
{
	int r = load_one(FILTER_ARGUMENTS, array_size(FILTER_ARGUMENTS));
	return r < 0 ? r : load_one(FILTER_CALLS, array_size(FILTER_CALLS));
}
