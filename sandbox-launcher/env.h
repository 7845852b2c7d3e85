/* The environment of a sandboxed program: nothing of the caller's but what -e names. */
#ifndef ECLUSA_SANDBOX_LAUNCHER_ENV_H
#define ECLUSA_SANDBOX_LAUNCHER_ENV_H

#include "sandbox-launcher/spec.h"
#include "sandbox-launcher/variables.h"

#define ENV_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/**
 * Build the variables: the few fixed ones, those that tell clients of @places (empty: no network), then -e in order; a later
 * value replaces an earlier one. @ret_env: NULL-terminated, freed by env_free(). -e NAME without a value in the caller's
 * environment adds nothing.
 */
int env_build(const struct spec *spec, const struct variables_places *places, char ***ret_env,
	struct failure *why);
void env_free(char **env);

#endif
