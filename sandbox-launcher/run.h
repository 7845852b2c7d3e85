/* One sandboxed run, from the plan to the record of its end. Blocks until nothing of it is left. */
#ifndef ECLUSA_SANDBOX_LAUNCHER_RUN_H
#define ECLUSA_SANDBOX_LAUNCHER_RUN_H

#include "sandbox-launcher/result.h"

/**
 * For an ordinary user: become root of a user namespace and of a mount namespace of one's own. For root: nothing.
 * Call once, early, single-threaded. The line in @why names the remedy.
 */
int sandbox_enter(struct failure *why);

/**
 * Run the spec. Streams pass through unless spec->json. @ret is filled in every case; VERDICT_SETUP with the lines in
 * errors when nothing ran. Changes the disposition of SIGPIPE and the signal mask of the process.
 * @return 0, or negative errno when nothing ran.
 */
int sandbox_run(const struct spec *spec, struct result *ret, struct failure *why);

#endif
