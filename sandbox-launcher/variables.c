/* See variables.h. */
#include "sandbox-launcher/variables.h"

#include "common/buf.h"
#include "common/cleanup.h"

/* What stands behind the name. Where it is a place that the caller left out, the variable is not set. */
enum variable_value {
	VALUE_PROXY,  /* the proxy's URL */
	VALUE_DIRECT, /* text, for clients that are told of a proxy */
	VALUE_BUNDLE, /* the bundle's path */
	VALUE_TRUST,  /* text, for clients that are told of a bundle */
	VALUE_JAVA,   /* options of Java: store, proxy */
};

struct variable {
	const char *name;
	enum variable_value value;
	const char *text;
};

#define HOSTS_DIRECT       "localhost,127.0.0.1,::1"
#define JAVA_OPTIONS_BYTES ((size_t)16 << 10)

/* No ALL_PROXY: some clients take it for SOCKS. */
static const struct variable VARIABLES[] = {
	{"HTTP_PROXY", VALUE_PROXY, NULL},
	{"http_proxy", VALUE_PROXY, NULL},
	{"HTTPS_PROXY", VALUE_PROXY, NULL},
	{"https_proxy", VALUE_PROXY, NULL},
	{"NO_PROXY", VALUE_DIRECT, HOSTS_DIRECT},
	{"no_proxy", VALUE_DIRECT, HOSTS_DIRECT},
	{"NODE_USE_ENV_PROXY", VALUE_DIRECT, "1"},
	{"PERL_LWP_ENV_PROXY", VALUE_DIRECT, "1"},
	{"SSL_CERT_FILE", VALUE_BUNDLE, NULL},
	{"SSL_CERT_DIR", VALUE_TRUST, "/etc/ssl/certs"},
	{"CURL_CA_BUNDLE", VALUE_BUNDLE, NULL},
	{"REQUESTS_CA_BUNDLE", VALUE_BUNDLE, NULL},
	{"PIP_CERT", VALUE_BUNDLE, NULL},
	{"NODE_EXTRA_CA_CERTS", VALUE_BUNDLE, NULL},
	{"NODE_USE_SYSTEM_CA", VALUE_TRUST, "1"},
	{"npm_config_cafile", VALUE_BUNDLE, NULL},
	{"DENO_CERT", VALUE_BUNDLE, NULL},
	{"DENO_TLS_CA_STORE", VALUE_TRUST, "system"},
	{"GIT_SSL_CAINFO", VALUE_BUNDLE, NULL},
	{"CARGO_HTTP_CAINFO", VALUE_BUNDLE, NULL},
	{"UV_SYSTEM_CERTS", VALUE_TRUST, "1"},
	{"AWS_CA_BUNDLE", VALUE_BUNDLE, NULL},
	{"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", VALUE_BUNDLE, NULL},
	{"GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", VALUE_BUNDLE, NULL},
	{"HTTPLIB2_CA_CERTS", VALUE_BUNDLE, NULL},
	{"NIX_SSL_CERT_FILE", VALUE_BUNDLE, NULL},
	{"PERL_LWP_SSL_CA_FILE", VALUE_BUNDLE, NULL},
	{"HEX_CACERTS_PATH", VALUE_BUNDLE, NULL},
	{"JULIA_SSL_CA_ROOTS_PATH", VALUE_BUNDLE, NULL},
	{"JAVA_TOOL_OPTIONS", VALUE_JAVA, NULL},
};

/* http://HOST:PORT[/] into its two parts; the brackets stay around an IPv6 address. */
static bool split_proxy(const char *url, struct slice *ret_host, struct slice *ret_port)
{
	struct slice rest = slice_of(url);
	uint64_t port;
	if (!slice_starts(rest, SLICE("http://")))
		return false;
	rest = slice_part(rest, strlen("http://"), rest.len);
	if (slice_ends(rest, SLICE("/")))
		rest.len--;
	if (rest.ptr == NULL)
		return false;
	size_t colon = rest.len;
	while (colon > 0 && rest.ptr[colon - 1] != ':')
		colon--;
	if (colon < 2) /* no colon, or nothing before it */
		return false;
	*ret_host = slice_part(rest, 0, colon - 1);
	*ret_port = slice_part(rest, colon, rest.len);
	bool bracketed = slice_starts(*ret_host, SLICE("[")) && slice_ends(*ret_host, SLICE("]"));
	for (size_t i = 0; ret_host->ptr != NULL && i < ret_host->len; i++) {
		char c = ascii_lower(ret_host->ptr[i]);
		bool name = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
			c == '.' || c == '_';
		bool literal = bracketed && (c == ':' || c == '[' || c == ']');
		if (!name && !literal)
			return false;
	}
	return slice_decimal(*ret_port, 65535, false, &port) == 0 && port > 0;
}

int variables_check_proxy(const char *url, struct failure *why)
{
	struct slice host, port;
	char shown[128];
	if (split_proxy(url, &host, &port))
		return 0;
	return failure_set(why, -EINVAL, "not a proxy's URL: %s (such as http://127.0.0.1:3128)",
		slice_escape(slice_of(url), shown, sizeof(shown)));
}

/* Java reads no proxy variable and no PEM file: all is told by properties. */
static int java_options(const struct variables_places *places, struct buf *to)
{
	struct slice host, port;
	if (places->java_store != NULL)
		(void)buf_printf(to,
			"-Djavax.net.ssl.trustStore=%s -Djavax.net.ssl.trustStoreType=PKCS12 "
			"-Djavax.net.ssl.trustStorePassword=" VARIABLES_STORE_PASSWORD,
			places->java_store); /* sticky */
	if (places->proxy != NULL) {
		if (!split_proxy(places->proxy, &host, &port))
			return -EINVAL;
		(void)buf_printf(to,
			"%s-Dhttp.proxyHost=%.*s -Dhttp.proxyPort=%.*s -Dhttps.proxyHost=%.*s "
			"-Dhttps.proxyPort=%.*s -Dhttp.nonProxyHosts=localhost|127.*|[::1]",
			buf_len(to) == 0 ? "" : " ", (int)host.len, host.ptr, (int)port.len,
			port.ptr, (int)host.len, host.ptr, (int)port.len, port.ptr); /* sticky */
	}
	return to->failed ? -ENOMEM : 0;
}

static int visit_java(
	const struct variables_places *places, const char *name, variables_visit *visit, void *arg)
{
	struct buf options;
	buf_init(&options, JAVA_OPTIONS_BYTES);
	int r = java_options(places, &options);
	bool any = buf_len(&options) > 0;
	if (r == 0)
		r = buf_append(&options, (struct slice){"", 1});
	if (r == 0 && any)
		r = visit(name, buf_slice(&options).ptr, arg);
	buf_fini(&options);
	return r;
}

int variables_each(const struct variables_places *places, variables_visit *visit, void *arg)
{
	int r = 0;
	for (size_t i = 0; i < array_size(VARIABLES) && r == 0; i++) {
		const struct variable *v = &VARIABLES[i];
		const char *value = NULL;
		switch (v->value) {
		case VALUE_PROXY:
			value = places->proxy;
			break;
		case VALUE_DIRECT:
			value = places->proxy == NULL ? NULL : v->text;
			break;
		case VALUE_BUNDLE:
			value = places->bundle;
			break;
		case VALUE_TRUST:
			value = places->bundle == NULL ? NULL : v->text;
			break;
		case VALUE_JAVA:
			r = visit_java(places, v->name, visit, arg);
			break;
		}
		if (value != NULL)
			r = visit(v->name, value, arg);
	}
	return r;
}
