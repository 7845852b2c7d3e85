/*
 * See disk.h. A thread that does nothing but fdatasync(): it allocates nothing, writes no log, and shares with the process the
 * question and its answer. Two eventfds hand them over, so that each is only looked at by one side at a time.
 */
#include "proxy/disk.h"

#include "common/cleanup.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define STACK_BYTES ((size_t)64 << 10)

void disk_open(struct disk *d)
{
	*d = (struct disk){.ask_fd = eventfd(0, EFD_CLOEXEC),
		.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (d->ask_fd < 0)
		fd_close(&d->event_fd);
}

static void *disk_run(void *arg)
{
	struct disk *d = arg;
	eventfd_t asked;
	for (;;) {
		if (eventfd_read(d->ask_fd, &asked) < 0) {
			if (errno == EINTR)
				continue;
			return NULL; /* the question is late, and requests are denied */
		}
		int r = fdatasync(atomic_load(&d->file)) < 0 ? -errno : 0;
		atomic_store(&d->result, r);
		(void)eventfd_write(d->event_fd, 1); /* can't be full: one answer at a time */
	}
}

/** Not before the first question: a run without one has no thread. */
static bool can_ask(struct disk *d)
{
	pthread_attr_t attributes;
	pthread_t thread;
	if (d->event_fd < 0 || d->started)
		return d->event_fd >= 0;
	if (pthread_attr_init(&attributes) == 0) {
		(void)pthread_attr_setstacksize(
			&attributes, STACK_BYTES); /* enough on any machine */
		(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
		d->started = pthread_create(&thread, &attributes, disk_run, d) == 0;
		(void)pthread_attr_destroy(&attributes);
	}
	if (!d->started)
		fd_close(
			&d->event_fd); /* no more processes for this user: each sync is waited for */
	return d->started;
}

int disk_begin(struct disk *d, int fd)
{
	if (can_ask(d)) {
		atomic_store(&d->file, fd);
		d->pending = eventfd_write(d->ask_fd, 1) == 0;
	}
	if (d->pending)
		return 0;
	return fdatasync(fd) < 0 ? -errno : 1;
}

bool disk_ended(struct disk *d, int *ret_result)
{
	eventfd_t answers;
	if (!d->pending || eventfd_read(d->event_fd, &answers) < 0)
		return false;
	d->pending = false;
	*ret_result = atomic_load(&d->result);
	return true;
}

int disk_wait(struct disk *d)
{
	int result = 0;
	while (d->pending && !disk_ended(d, &result)) {
		struct pollfd wait = {.fd = d->event_fd, .events = POLLIN};
		(void)poll(&wait, 1, -1); /* looked at again, whatever it says */
	}
	return result;
}
