/* Variables for clients: which are set where proxy, bundle or store are left out, and what Java is told. */
#include "tests/unit/cmocka_setup.h"

#include "common/cleanup.h"
#include "sandbox-launcher/env.h"

#include <stdlib.h>
#include <string.h>

static const struct variables_places ALL = {"http://10.255.255.254:3128", "/b.pem", "/j.p12"};

static char **build(const struct variables_places *places, const char *more)
{
	struct spec s;
	struct failure why = {0};
	char **env = NULL;
	spec_init(&s);
	if (more != NULL)
		assert_int_equal(spec_set(&s, spec_option_named(SLICE("env")), more, &why), 0);
	assert_int_equal(env_build(&s, places, &env, &why), 0);
	spec_fini(&s);
	return env;
}

/* The value of @name; NULL: not set. Set twice fails. */
static const char *value_of(char **env, const char *name)
{
	const char *found = NULL;
	size_t len = strlen(name);
	for (size_t i = 0; env[i] != NULL; i++) {
		if (strncmp(env[i], name, len) != 0 || env[i][len] != '=')
			continue;
		assert_null(found);
		found = env[i] + len + 1;
	}
	return found;
}

static void clients_are_told_of_proxy_and_roots(void **state)
{
	(void)state;
	char **env = build(&ALL, NULL);
	assert_string_equal(value_of(env, "https_proxy"), ALL.proxy);
	assert_string_equal(value_of(env, "NO_PROXY"), "localhost,127.0.0.1,::1");
	assert_string_equal(value_of(env, "SSL_CERT_FILE"), "/b.pem");
	assert_string_equal(value_of(env, "NODE_USE_ENV_PROXY"), "1");
	assert_string_equal(value_of(env, "JAVA_TOOL_OPTIONS"),
		"-Djavax.net.ssl.trustStore=/j.p12 -Djavax.net.ssl.trustStoreType=PKCS12 "
		"-Djavax.net.ssl.trustStorePassword=changeit -Dhttp.proxyHost=10.255.255.254 "
		"-Dhttp.proxyPort=3128 -Dhttps.proxyHost=10.255.255.254 -Dhttps.proxyPort=3128 "
		"-Dhttp.nonProxyHosts=localhost|127.*|[::1]");
	assert_null(value_of(env, "ALL_PROXY"));
	env_free(env);
}

static void without_the_proxy_only_roots_are_told(void **state)
{
	(void)state;
	static const char *const gone[] = {"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy",
		"NO_PROXY", "no_proxy", "NODE_USE_ENV_PROXY", "PERL_LWP_ENV_PROXY"};
	const struct variables_places places = {NULL, "/b.pem", "/j.p12"};
	char **env = build(&places, NULL);
	for (size_t i = 0; i < array_size(gone); i++)
		assert_null(value_of(env, gone[i]));
	assert_string_equal(value_of(env, "CURL_CA_BUNDLE"), "/b.pem");
	assert_null(strstr(value_of(env, "JAVA_TOOL_OPTIONS"), "proxy"));
	env_free(env);
}

static void without_a_network_nothing_is_told(void **state)
{
	(void)state;
	const struct variables_places places = {0};
	char **env = build(&places, NULL);
	size_t count = 0;
	while (env[count] != NULL)
		count++;
	assert_int_equal(count, 3); /* PATH, HOME, LANG */
	env_free(env);
}

static void without_a_store_java_is_told_of_the_proxy_alone(void **state)
{
	(void)state;
	const struct variables_places places = {"http://[::1]:80/", "/b.pem", NULL};
	char **env = build(&places, NULL);
	assert_null(strstr(value_of(env, "JAVA_TOOL_OPTIONS"), "trustStore"));
	assert_non_null(strstr(value_of(env, "JAVA_TOOL_OPTIONS"), "-Dhttps.proxyHost=[::1] "));
	env_free(env);
}

static void the_callers_word_is_last(void **state)
{
	(void)state;
	char **env = build(&ALL, "PIP_CERT=/mine.pem");
	assert_string_equal(value_of(env, "PIP_CERT"), "/mine.pem");
	env_free(env);
}

static void only_an_http_url_is_a_proxy(void **state)
{
	(void)state;
	static const char *const good[] = {
		"http://127.0.0.1:3128", "http://proxy.test:80/", "http://[::1]:65535"};
	static const char *const bad[] = {"", "http://", "http://:3128", "http://a",
		"http://a:", "http://a:0", "http://a:65536", "http://a:3128/x", "http://u@a:3128",
		"https://a:3128", "socks5://a:1", "http://a b:1", "http://a\n:1", "http://[::1:1",
		"http://a:1 -Dx=y", "http://a:+1", "http://a::1"};
	struct failure why = {0};
	for (size_t i = 0; i < array_size(good); i++)
		assert_int_equal(variables_check_proxy(good[i], &why), 0);
	for (size_t i = 0; i < array_size(bad); i++) {
		why = (struct failure){0};
		assert_int_equal(variables_check_proxy(bad[i], &why), -EINVAL);
		assert_non_null(strstr(why.text, "such as http://"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clients_are_told_of_proxy_and_roots),
		cmocka_unit_test(without_the_proxy_only_roots_are_told),
		cmocka_unit_test(without_a_network_nothing_is_told),
		cmocka_unit_test(without_a_store_java_is_told_of_the_proxy_alone),
		cmocka_unit_test(the_callers_word_is_last),
		cmocka_unit_test(only_an_http_url_is_a_proxy),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
