/*
 * Which DNS servers the proxy asks: given by the user, else those of /etc/resolv.conf. Nothing else
 * of that file counts.
 */
#ifndef ECLUSA_COMMON_RESOLVER_H
#define ECLUSA_COMMON_RESOLVER_H

#include "common/address.h"
#include "common/failure.h"

#define RESOLVER_PORT 53

struct resolver {
	struct address address;
	uint16_t port;
};

/**
 * @given ADDR:PORT or NULL. @return how many of at most @max were found (at least 1: the local
 * host's, as resolv.conf(5) says, when none is named), or negative errno.
 */
int resolver_find(const char *given, struct resolver *ret, size_t max, struct failure *why);
/**
 * The nameserver lines of a resolv.conf(5) text; those that are no plain address are left out.
 * @return how many.
 */
size_t resolver_parse(struct slice text, struct resolver *ret, size_t max);

#endif
