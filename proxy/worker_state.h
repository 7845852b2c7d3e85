/* What a worker has one of, shared by its flows. Inside of the data plane only. */
#ifndef ECLUSA_PROXY_WORKER_STATE_H
#define ECLUSA_PROXY_WORKER_STATE_H

#include "proxy/flow.h"
#include "proxy/guard.h"
#include "proxy/http1.h"
#include "proxy/ident.h"
#include "proxy/keeper_client.h"
#include "proxy/pipe.h"
#include "proxy/poller.h"
#include "proxy/pool.h"
#include "proxy/prepared.h"
#include "proxy/resolve.h"
#include "proxy/snapshot.h"
#include "proxy/tls.h"
#include "proxy/worker.h"

struct worker;

/** Whom accepted connections are given to; each descriptor is taken over. */
typedef void listener_take(struct worker *w, int fd, const struct sockaddr_storage *peer);

/** A door, and its socket. */
struct listener {
	struct worker *worker;
	uv_poll_t poll;
	int fd; /* borrowed; -1: there is none */
	listener_take *take;
	struct address own; /* where its connections come to; family 0: each says it itself */
	uint16_t own_port;
};

enum { WORKER_EXPLICIT, WORKER_TRANSPARENT, WORKER_LISTENERS };

struct worker {
	const struct worker_context *context;
	struct metrics *metrics;
	struct limits limits;
	uv_loop_t loop;
	struct poller poller; /* what runs the loop */
	uv_poll_t channel;
	struct listener listeners[WORKER_LISTENERS];
	uv_poll_t commits;
	uv_idle_t turns;   /* runs while flows are ready */
	uv_timer_t expiry; /* of rules in force */
	int spare_fd; /* given up for a moment to refuse a connection when descriptors run out */
	bool stopping;
	bool leaving;   /* no more connections, and the end after the last one */
	unsigned flows; /* there are */
	struct ident ident;
	struct snapshot *policy; /* in force */
	struct prepared prepared;
	struct guard guard;
	struct resolve_channel *resolve;
	struct leaf_key *leaf_key;
	struct keeper_client *keeper;
	struct tls_upstream_context *tls_world;
	struct tls_server_context *tls_sandbox;
	struct dns_server *dns; /* NULL: there is none */
	struct pipe_pool pipes;
	struct pool pool;
	struct flow *ready; /* flows that used up their turn */
	struct flow **ready_end;
	struct flow *committing; /* flows that wait for the disk */
	uint64_t connections;    /* accepted so far; numbers them */
	uint64_t full_logged_ns;

	/* One each, since they are large: filled and used within one step of one flow. */
	struct http1_request request;
	struct http1_response response;
	struct target target;
	struct buf line;
	struct id_pool ids;
};

/** Hear of the disk: commit.c. */
int commit_start(struct worker *w, struct failure *why);
/** Have the listeners ready; then, once the sandboxes are known, accept what waits there. */
int listener_start(struct worker *w, struct failure *why);
void listener_serve(struct worker *w);
void listener_stop(struct worker *w);
/** Accept what waits there, up to LISTENER_TURN_ACCEPTS. Without descriptors they are reset. */
void listener_accept(struct worker *w, int listener, listener_take *take);
/** Close so that the peer gets a reset. */
void listener_reset(int fd);
/** The worker's loop ends; what is open is cut. */
void worker_stop(struct worker *w);

#endif
