/*
 * What hosts gave one sandbox's connections to resume their TLS sessions with (RFC 8446 4.6.1, RFC 5077): bounded, by host and port,
 * with an age. Never shared between sandboxes. Who a host is was verified by the handshake that a session comes from, and is
 * looked at again when it is resumed.
 */
#ifndef ECLUSA_PROXY_TLS_TICKETS_H
#define ECLUSA_PROXY_TLS_TICKETS_H

#include "proxy/tls.h"

struct tls_tickets;

/** @lifetime_ms: of a ticket. @return NULL when out of memory: then nothing is resumed. */
struct tls_tickets *tls_tickets_new(uint32_t lifetime_ms);
/** Outlives the sessions that use it. Accepts NULL. */
void tls_tickets_free(struct tls_tickets *t);
/** Offer a ticket of the session's host and @port, if there is one, and keep those that the host gives. Before the handshake. Accepts NULL. */
void tls_tickets_use(struct tls_tickets *t, struct tls_session *s, uint16_t port);

#endif
