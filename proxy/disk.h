/* Asking the disk for a file's bytes without standing still until it answers. One question at a time. */
#ifndef ECLUSA_PROXY_DISK_H
#define ECLUSA_PROXY_DISK_H

#include <stdatomic.h>
#include <stdbool.h>

struct disk {
	int ask_fd;   /* wakes the thread that asks; -1: there can be none */
	int event_fd; /* readable when there is an answer; -1: each question is waited for */
	bool started; /* the thread is there */
	bool pending;
	atomic_int file; /* the thread's while pending */
	atomic_int result;
};

/** Before the process is confined. Lives as long as it, with its address: a thread has it from the first question on. */
void disk_open(struct disk *d);
/** Ask for all that was written so far. @return 0: disk_ended() will tell; 1: it is on the disk; negative errno. */
int disk_begin(struct disk *d, int fd);
/** Whether the answer is there: *ret_result 0 or negative errno. */
bool disk_ended(struct disk *d, int *ret_result);
/** Wait for the answer, if one is due. @return 0 or negative errno. */
int disk_wait(struct disk *d);

#endif
