/* The command line of the proxy alone. See alone.h. */
#include "proxy/alone.h"

#include "audit/segment.h"
#include "common/cleanup.h"
#include "common/privilege.h"
#include "common/resolver.h"
#include "common/slice.h"
#include "ipc/service.h"
#include "policy/value.h"
#include "proxy/serve.h"

#include <getopt.h>
#include <stdio.h>

#define DEFAULT_PORT           3128
#define SEGMENT_BYTES_DEFAULT  (UINT64_C(64) << 20)
#define SEGMENT_BYTES_MIN      (UINT64_C(64) << 10)
#define SEGMENT_AGE_MS_DEFAULT (UINT64_C(24) * 3600 * 1000)
#define SEGMENT_AGE_MS_MIN     UINT64_C(1000) /* names of files have seconds */

enum option_kind {
	OPTION_LISTEN = 256,
	OPTION_POLICY,
	OPTION_PROFILE,
	OPTION_TRUST,
	OPTION_CA,
	OPTION_CA_KEY,
	OPTION_CA_OUT,
	OPTION_UPSTREAM_CA,
	OPTION_HOSTS,
	OPTION_RESOLVER,
	OPTION_AUDIT_DIR,
	OPTION_SEGMENT_SIZE,
	OPTION_SEGMENT_AGE,
	OPTION_DECISIONS,
	OPTION_STATE_DIR,
	OPTION_METRICS,
	OPTION_REMOTE,
	OPTION_WATCH,
	OPTION_UPSTREAM_PROXY,
	OPTION_UPSTREAM_PROXY_AUTH,
	OPTION_UPSTREAM_PROXY_BY_NAME,
	OPTION_SERVE,
	OPTION_SOCKET,
	OPTION_WORKERS,
	OPTION_LEASES,
	OPTION_READY,
};

static const struct option options[] = {
	{"listen", required_argument, NULL, OPTION_LISTEN},
	{"policy", required_argument, NULL, OPTION_POLICY},
	{"profile", required_argument, NULL, OPTION_PROFILE},
	{"trust", required_argument, NULL, OPTION_TRUST},
	{"ca", required_argument, NULL, OPTION_CA},
	{"ca-key", required_argument, NULL, OPTION_CA_KEY},
	{"ca-out", required_argument, NULL, OPTION_CA_OUT},
	{"upstream-ca", required_argument, NULL, OPTION_UPSTREAM_CA},
	{"upstream-proxy", required_argument, NULL, OPTION_UPSTREAM_PROXY},
	{"upstream-proxy-auth", required_argument, NULL, OPTION_UPSTREAM_PROXY_AUTH},
	{"upstream-proxy-by-name", no_argument, NULL, OPTION_UPSTREAM_PROXY_BY_NAME},
	{"hosts", required_argument, NULL, OPTION_HOSTS},
	{"resolver", required_argument, NULL, OPTION_RESOLVER},
	{"audit-dir", required_argument, NULL, OPTION_AUDIT_DIR},
	{"audit-segment-size", required_argument, NULL, OPTION_SEGMENT_SIZE},
	{"audit-segment-age", required_argument, NULL, OPTION_SEGMENT_AGE},
	{"audit-decisions", required_argument, NULL, OPTION_DECISIONS},
	{"state-dir", required_argument, NULL, OPTION_STATE_DIR},
	{"metrics", required_argument, NULL, OPTION_METRICS},
	{"remote-clients", no_argument, NULL, OPTION_REMOTE},
	{"watch", no_argument, NULL, OPTION_WATCH},
	{"serve", no_argument, NULL, OPTION_SERVE},
	{"socket", required_argument, NULL, OPTION_SOCKET},
	{"workers", required_argument, NULL, OPTION_WORKERS},
	{"leases", required_argument, NULL, OPTION_LEASES},
	{"ready", required_argument, NULL, OPTION_READY},
	{0},
};

/** Under the name by which it was called: `eclusa serve` has a page of its own. */
static int usage(const char *what, const char *arg)
{
	const char *command = program_invocation_short_name;
	char shown[256];
	(void)fprintf(stderr, "%s: %s%s (%s --help)\n", command, what,
		slice_escape(slice_of(arg), shown, sizeof(shown)), command);
	return -EINVAL;
}

