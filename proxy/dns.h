/*
 * The proxy's own DNS server: UDP and TCP of the service address. Answers from policy alone (dns_answer.h) whoever is a sandbox by the address
 * it asks from, within that sandbox's limits, and lets the log know (dns_note.h). Where a worker has no sockets for it, none of this is
 * there.
 */
#ifndef ECLUSA_PROXY_DNS_H
#define ECLUSA_PROXY_DNS_H

#include "common/failure.h"

struct worker;
struct sandbox;

/** Have the sockets ready; then, once the sandboxes are known, answer. @return 0 or negative errno. */
int dns_start(struct worker *w, struct failure *why);
void dns_serve(struct worker *w);
void dns_stop(struct worker *w);
/** The sandbox has ended: its connections, too, and its last notes are written. Accepts one that never asked. */
void dns_forget(struct worker *w, struct sandbox *s);
/** After the loop. */
void dns_end(struct worker *w);

#endif
