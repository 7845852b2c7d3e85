/*
 * What a person should try next: things that are no error of the run but the usual reason why it did not do what was
 * meant. Adds lines to the result; looks only at what the caller named, never at what the sandbox wrote.
 */
#ifndef ECLUSA_SANDBOX_LAUNCHER_HINT_H
#define ECLUSA_SANDBOX_LAUNCHER_HINT_H

#include "sandbox-launcher/plan.h"

/** @exec_error: errno with which the program could not be started, 0 when it ran. Call when the result is complete. */
void hint_run(const struct plan *plan, int exec_error, struct result *result);

#endif
