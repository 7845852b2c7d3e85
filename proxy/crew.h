/*
 * The proxy's processes: keeper, recorder and workers, each forked confined, with the descriptors it needs and no others.
 * Starting and ending them; when to, and what they are told, is super's.
 */
#ifndef ECLUSA_PROXY_CREW_H
#define ECLUSA_PROXY_CREW_H

#include "audit/segment.h"
#include "common/buf.h"
#include "common/upstream_proxy.h"
#include "ipc/message.h"
#include "policy/policy.h"

#define CREW_INSTANCE_BYTES 9

enum member_state {
	MEMBER_ABSENT,   /* not started yet */
	MEMBER_STARTING, /* forked, not confined yet */
	MEMBER_RUNNING,
	MEMBER_FINISHED, /* a worker that said so, not ended yet */
	MEMBER_DEAD,
};

struct crew_member {
	enum member_state state;
	pid_t pid;
	int pidfd;
	int channel_fd; /* super's end, non-blocking */
	unsigned starts;
	uint64_t started_ns;
};

/** Everything a member, or one that replaces it, is made from. Descriptors are owned. */
struct crew {
	struct message_proxy_start start; /* as the launcher sent it */
	unsigned workers;
	struct policy *policy;  /* in force */
	uint32_t policy_origin; /* enum message_policy_origin */
	struct buf hosts;
	struct upstream_proxy upstream_proxy; /* of count 0: there is none */
	struct audit_segment *segment;
	struct message_segment next; /* of next_fd */
	int segment_fd, next_fd;     /* next_fd: in which the recorder is to go on; -1 */
	int ca_bundle_fd, upstream_ca_fd, guard_fd;
	int ring_fds[MESSAGE_WORKERS_MAX];
	int budget_fds[MESSAGE_WORKERS_MAX];    /* what a worker's successor must find as it was */
	int synthetic_fds[MESSAGE_WORKERS_MAX]; /* likewise */
	int own_ring_fd; /* super's, as the rings of workers are; -1: it has nothing to record */
	struct audit_ring *own_ring;
	int metrics_fds[MESSAGE_WORKERS_MAX]; /* where workers count; -1: nobody wants to know */
	int ca_fd, ca_key_fd, audit_key_fd;   /* until the keeper has them; -1: there is none */
	int attest_ends[2];                   /* the recorder's, the keeper's */
	int listener_fds[LISTENER_KIND_COUNT][MESSAGE_WORKERS_MAX]; /* -1: there is none */
	int keeper_ends[MESSAGE_WORKERS_MAX][2];                    /* the worker's, the keeper's */
	int commit_fds[MESSAGE_WORKERS_MAX]; /* by which the recorder wakes workers */
	int wake[2];                         /* of the recorder: read end, write end */
	char instance[CREW_INSTANCE_BYTES];
	struct crew_member keeper;
	struct crew_member recorder;
	struct crew_member worker[MESSAGE_WORKERS_MAX];
};

/** No descriptor is open yet. */
void crew_init(struct crew *c);
void crew_fini(struct crew *c);
/** Channels that members share, once the number of workers is known. */
int crew_open(struct crew *c, struct failure *why);

/** The recorder has gone on in the next file of the log. @return 0 or negative errno. */
int crew_take_segment(struct crew *c, struct failure *why);

/** Fork one. @return 0 or negative errno with a line in @why. */
int crew_start_keeper(struct crew *c, struct failure *why);
int crew_start_recorder(struct crew *c, struct failure *why);
/** Also says MESSAGE_PROXY_READY on its channel once it is confined, or MESSAGE_FAILED. */
int crew_start_worker(struct crew *c, unsigned index, struct failure *why);

/** SIGKILL; it still has to be reaped. */
void crew_kill(struct crew_member *m);
/** Its pidfd became readable: collect it and close what was to it. @return its wait status. */
int crew_reap(struct crew_member *m);

#endif
