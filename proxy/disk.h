/* Asking the disk for a file's bytes without standing still until it answers. One question at a time. */
#ifndef ECLUSA_PROXY_DISK_H
#define ECLUSA_PROXY_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct disk {
	unsigned long context; /* aio_context_t; 0: nothing was asked yet */
	int event_fd; /* readable when there is an answer; -1: the kernel can't ask aside */
	bool pending;
};

/** Before the process is confined. Lives as long as it. */
void disk_open(struct disk *d);
/** Ask for all that was written so far. @return 0: disk_ended() will tell; 1: it is on the disk; negative errno. */
int disk_begin(struct disk *d, int fd);
/** Whether the answer is there: *ret_result 0 or negative errno. */
bool disk_ended(struct disk *d, int *ret_result);
/** Wait for the answer, if one is due. @return 0 or negative errno. */
int disk_wait(struct disk *d);

#endif
