/*
 * The proxy as a service: sandboxes of this host get their networks here. Beside the proxy alone, of which it is a part, it has a netd
 * with a gateway, and a socket at which launchers ask for leases. Launchers are root; they are believed what they say of their own
 * sandbox, and nothing else: a wrong, slow or silent one costs nobody but itself.
 */
#ifndef ECLUSA_PROXY_SERVE_H
#define ECLUSA_PROXY_SERVE_H

#include "common/failure.h"
#include "ipc/message.h"

#define SERVE_LEASES_MAX     4096 /* that can be asked for: as many as the proxy's roster has */
#define SERVE_LEASES_DEFAULT 1024
#define SERVE_READY_DEFAULT  4
#define SERVE_READY_MAX      64
#define SERVE_ASKING_MAX     64 /* connections that have not asked yet */

struct alone;
struct serve;
struct reload_bundle;
struct reload_fault;

/** Compile the first policy, start netd with @netd_side as its channel to super. @return 0 or negative errno. */
int serve_open(struct alone *a, int netd_side, struct failure *why);
/** The proxy serves: let launchers in. @return 0 or negative errno. */
int serve_ready(struct alone *a, const struct message_proxy_ready *ready, struct failure *why);
/** Nobody new comes in. NULL is accepted, as by all that follow. */
void serve_leave(struct serve *s);
/** Readable as soon as serve_turn() has something to do, also when only time has passed. -1: there is nothing to wait for. */
int serve_fd(const struct serve *s);
void serve_turn(struct serve *s);
/** Super says: nothing of this sandbox goes on, and it is in the log. */
void serve_recorded(struct serve *s, const struct message_sandbox_told *told);
/** The log goes on in a->segment_fd. */
void serve_file_taken(struct serve *s);

/**
 * Whether a bundle may take the place of the one in force: the profiles of the service are in it, and nothing is opened or captured
 * that gateway and dial guard were not made for. @return 0 or negative errno with *ret_fault filled.
 */
int serve_check(
	struct serve *s, const struct reload_bundle *bundle, struct reload_fault *ret_fault);
/** What was checked last is in force. */
void serve_loaded(struct serve *s);

/** After super has ended: ends of the sandboxes that are left, into the log. */
void serve_end_log(struct serve *s);
/** netd, and all leases. */
void serve_close(struct serve *s);

#endif