static int take_listen(const char *text, struct alone_options *to)
{
	struct slice endpoint = slice_of(text);
	bool any_port = slice_ends(endpoint, SLICE(":0"));
	if (any_port)
		endpoint = slice_part(endpoint, 0, endpoint.len - 2);
	if (address_parse_endpoint(endpoint, DEFAULT_PORT, &to->address, &to->port) < 0)
		return usage("--listen takes ADDRESS:PORT, such as 127.0.0.1:3128, not ", text);
	if (any_port)
		to->port = 0;
	to->has_address = true;
	return 0;
}

/** Not the addresses that mean every interface, which are of that class as well. */
static bool is_loopback(const struct address *a)
{
	static const struct cidr local[] = {
		{{.family = 4, .bytes = {127}}, 8}, {{.family = 6, .bytes = {[15] = 1}}, 128}};
	return cidr_contains(&local[0], a) || cidr_contains(&local[1], a);
}

static int take_trust(const char *text, struct alone_options *to)
{
	if (to->trust_count == array_size(to->trust))
		return usage("too many --trust: ", text);
	to->trust[to->trust_count++] = text;
	return 0;
}

static int take_profile(const char *text, struct alone_options *to)
{
	if (to->profile_count == array_size(to->profiles))
		return usage("too many --profile: ", text);
	if (text[0] == '\0')
		return usage("an option has an empty value", "");
	to->profiles[to->profile_count++] = text;
	to->profile = to->profiles[0];
	return 0;
}

static int take_number(
	const char *option, const char *text, unsigned least, unsigned most, unsigned *to)
{
	char what[64];
	uint64_t number;
	(void)snprintf(
		what, sizeof(what), "%s takes a number from %u to %u, not ", option, least, most);
	if (slice_decimal(slice_of(text), most, false, &number) < 0 || number < least)
		return usage(what, text);
	*to = (unsigned)number;
	return 0;
}

static int take_segment_size(const char *text, struct alone_options *to)
{
	uint64_t bytes;
	if (value_size(slice_of(text), &bytes) != NULL || bytes < SEGMENT_BYTES_MIN ||
		bytes > (uint64_t)AUDIT_SEGMENT_BYTES_MAX)
		return usage("--audit-segment-size takes a size from 64k to 256m, not ", text);
	if (to->segment_bytes != 0)
		return usage("--audit-segment-size stands twice, with ", text);
	to->segment_bytes = bytes;
	return 0;
}

static int take_segment_age(const char *text, struct alone_options *to)
{
	uint64_t ms;
	if (value_duration(slice_of(text), &ms) != NULL || ms < SEGMENT_AGE_MS_MIN)
		return usage("--audit-segment-age takes a time from 1s to 3650d, not ", text);
	if (to->segment_age_ms != 0)
		return usage("--audit-segment-age stands twice, with ", text);
	to->segment_age_ms = ms;
	return 0;
}

static int take_decisions(const char *text, struct alone_options *to)
{
	uint64_t count;
	if (slice_decimal(slice_of(text), AUDIT_RING_SLOTS_MAX, false, &count) < 0 ||
		count < AUDIT_RING_SLOTS_MIN)
		return usage("--audit-decisions takes a number from 64 to 32768, not ", text);
	if (to->decisions != 0)
		return usage("--audit-decisions stands twice, with ", text);
	to->decisions = (unsigned)count;
	return 0;
}

/** Where the value of an option goes that is a text. */
static const char **place_of(int option, struct alone_options *to)
{
	switch (option) {
	case OPTION_POLICY:
		return &to->policy;
	case OPTION_SOCKET:
		return &to->socket;
	case OPTION_CA:
		return &to->ca;
	case OPTION_CA_KEY:
		return &to->ca_key;
	case OPTION_CA_OUT:
		return &to->ca_out;
	case OPTION_UPSTREAM_CA:
		return &to->upstream_ca;
	case OPTION_UPSTREAM_PROXY:
		return &to->upstream_proxy.url;
	case OPTION_UPSTREAM_PROXY_AUTH:
		return &to->upstream_proxy.auth_file;
	case OPTION_HOSTS:
		return &to->hosts;
	case OPTION_RESOLVER:
		return &to->resolver;
	case OPTION_AUDIT_DIR:
		return &to->audit_dir;
	case OPTION_STATE_DIR:
		return &to->state_dir;
	case OPTION_METRICS:
		return &to->metrics;
	}
	return NULL;
}

