/*
 * The network that a service gives to one sandbox: asked for, held by a connection, ended with the sandbox. What would be written into a log
 * of the run's own is told to the service, which writes it into its. The service is trusted as the run's own proxy is; see ipc/service.h.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_LEASED_H
#define ECLUSA_SANDBOX_LAUNCHER_LEASED_H

#include "audit/event.h"
#include "common/failure.h"
#include "ipc/service.h"

struct leased;

/**
 * Ask the service at @socket for a network, and wait for it. @profile NULL: the only one. @start: sandbox.start, as the launcher would
 * record it. @return 0 or negative errno with a line for the user.
 */
int leased_open(const char *socket, const char *profile, const struct audit_event *start,
	struct leased **ret, struct failure *why);
/** Ends the lease, if it is not over yet. Accepts NULL. */
void leased_free(struct leased *l);

/** Borrowed. */
const struct service_granted *leased_granted(const struct leased *l);
int leased_namespace_fd(const struct leased *l);
/** Roots that the service's proxy trusts beside the system's; -1: there are none. */
int leased_roots_fd(const struct leased *l);
/** Readable when the service is gone, as it says nothing while the sandbox runs. */
int leased_fd(const struct leased *l);

/** The sandbox has ended: what is under way is cut and recorded. @return 0; -EPIPE: the service is gone; another negative errno. */
int leased_finish(
	struct leased *l, uint64_t deadline_ns, struct message_counters_read *ret_counters);
/**
 * Have events recorded, the last of them sandbox.exit, and get all lines of this sandbox. @return 0 and a file of lines, the caller's;
 * negative errno: not all of it is on record.
 */
int leased_record(struct leased *l, const struct audit_event *events, size_t count,
	uint64_t deadline_ns, int *ret_lines_fd);

#endif
