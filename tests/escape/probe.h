/*
 * Attempts to leave a sandbox, one class of published escapes each: every one tries only what the escape needs first, and
 * takes back at once what it got. What is reached may be the host's own (its network, its processes): so nothing is asked for that would
 * change it.
 */
#ifndef ECLUSA_TESTS_ESCAPE_PROBE_H
#define ECLUSA_TESTS_ESCAPE_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PROBE_SAW_BYTES 600

/** What whoever started the sandbox made outside of it, and what one class saw. */
struct attempt {
	const char *folder; /* the caller's, with `secret` and `daemon.sock` */
	const char *token;  /* text of `secret`; part of names and keys */
	int port;           /* of a listener on the host's loopback, which says the token */
	bool reached;
	char saw[PROBE_SAW_BYTES];
};

struct probe {
	const char *name;
	void (*run)(struct attempt *a);
};

/** A step that got through, and one that did not. Both are told; one that got through is enough. */
void attempt_reached(struct attempt *a, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void attempt_refused(struct attempt *a, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/** @result of a system call: negative is a refusal, told with errno. */
void attempt_call(struct attempt *a, const char *what, long result);
/** Open @path (never O_TRUNC) and close it. ETXTBSY counts: it could be written a moment later. */
void attempt_open(struct attempt *a, const char *path, int flags);
/** Whether the first bytes of @path are the token. */
bool attempt_is_secret(const struct attempt *a, const char *path);
/** The same of a descriptor. */
bool attempt_says_token(const struct attempt *a, int fd);
/** Whether @pid runs this program, as process 1 does where a sandbox has none of its own. */
bool attempt_is_own(pid_t pid);
/** Processes in /proc that are not of this program: @each is called until it says false. */
void attempt_others(struct attempt *a, bool (*each)(struct attempt *a, pid_t pid));

/* Each ends with an element without a name. */
extern const struct probe PROBES_FILES[];
extern const struct probe PROBES_KERNEL[];
extern const struct probe PROBES_PROCESS[];
extern const struct probe PROBES_CHANNELS[];

#endif
