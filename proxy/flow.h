/*
 * A flow: one connection from a sandbox, with what it leads to. flow.c alone knows the order of
 * steps; each step is a function of its own file. Legal moves:
 *
 *   HEAD         -> COMMIT | RESOLVE | DIAL | EXCHANGE (absolute form) | ESTABLISH (address literal) | SOCKS
 *   SOCKS        -> COMMIT | RESOLVE     a tunnel is asked for, as by CONNECT
 *   CAPTURE      -> HELLO | SPLICE_HELLO | REQUEST (in the clear) | COMMIT | RESOLVE (tcp)   what the client says first decides
 *   COMMIT       -> RESOLVE | EXCHANGE   the disk has the decision, where the profile asks for that
 *   RESOLVE      -> ESTABLISH (new tunnel) | DIAL | LEAF (captured, and failed: said inside of TLS)
 *   ESTABLISH    -> HELLO | SPLICE_HELLO | PASSAGE (tcp, dialled before)   200 was said
 *   HELLO        -> DIAL             the ClientHello names the tunnel's host, or nobody; or a request comes in the clear
 *   SPLICE_HELLO -> DIAL             it names the tunnel's host, and hides no other name
 *   both, captured -> COMMIT | RESOLVE
 *   DIAL         -> UPSTREAM_TLS | EXCHANGE (plain) | LEAF (failed: said inside of the tunnel) | SPLICE_ANSWER |
 *                   PASSAGE (no TLS 1.3) | ESTABLISH (tcp) | REQUEST (a tunnel without TLS)
 *                   | VIA (another proxy is between, and is asked for the host)
 *   VIA          -> as DIAL, which comes again for the host's next address
 *   UPSTREAM_TLS -> LEAF (new tunnel) | EXCHANGE
 *   LEAF         -> CLIENT_TLS
 *   CLIENT_TLS   -> REQUEST
 *   REQUEST      -> COMMIT | EXCHANGE | RESOLVE | DIAL
 *   EXCHANGE     -> REQUEST | HEAD | LINGER | RESOLVE (a reused connection had ended: once more) | PASSAGE (101)
 *   SPLICE_ANSWER -> PASSAGE         the host answered; if it asked for a second ClientHello, that was judged, too
 *   most         -> REFUSE -> LINGER -> OVER; any -> OVER
 *
 * Nothing is looked up before policy said yes to the name; nothing is dialled before the ClientHello
 * was seen, where there has to be one; no byte of a request goes out before its decision is in the ring.
 */
#ifndef ECLUSA_PROXY_FLOW_H
#define ECLUSA_PROXY_FLOW_H

#include "common/address.h"

struct worker;
struct sandbox;
struct flow;

/** Where a connection came in, as the log has it. */
enum flow_door { FLOW_DOOR_EXPLICIT, FLOW_DOOR_SOCKS, FLOW_DOOR_TRANSPARENT, FLOW_DOOR_COUNT };

/** Where a connection came from and arrived; of one that was captured that is where it was meant for. */
struct flow_ends {
	enum flow_door door;
	struct address source;
	struct address proxy;
	uint16_t source_port;
	uint16_t proxy_port;
};

/** Begin with an accepted connection, which is taken over. It ends by itself. */
void flow_start(struct worker *w, struct sandbox *s, int fd, const struct flow_ends *ends);
/** As flow_start() for a sandbox that has too many: it is answered with 503 and recorded. */
void flow_start_refused(struct worker *w, struct sandbox *s, int fd, const struct flow_ends *ends);
/** The policy has changed: flows that it does not allow anymore end, with deny.revoked. Others notice nothing. */
void flow_revoke_all(struct sandbox *s);
/** The worker leaves: what waits for a request ends, what is under way has to be the last of its connection. */
void flow_leave_all(struct sandbox *s);
/** Cut all flows of a sandbox: resets to both sides, records finished. */
void flow_cut_all(struct sandbox *s);

#endif
