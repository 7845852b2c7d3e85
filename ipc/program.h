/*
 * One of our helper programs, eclusa-netd or eclusa-proxy: found beside us, started with two
 * channels and nothing else, waited for through a pidfd. It leads a process group of its own, which
 * ends with it.
 */
#ifndef ECLUSA_IPC_PROGRAM_H
#define ECLUSA_IPC_PROGRAM_H

#include <stdbool.h>
#include "common/failure.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Zero-initialise pidfd and channel_fd to -1: PROGRAM_NONE. */
struct program {
	const char *name;
	pid_t pid; /* 0: not running, reaped */
	int pidfd;
	int channel_fd; /* our end of its descriptor 3 */
	int status;     /* as of waitpid(), once reaped */
};

#define PROGRAM_NONE ((struct program){.pidfd = -1, .channel_fd = -1})

/**
 * Start it with @first_fd as descriptor 3 and @second_fd as 4 (both stay the caller's), /dev/null
 * as input and output, our standard error, a session of its own, and none of our environment but
 * the fault points' variable. ret->channel_fd is kept. @return 0 or negative errno.
 */
int program_spawn(
	const char *name, int first_fd, int second_fd, struct program *ret, struct failure *why);
/**
 * Wait for its end at most until @deadline_ns, then kill it; kill and reap what it left in its
 * group (the caller must be a subreaper). Does nothing when it was reaped. Bounded by one more
 * second. @return whether all are gone.
 */
bool program_end(struct program *p, uint64_t deadline_ns);
/** Kill it and its group without waiting; program_end() still reaps them. */
void program_kill(const struct program *p);
/** "ended with status 70", "was killed by signal 9", after program_end(). @return to */
char *program_ending(const struct program *p, char *to, size_t capacity);
/** Close the descriptors; the process must have been reaped. */
void program_fini(struct program *p);

#endif
