/* The service from inside: shared by its files, and by nobody else. */
#ifndef ECLUSA_PROXY_SERVE_STATE_H
#define ECLUSA_PROXY_SERVE_STATE_H

#include "audit/segment.h"
#include "ipc/program.h"
#include "ipc/service.h"
#include "policy/policy.h"
#include "proxy/alone_state.h"
#include "proxy/limits.h"
#include "proxy/serve.h"

#define SERVE_FILES_MAX 64 /* of the log, that are kept open for leases that began in them */
#define SERVE_READ_BYTES                                                                           \
	((size_t)1 << 20) /* of the log, for one lease, before others get their turn */
#define SERVE_EVENTS 64   /* of the poll, in a turn */

/** A file of the log, as long as a lease that began in it, or in one before it, is there. */
struct serve_file {
	struct serve_file *next; /* in which the log went on; NULL: the one that is written */
	unsigned uses;
	int fd; /* -1: closed, as there are too many */
};

/**
 *   ASKS -> BEGINS -> MADE -> RUNS -> COUNTS -> SETTLES -> TELLS -> READS -> GONE
 *
 * A launcher that is lost makes it go on from RUNS or later by itself: SETTLES, then its end is written, GONE. A refusal goes to
 * GONE from anywhere before RUNS.
 */
enum serve_state {
	SERVE_ASKS,    /* connected; has said nothing */
	SERVE_BEGINS,  /* its start goes into the log */
	SERVE_MADE,    /* netd and the worker are asked */
	SERVE_RUNS,    /* granted */
	SERVE_COUNTS,  /* the sandbox has ended: netd's counters are asked for */
	SERVE_SETTLES, /* netd's lease is over: what the worker has to say goes into the log */
	SERVE_TELLS,   /* its launcher tells the end */
	SERVE_READS,   /* its lines are looked for in the log */
	SERVE_GONE,    /* freed at the end of the turn */
};

struct serve_lease;

/** Whose descriptor it is that the poll reports. */
struct serve_source {
	struct serve_lease *lease; /* NULL: the listener, or the timer */
	bool netd;
};

struct serve_lease {
	struct serve_lease *next;
	struct serve *serve;
	enum serve_state state;
	struct serve_source launcher, netd;
	int fd, netd_fd; /* -1: gone */
	uid_t uid;
	pid_t pid;
	char id[SANDBOX_ID_BYTES]; /* "" before it has asked */
	char profile[MESSAGE_NAME_BYTES];
	char policy[MESSAGE_DIGEST_BYTES];
	uint64_t deadline_ns; /* UINT64_MAX: none */
	uint64_t start_ms;
	bool begun, ended; /* its start, its end is written, or on its way */
	unsigned events;   /* that the launcher told */
	unsigned queued;   /* events that wait for the log */
	int log_error;     /* negative errno: not all of it is in the log */
	struct message_counters_read counters;
	struct serve_file *file; /* of its start */
	off_t from;
	/* READS */
	struct serve_file *reading;
	off_t at;
	int lines_fd;
	uint64_t lines_bytes;
};

/** An event that waits until the log goes on in another file. */
struct serve_line {
	struct serve_line *next;
	struct serve_lease *lease;
	struct service_event event;
};

struct serve {
	struct alone *alone;
	struct limits limits;
	struct program netd;
	int listener_fd, epoll_fd, timer_fd;
	uint64_t paused_until_ns; /* no launcher is accepted before; 0: the listener is watched */
	int roots_fd;             /* of --upstream-ca; -1: none */
	struct policy *policy, *checked;
	struct message_netd_start made; /* what netd was started with */
	struct message_proxy_ready ready;
	struct serve_lease *leases;
	unsigned count, asking;
	struct serve_file *first, *file;
	unsigned files;
	struct audit_segment *writer; /* of file */
	struct serve_line *queue;
};

/* serve_start.c */
/** The @index-th of the profiles that runs may ask for; NULL after the last one. */
const char *serve_profile(const struct serve *s, size_t index);
int serve_start_netd(struct serve *s, int netd_side, struct failure *why);

/* serve_lease.c */
void serve_lease_new(struct serve *s, int fd, uid_t uid, pid_t pid);
void serve_lease_hear(struct serve_lease *l, bool netd);
void serve_lease_expired(struct serve_lease *l);
/** Something that it waited for has happened. */
void serve_lease_go_on(struct serve_lease *l);
void serve_lease_free(struct serve_lease *l);
/** What becomes of it when the service ends. */
void serve_lease_end(struct serve_lease *l);

/* serve_event.c */
/**
 * An event of the log out of what a launcher said, or -EBADMSG. @storage: NUL-terminated words, files; as long as the event.
 * Peer bytes.
 */
struct serve_words {
	char *argv[SERVICE_WORDS_MAX + 1];
	struct audit_file files[SERVICE_FILES_MAX];
};
int serve_event_read(
	const struct service_event *m, struct serve_words *storage, struct audit_event *ret);

/* serve_log.c */
int serve_log_open(struct serve *s, struct failure *why);
void serve_log_close(struct serve *s);
/** Write it, or let it wait. An event that is none is not written, and counts as an error. */
void serve_log_event(struct serve_lease *l, const struct service_event *event);
/** An end that the service has to tell itself. */
void serve_log_end(struct serve_lease *l, const char *verdict, const char *detail);
/** Refused packets that its launcher is not there to tell: an event a class. */
void serve_log_packets(struct serve_lease *l);
/** Its start is about to be written. */
void serve_log_mark(struct serve_lease *l);
void serve_log_leave(struct serve_lease *l);
/** Look at one piece of the log for lines of this sandbox. @return 1: there is more, 0: that was all, negative errno. */
int serve_log_read(struct serve_lease *l);

#endif
