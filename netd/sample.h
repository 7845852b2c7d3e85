/*
 * Samples of refused packets: what the gateway's rules hand to nflog, with whom each was meant for. The kernel's counters know
 * how many there were; samples know some of them, and never all. Input: packets of sandboxes.
 */
#ifndef ECLUSA_NETD_SAMPLE_H
#define ECLUSA_NETD_SAMPLE_H

#include "common/failure.h"
#include "common/slice.h"
#include "ipc/message.h"

#define SAMPLE_GROUP 1U /* of nflog, in the gateway's namespace */
/** Of a packet: the longest IPv4 header and the ports behind it. */
#define SAMPLE_BYTES 64U
/** Messages that are read before others get their turn. */
#define SAMPLE_TURN 256U

struct sample_source; /* a netlink socket */

/** Called for each sample: whose it is, by the index of the gateway's end of its cable. */
typedef void sample_visit(int interface_index, const struct message_sample *sample, void *arg);

/** Listen in the current network namespace. @return 0, or negative errno: this kernel has no nflog. */
int sample_open(struct sample_source **ret, struct failure *why);
/** Accepts NULL. */
void sample_close(struct sample_source *s);
/** To poll for reading; -1 for NULL. */
int sample_fd(const struct sample_source *s);
/** Hand over what has come; what did not fit into the socket is not told. Accepts NULL. */
void sample_read(struct sample_source *s, sample_visit *visit, void *arg);

/** Whom an IPv4 packet is meant for: protocol, address, and port if it has one. @return 0, -EINVAL. */
int sample_parse(struct slice packet, struct message_sample *ret);
/** Count it in @samples, beside others to the same place. */
void sample_add(struct message_samples *samples, const struct message_sample *sample);

#endif
