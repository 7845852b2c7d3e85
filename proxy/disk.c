/*
 * See disk.h. Linux's asynchronous I/O (io_submit(2), IOCB_CMD_FDSYNC since 4.18): the kernel's own threads wait for the disk. Raw calls,
 * since glibc has no functions for them.
 */
#include "proxy/disk.h"

#include "common/cleanup.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

void disk_open(struct disk *d)
{
	*d = (struct disk){.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
}

/** Not before the first question: a process that has a context waits 10 ms and more for it in its exit (exit_aio() in the kernel). */
static bool can_ask(struct disk *d)
{
	if (d->event_fd >= 0 && d->context == 0 && syscall(SYS_io_setup, 1, &d->context) < 0)
		fd_close(&d->event_fd); /* a kernel without it: each sync is waited for */
	return d->event_fd >= 0;
}

int disk_begin(struct disk *d, int fd)
{
	struct iocb control = {.aio_fildes = (uint32_t)fd,
		.aio_lio_opcode = IOCB_CMD_FDSYNC,
		.aio_flags = IOCB_FLAG_RESFD,
		.aio_resfd = (uint32_t)d->event_fd};
	struct iocb *controls[] = {&control};
	if (can_ask(d) && syscall(SYS_io_submit, d->context, 1L, controls) == 1) {
		d->pending = true;
		return 0;
	}
	return fdatasync(fd) < 0 ? -errno : 1; /* also on a file system that can't do it aside */
}

/** Its answer, if there is one within this time; NULL: wait. @return 0: there is none. */
static int take(struct disk *d, struct timespec *limit, int *ret_result)
{
	struct io_event event = {0};
	long got;
	do {
		got = syscall(SYS_io_getevents, d->context, 1L, 1L, &event, limit);
	} while (got < 0 && errno == EINTR);
	if (got == 0)
		return 0;
	d->pending = false;
	*ret_result = got < 0 ? -errno : event.res < 0 ? (int)event.res : 0;
	return 1;
}

bool disk_ended(struct disk *d, int *ret_result)
{
	struct timespec none = {0};
	uint64_t count;
	if (!d->pending)
		return false;
	(void)!read(d->event_fd, &count, sizeof(count)); /* only the wake-up counts */
	return take(d, &none, ret_result) == 1;
}

int disk_wait(struct disk *d)
{
	int result = 0;
	if (d->pending)
		(void)take(d, NULL, &result); /* without a limit there is an answer */
	return result;
}
