/* Scope-bound ownership: auto_fd and auto_free release at scope end; take_* disarms. */
#ifndef ECLUSA_COMMON_CLEANUP_H
#define ECLUSA_COMMON_CLEANUP_H

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/** Close *fd if it is open and disarm it; errno is kept. */
static inline void fd_close(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		(void)close(*fd); /* nothing can be done about a failing close */
		errno = saved;
		*fd = -1;
	}
}

/** Hand *fd to a new owner and disarm it here. */
static inline int fd_take(int *fd)
{
	int taken = *fd;
	*fd = -1;
	return taken;
}

static inline void free_at_scope_end(void *where)
{
	void **ptr = where;
	free(*ptr);
	*ptr = NULL;
}

#define auto_fd   __attribute__((cleanup(fd_close))) int
#define auto_free __attribute__((cleanup(free_at_scope_end)))

/** Hand a pointer to a new owner and disarm it here. */
#define ptr_take(p)                                                                                \
	__extension__({                                                                            \
		__typeof__(p) taken_ = (p);                                                        \
		(p) = NULL;                                                                        \
		taken_;                                                                            \
	})

#define array_size(a) (sizeof(a) / sizeof((a)[0]))

#endif
