/*
 * Files for the proxy's side towards the internet: the roots of this system, and what the user names beside them. Looked at before
 * anything starts, so that a wrong file is an error of the call and not of a later request. The user's own are read by the proxy.
 */
#ifndef ECLUSA_COMMON_UPSTREAM_H
#define ECLUSA_COMMON_UPSTREAM_H

#include "common/failure.h"
#include "common/slice.h"
#include "common/upstream_proxy.h"

/** Paths as the user gave them; NULL: not given. */
struct upstream_options {
	const char *upstream_ca;
	const char *hosts;
	struct upstream_proxy_options proxy;
};

/** Open for reading; hosts_fd is a memory file, since the proxy has another uid. -1: not given. */
struct upstream_files {
	int roots_fd;
	int more_roots_fd;
	int hosts_fd;
};

#define UPSTREAM_FILES_NONE ((struct upstream_files){-1, -1, -1})

/** --upstream-ca holds a certificate and --hosts a line, and the upstream proxy's place is one. @return 0 or negative errno with a line in @why. */
int upstream_check(const struct upstream_options *options, struct failure *why);
/** @ret is UPSTREAM_FILES_NONE before; upstream_close() it in any case. @return 0 or negative errno. */
int upstream_open(
	const struct upstream_options *options, struct upstream_files *ret, struct failure *why);
void upstream_close(struct upstream_files *files);
/** Whether there is at least one PEM certificate, going by its first line. */
bool upstream_has_certificate(struct slice text);
/** Whether there is at least one line ADDRESS NAME ... */
bool upstream_has_host(struct slice text);

#endif
