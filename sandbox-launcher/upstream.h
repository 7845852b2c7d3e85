/*
 * Files that the caller names for the proxy's side towards the internet, looked at before anything starts, so that a wrong
 * file is an error of the call and not of a later request. They are the caller's own; the proxy reads them itself.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_UPSTREAM_H
#define ECLUSA_SANDBOX_LAUNCHER_UPSTREAM_H

#include "sandbox-launcher/spec.h"

/** --upstream-ca holds a certificate and --hosts a line. @return 0 or negative errno with a line in @why. */
int upstream_check(const struct spec *spec, struct failure *why);
/** Whether there is at least one PEM certificate, going by its first line. */
bool upstream_has_certificate(struct slice text);
/** Whether there is at least one line ADDRESS NAME ... */
bool upstream_has_host(struct slice text);

#endif
