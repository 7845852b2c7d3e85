/* See env.h. */
#include "sandbox-launcher/env.h"

#include "common/cleanup.h"
#include "sandbox-launcher/view.h"

#include <stdio.h>

/* Where the value is NULL it is the proxy's URL. */
struct variable {
	const char *name, *value;
};

static const struct variable ALWAYS[] = {
	{"PATH", ENV_PATH},
	{"HOME", VIEW_HOME},
	{"LANG", "C.UTF-8"},
};

/* docs/clients.md, without those whose file is not in the view (trust stores of Java and NSS, wgetrc). */
static const struct variable NETWORK[] = {
	{"HTTP_PROXY", NULL},
	{"http_proxy", NULL},
	{"HTTPS_PROXY", NULL},
	{"https_proxy", NULL},
	{"NO_PROXY", "localhost,127.0.0.1,::1"},
	{"no_proxy", "localhost,127.0.0.1,::1"},
	{"SSL_CERT_FILE", VIEW_CA_BUNDLE},
	{"SSL_CERT_DIR", "/etc/ssl/certs"},
	{"CURL_CA_BUNDLE", VIEW_CA_BUNDLE},
	{"REQUESTS_CA_BUNDLE", VIEW_CA_BUNDLE},
	{"PIP_CERT", VIEW_CA_BUNDLE},
	{"NODE_EXTRA_CA_CERTS", VIEW_CA_BUNDLE},
	{"NODE_USE_ENV_PROXY", "1"},
	{"NODE_USE_SYSTEM_CA", "1"},
	{"npm_config_cafile", VIEW_CA_BUNDLE},
	{"DENO_CERT", VIEW_CA_BUNDLE},
	{"DENO_TLS_CA_STORE", "system"},
	{"GIT_SSL_CAINFO", VIEW_CA_BUNDLE},
	{"CARGO_HTTP_CAINFO", VIEW_CA_BUNDLE},
	{"UV_SYSTEM_CERTS", "1"},
	{"AWS_CA_BUNDLE", VIEW_CA_BUNDLE},
	{"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", VIEW_CA_BUNDLE},
	{"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", VIEW_CA_BUNDLE},
	{"HTTPLIB2_CA_CERTS", VIEW_CA_BUNDLE},
	{"NIX_SSL_CERT_FILE", VIEW_CA_BUNDLE},
	{"PERL_LWP_SSL_CA_FILE", VIEW_CA_BUNDLE},
	{"PERL_LWP_ENV_PROXY", "1"},
	{"HEX_CACERTS_PATH", VIEW_CA_BUNDLE},
	{"JULIA_SSL_CA_ROOTS_PATH", VIEW_CA_BUNDLE},
};

#define ENV_MAX (array_size(ALWAYS) + array_size(NETWORK) + SPEC_ITEMS_MAX + 1)

/* Takes @pair. */
static int env_put(char **env, char *pair)
{
	if (pair == NULL)
		return -ENOMEM;
	size_t name = (size_t)(strchr(pair, '=') - pair) + 1;
	size_t i = 0;
	while (env[i] != NULL && strncmp(env[i], pair, name) != 0)
		i++;
	free(env[i]);
	env[i] = pair;
	return 0;
}

static int env_set(char **env, const char *name, const char *value)
{
	char *pair = NULL;
	if (asprintf(&pair, "%s=%s", name, value) < 0)
		return -ENOMEM;
	return env_put(env, pair);
}

static int env_set_all(char **env, const struct variable *set, size_t count, const char *proxy)
{
	int r = 0;
	for (size_t i = 0; i < count && r == 0; i++)
		r = env_set(env, set[i].name, set[i].value == NULL ? proxy : set[i].value);
	return r;
}

int env_build(const struct spec *spec, const char *proxy, char ***ret_env, struct failure *why)
{
	char **env = calloc(ENV_MAX, sizeof(*env));
	if (env == NULL)
		return failure_set(why, -ENOMEM, "out of memory");
	int r = env_set_all(env, ALWAYS, array_size(ALWAYS), NULL);
	if (r == 0 && proxy != NULL)
		r = env_set_all(env, NETWORK, array_size(NETWORK), proxy);
	for (size_t i = 0; i < spec->env.count && r == 0; i++) {
		const char *given = spec->env.items[i];
		if (strchr(given, '=') != NULL)
			r = env_put(env, strdup(given));
		else if (getenv(given) != NULL)
			r = env_set(env, given, getenv(given));
	}
	if (r < 0) {
		env_free(env);
		return failure_errno(why, r, "can't build the environment");
	}
	*ret_env = env;
	return 0;
}

void env_free(char **env)
{
	for (size_t i = 0; env != NULL && env[i] != NULL; i++)
		free(env[i]);
	free(env);
}
