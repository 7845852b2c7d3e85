/* See env.h. */
#include "sandbox-launcher/env.h"

#include "common/cleanup.h"
#include "sandbox-launcher/view.h"

#include <stdio.h>

static const struct {
	const char *name, *value;
} ALWAYS[] = {
	{"PATH", ENV_PATH},
	{"HOME", VIEW_HOME},
	{"LANG", "C.UTF-8"},
};

/* NULL-terminated once it has an item. */
struct env_list {
	char **items;
	size_t count;
};

/* Takes @pair; one of the same name is replaced. */
static int env_put(struct env_list *env, char *pair)
{
	if (pair == NULL)
		return -ENOMEM;
	size_t name = (size_t)(strchr(pair, '=') - pair) + 1;
	size_t i = 0;
	while (i < env->count && strncmp(env->items[i], pair, name) != 0)
		i++;
	if (i < env->count) {
		free(env->items[i]);
		env->items[i] = pair;
		return 0;
	}
	char **grown = realloc(env->items, (env->count + 2) * sizeof(*grown));
	if (grown == NULL) {
		free(pair);
		return -ENOMEM;
	}
	env->items = grown;
	grown[env->count++] = pair;
	grown[env->count] = NULL;
	return 0;
}

static int env_set(const char *name, const char *value, void *arg)
{
	char *pair = NULL;
	if (asprintf(&pair, "%s=%s", name, value) < 0)
		return -ENOMEM;
	return env_put(arg, pair);
}

int env_build(const struct spec *spec, const struct variables_places *places, char ***ret_env,
	struct failure *why)
{
	struct env_list env = {0};
	int r = 0;
	for (size_t i = 0; i < array_size(ALWAYS) && r == 0; i++)
		r = env_set(ALWAYS[i].name, ALWAYS[i].value, &env);
	if (r == 0)
		r = variables_each(places, env_set, &env);
	for (size_t i = 0; i < spec->env.count && r == 0; i++) {
		const char *given = spec->env.items[i];
		if (strchr(given, '=') != NULL)
			r = env_put(&env, strdup(given));
		else if (getenv(given) != NULL)
			r = env_set(given, getenv(given), &env);
	}
	if (r < 0) {
		env_free(env.items);
		return failure_errno(why, r, "can't build the environment");
	}
	*ret_env = env.items;
	return 0;
}

void env_free(char **env)
{
	for (size_t i = 0; env != NULL && env[i] != NULL; i++)
		free(env[i]);
	free(env);
}
