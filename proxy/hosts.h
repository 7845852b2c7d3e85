/*
 * Names whose addresses are given: lines "ADDRESS NAME... # note", for labs. The operator's text; lines that say nothing we understand are left out.
 * A name is found without a walk over all lines. Knows no resolver.
 */
#ifndef ECLUSA_PROXY_HOSTS_H
#define ECLUSA_PROXY_HOSTS_H

#include "policy/host.h"

struct hosts;

/** Borrows @text. @return NULL when out of memory. */
struct hosts *hosts_new(struct slice text);
/** Accepts NULL. */
void hosts_free(struct hosts *h);
/** The addresses of all lines that name @host, in their order, at most @capacity. @return how many. */
size_t hosts_find(
	const struct hosts *h, const struct host *host, struct address *to, size_t capacity);

#endif