static int take_option(int option, const char *value, struct alone_options *to)
{
	const char **place = place_of(option, to);
	if (place != NULL && *place != NULL)
		return usage("an option stands twice, with ", value);
	if (place != NULL && value[0] == '\0')
		return usage("an option has an empty value", "");
	if (place != NULL)
		*place = value;
	else if (option == OPTION_LISTEN)
		return to->has_address ? usage("--listen stands twice, with ", value)
				       : take_listen(value, to);
	else if (option == OPTION_PROFILE)
		return take_profile(value, to);
	else if (option == OPTION_WORKERS)
		return take_number("--workers", value, 1, MESSAGE_WORKERS_MAX, &to->workers);
	else if (option == OPTION_LEASES)
		return take_number("--leases", value, 1, SERVE_LEASES_MAX, &to->leases);
	else if (option == OPTION_READY)
		return take_number("--ready", value, 0, SERVE_READY_MAX, &to->ready);
	else if (option == OPTION_SERVE)
		to->serve = true;
	else if (option == OPTION_TRUST)
		return take_trust(value, to);
	else if (option == OPTION_DECISIONS)
		return take_decisions(value, to);
	else if (option == OPTION_SEGMENT_SIZE)
		return take_segment_size(value, to);
	else if (option == OPTION_SEGMENT_AGE)
		return take_segment_age(value, to);
	else if (option == OPTION_REMOTE)
		to->remote = true;
	else if (option == OPTION_UPSTREAM_PROXY_BY_NAME)
		to->upstream_proxy.by_name = true;
	else if (option == OPTION_WATCH)
		to->watch = true;
	else
		return -EINVAL; /* getopt said why */
	return 0;
}

static int check_serve(const struct alone_options *o)
{
	if (o->has_address || o->remote)
		return usage("--listen is for clients without sandboxes, and --serve has none", "");
	if (!privilege_is_host_root())
		return usage("--serve needs root: of the host, for namespaces of its own", "");
	return 0;
}

static int check(const struct alone_options *o)
{
	if (!o->serve && !o->has_address)
		return usage("--listen is missing", "");
	if (o->policy == NULL)
		return usage("--policy is missing", "");
	if ((o->ca == NULL) != (o->ca_key == NULL))
		return usage("--ca and --ca-key belong together", "");
	if (o->ca != NULL && o->ca_out != NULL)
		return usage("--ca-out is for a CA that the proxy makes, not for --ca", "");
	if (!o->serve && o->profile_count > 1)
		return usage("an option stands twice, with ", o->profiles[1]);
	struct resolver server;
	if (o->resolver != NULL && resolver_find(o->resolver, &server, 1, NULL) < 0)
		return usage(
			"--resolver takes ADDRESS:PORT, such as 127.0.0.1:53, not ", o->resolver);
	if (o->serve)
		return check_serve(o);
	if (!o->remote && !is_loopback(&o->address))
		return usage(
			"whoever reaches the address that --listen names could use the proxy; say "
			"--remote-clients too if that is meant",
			"");
	return 0;
}

int alone_parse(int argc, char **argv, struct alone_options *ret)
{
	struct alone_options o = {.argv = argv,
		.workers = 1,
		.leases = SERVE_LEASES_DEFAULT,
		.ready = SERVE_READY_DEFAULT};
	int option;
	optind = 1;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (take_option(option, optarg, &o) < 0)
			return -EINVAL;
	}
	if (optind != argc)
		return usage("no word is expected: ", argv[optind]);
	int r = check(&o);
	if (o.socket == NULL)
		o.socket = SERVICE_SOCKET;
	if (o.segment_bytes == 0)
		o.segment_bytes = SEGMENT_BYTES_DEFAULT;
	if (o.decisions == 0)
		o.decisions = AUDIT_RING_SLOTS_ALONE;
	if (o.segment_age_ms == 0)
		o.segment_age_ms = SEGMENT_AGE_MS_DEFAULT;
	if (r == 0)
		*ret = o;
	return r;
}
