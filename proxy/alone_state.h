/* The proxy alone from inside: shared by the files that start it, serve it and load its policy, and by nobody else. */
#ifndef ECLUSA_PROXY_ALONE_STATE_H
#define ECLUSA_PROXY_ALONE_STATE_H

#include "common/digest.h"
#include "common/id.h"
#include "ipc/scrape.h"
#include "proxy/alone.h"
#include "proxy/metrics.h"
#include "proxy/reload_source.h"
#include "proxy/serve.h"
#include "proxy/watch.h"

#define ALONE_CLIENTS_MAX 8 /* who wait for an answer on the control socket at once */

/** Why policy is loaded: bits. */
enum alone_reason {
	ALONE_ASKED = 1,   /* SIGHUP or the control socket: in any case */
	ALONE_CHANGED = 2, /* something happened in a folder: only if the text is another one */
};

/** Somebody on the control socket. */
struct alone_client {
	int fd;     /* -1: free */
	bool asks;  /* its question was read, and waits for a load that begins later */
	bool waits; /* for the load that is under way */
};

struct alone_policy {
	struct reload_source source;
	char profile
		[MESSAGE_NAME_BYTES]; /* where the options name none: the only one of the first policy */
	struct reload_bundle bundle; /* that is in force */
	enum message_policy_origin origin;
	char digest[DIGEST_TEXT_BYTES]; /* of the bundle in force */
	uint64_t since_ms;              /* when it came into force, by the wall clock */
	struct reload_fault
		fault; /* of the files, when they were refused; text "": they were not */
	bool kept;     /* the bundle in force is the last good one on disk */
};

struct alone {
	const struct alone_options *options;
	int signal_fd, state_fd, control_fd; /* -1: none */
	struct watch watch;

	/* the sandbox that all clients are of, and its log */
	char id[SANDBOX_ID_BYTES];
	char ring_ids[MESSAGE_WORKERS_MAX + 1][SANDBOX_ID_BYTES + 16]; /* the workers', super's */
	unsigned rings;
	char segment_name[256];
	char next_name[256];                   /* of the file that the recorder is to go on in, */
	int audit_folder, segment_fd, next_fd; /* which it has not said yet; -1: none */
	uint64_t rotate_ns;                    /* when another file is due */
	uint64_t start_ms;

	/* super */
	pid_t super; /* 0: not started, or reaped */
	int super_pidfd, launcher_fd, netd_fd, uid_lock;
	uid_t uid;
	uint16_t port;            /* as bound */
	bool has_ca, has_sandbox; /* super has said so */
	bool is_ready, leaving, ending, finished;
	uint32_t leave_ms;    /* for what is under way when it ends */
	uint64_t leave_by_ns; /* if it is leaving */
	int status;           /* enum alone_exit */

	struct serve *serve; /* NULL: clients come, and no sandboxes */

	/* metrics */
	struct scrape *scrape;                        /* who asks for them; NULL: nobody may */
	struct metrics *metrics[MESSAGE_WORKERS_MAX]; /* the workers' */

	/* policy */
	struct alone_policy policy;
	unsigned wanted;            /* bits of enum alone_reason */
	uint64_t load_ns;           /* not before: more may happen in the folders; 0: now */
	uint64_t load_by_ns;        /* and not later, however much happens */
	bool loading;               /* super was asked and has not answered */
	struct reload_bundle asked; /* with this */
	struct alone_client clients[ALONE_CLIENTS_MAX];
};

/* alone_start.c */
/** Open what is needed, start super, say all that it waits for. @return 0 or negative errno. */
int alone_start(struct alone *a, struct failure *why);

/* alone_log.c */
int alone_begin_log(struct alone *a, struct failure *why);
/** One a worker, then super's. */
int alone_open_rings(
	struct alone *a, int ret_fds[static MESSAGE_WORKERS_MAX + 1], struct failure *why);
/** After super has ended: what its rings still hold, and the end. */
void alone_end_log(struct alone *a);

/* alone_rotate.c */
/** Another file is due now. */
void alone_want_file(struct alone *a);
/** The age of the file that is written begins. */
void alone_file_begun(struct alone *a);
/** Another file was due: make one, and hand it over. */
void alone_next_file(struct alone *a);
/** The log goes on in it. */
void alone_file_taken(struct alone *a);
/** After super has ended: which file is the log's last? */
void alone_settle_file(struct alone *a);

/* alone_policy.c */
/** The policy to start with: the files', else the last good one, else none. @return 0 or negative errno. */
int alone_first_policy(struct alone *a, struct failure *why);
/** It is in force: keep a copy, say what was wrong with the files if it is not theirs. */
void alone_policy_started(struct alone *a);
/** Load the files again, as a.wanted says. */
void alone_load(struct alone *a);
void alone_loaded(struct alone *a, const struct message_policy_answer *answer);
void alone_want(struct alone *a, enum alone_reason reason);
/** What to wait for at most; -1: nothing. */
int alone_load_timeout_ms(const struct alone *a);

/* alone_metrics.c */
/** Listen where the options say, if they do. @ret_fds: the memory that each worker counts in, the caller's. @return 0 or negative errno. */
int alone_open_metrics(
	struct alone *a, int ret_fds[static MESSAGE_WORKERS_MAX], struct failure *why);
void alone_turn_metrics(struct alone *a);

/* alone_control.c */
void alone_accept(struct alone *a);
void alone_hear_client(struct alone *a, struct alone_client *c);
struct control_answer;
/** To who waits for the load that is over. */
void alone_answer(struct alone *a, const struct control_answer *answer);

#endif
