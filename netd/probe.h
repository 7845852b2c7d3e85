/*
 * Whether this host can do what a gateway needs, for `eclusa doctor`: each part is really made, in a network namespace
 * of its own that ends with the process.
 */
#ifndef ECLUSA_NETD_PROBE_H
#define ECLUSA_NETD_PROBE_H

#include "common/failure.h"

/**
 * Make one part in a new network namespace: "filter" the gateway's rules, "cable" a whole gateway with one sandbox, "guard" the dial
 * guard, "tproxy" a rule that hands TCP to a transparent socket. @return 0, -EINVAL for another word, or negative errno with a line.
 */
int probe_run(const char *part, struct failure *why);

#endif
