/*
 * The variables by which clients find the proxy and the roots that they are to trust: the table, and what each is set to. Pure:
 * the places are the caller's. Source: docs/clients.md, where each client that reads one is named.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_VARIABLES_H
#define ECLUSA_SANDBOX_LAUNCHER_VARIABLES_H

#include "common/failure.h"
#include "common/slice.h"

/** Java asks for one; it protects nothing, as what it opens is public. */
#define VARIABLES_STORE_PASSWORD "changeit"
/** The proxy of every sandbox. */
#define VARIABLES_SANDBOX_PROXY "http://10.255.255.254:3128"

/** Where things are for the client. NULL leaves out the variables that name it. Borrowed. */
struct variables_places {
	const char *proxy;      /* http://HOST:PORT, see variables_check_proxy() */
	const char *bundle;     /* PEM: the public roots and ours */
	const char *java_store; /* PKCS#12 of the same */
};

/** @return 0, or a negative errno that ends the visit. */
typedef int variables_visit(const char *name, const char *value, void *arg);

/** Every variable in the order of the table. @return 0, -ENOMEM, -EINVAL: no proxy's URL; or what @visit returned. */
int variables_each(const struct variables_places *places, variables_visit *visit, void *arg);

/** Whether @url is http://HOST:PORT, with an optional slash behind, an IPv6 address in brackets. */
int variables_check_proxy(const char *url, struct failure *why);

#endif
