/*
 * The supervisor's end of the filter: refusals whose row says so wait here for their answer, which is always the row's
 * errno, and so does sysinfo(), which is answered from here. No call is ever let through: what the program's memory says is for
 * the record alone, as it may change right after it was read. A loop of them is slowed down, so that it costs the supervisor little.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_NOTIFY_H
#define ECLUSA_SANDBOX_LAUNCHER_NOTIFY_H

#include "sandbox-launcher/violation.h"

#include <poll.h>

#define NOTIFY_PROMPT   256 /* answers at once, of a run; later ones are */
#define NOTIFY_PAUSE_MS 10  /* apart by this */
/* calls that are answered at once, of a run; later ones are a millisecond apart */
#define NOTIFY_ANSWERS_PROMPT 4096

/** notify_init(), notify_fini(). */
struct notify {
	int listener;  /* owned; -1: there is none, or no process of the sandbox is left */
	uint64_t held; /* a refusal that is answered at due_ns; 0 = none */
	int held_error;
	uint64_t due_ns;
	unsigned answered;       /* of FILTER_ANSWER */
	uint64_t memory_bytes;   /* that sysinfo() tells of */
	struct violations *seen; /* borrowed */
};

void notify_init(struct notify *n, uint64_t memory_bytes, struct violations *seen);
void notify_fini(struct notify *n);
/** Take the listener over, once. */
void notify_listen(struct notify *n, int listener);
/** What to wait for, and at most how long: in ms, -1 = without end. */
void notify_poll(const struct notify *n, struct pollfd *ret);
int notify_wait_ms(const struct notify *n, uint64_t now_ns);
/** Record and answer at most one. @revents of the poll. Never blocks. */
void notify_serve(struct notify *n, short revents, uint64_t now_ns);

#endif
