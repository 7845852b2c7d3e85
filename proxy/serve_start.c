/*
 * A service's gateway: what netd has to open and to capture for all profiles, and its start. What a later policy opens beyond that is
 * refused as a whole, since neither the dial guard nor the gateway's rules are made anew. See serve_state.h.
 */
#include "proxy/serve_state.h"

#include "common/cleanup.h"
#include "common/resolver.h"
#include "ipc/channel.h"
#include "ipc/openings.h"
#include "proxy/reload_source.h"

#include <fcntl.h>
#include <stdio.h>

const char *serve_profile(const struct serve *s, size_t index)
{
	const struct alone_options *o = s->alone->options;
	if (o->profile_count == 0) /* the only one that the first policy had */
		return index == 0 ? s->alone->policy.source.profile : NULL;
	return index < o->profile_count ? o->profiles[index] : NULL;
}

/** All that the profiles of the service ask for; -E2BIG. */
static int openings_of(const struct serve *s, const struct policy *policy,
	struct message_netd_start *to, struct failure *why)
{
	struct openings o = {.to = to};
	const struct profile *profile;
	const char *name;
	policy_opened(policy, openings_open, &o);
	for (size_t i = 0; (name = serve_profile(s, i)) != NULL; i++) {
		int r = policy_profile(policy, name, &profile, why);
		if (r < 0)
			return r;
		policy_asked_by_address(profile, openings_capture, &o);
	}
	return o.too_many_opened || o.too_many_captured
		? failure_set(why, -E2BIG,
			  "the policy's addr= and ip: rules open more than %d prefixes and ports",
			  MESSAGE_OPENED_MAX)
		: 0;
}

static int compile(struct slice text, struct policy **ret, struct failure *why)
{
	auto_free struct policy_report *report = calloc(1, sizeof(*report));
	char line[FAILURE_TEXT_BYTES] = "policy";
	if (report == NULL)
		return failure_errno(why, -ENOMEM, "policy");
	int r = policy_compile(text, ret, report);
	if (r < 0 && report->count > 0)
		(void)policy_diagnostic_format(&report->items[0], line, sizeof(line));
	return r < 0 ? failure_set(why, r, "%s", line) : 0;
}

/** Name servers and the upstream proxy, which may have addresses of the company's own. */
static int open_servers(struct serve *s, struct openings *o, struct failure *why)
{
	const struct alone_options *options = s->alone->options;
	struct resolver found[MESSAGE_RESOLVERS_MAX];
	struct upstream_proxy proxy;
	int count = resolver_find(options->resolver, found, array_size(found), why);
	for (int i = 0; i < count; i++)
		openings_open_server(o, &found[i].address, found[i].port);
	int r = count < 0 ? count : upstream_proxy_find(&options->upstream_proxy, &proxy, why);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < proxy.count; i++)
		openings_open_proxy(o, &proxy.addresses[i], proxy.port);
	upstream_proxy_wipe(&proxy);
	return 0;
}

static int describe(struct serve *s, struct failure *why)
{
	const struct alone *a = s->alone;
	struct message_netd_start *m = &s->made;
	struct openings servers = {.to = m};
	int r = compile(buf_slice(&a->policy.bundle.text), &s->policy, why);
	/* A service that has no policy yet denies everything; the one that comes may open nothing. */
	if (r == 0 && a->policy.origin != MESSAGE_POLICY_ABSENT)
		r = openings_of(s, s->policy, m, why);
	if (r == 0)
		r = open_servers(s, &servers, why);
	if (r == 0 && servers.too_many_opened)
		r = failure_set(why, -E2BIG, "too many name servers, or addresses of rules");
	if (r < 0)
		return r;
	m->header.kind = MESSAGE_NETD_START;
	m->workers = a->options->workers;
	m->dial_guard = 1;
	m->proxy_uid = a->uid;
	m->leases = a->options->leases;
	m->ready = a->options->ready;
	return 0;
}

int serve_start_netd(struct serve *s, int netd_side, struct failure *why)
{
	struct alone *a = s->alone;
	int ends[2];
	int r = describe(s, why);
	if (r < 0)
		return r;
	r = channel_pair(ends);
	if (r < 0)
		return failure_errno(why, r, "can't make channels");
	s->netd.channel_fd = -1;
	r = program_spawn("eclusa-netd", ends[1], netd_side, &s->netd, why);
	fd_close(&ends[1]);
	a->netd_fd = ends[0];
	if (r < 0)
		return r;
	r = channel_send(a->netd_fd, &s->made, sizeof(s->made), NULL, 0);
	if (r == 0 && fcntl(a->netd_fd, F_SETFL, O_NONBLOCK) < 0)
		r = -errno;
	return r < 0 ? failure_errno(why, r, "can't speak to eclusa-netd") : 0;
}

static bool prefix_within(const struct cidr *inner, const struct cidr *outer)
{
	return inner->base.family == outer->base.family && inner->bits >= outer->bits &&
		cidr_contains(outer, &inner->base);
}

static bool opened_within(const struct message_opened *one, const struct message_netd_start *made)
{
	for (uint32_t i = 0; i < made->opened_count; i++) {
		const struct message_opened *m = &made->opened[i];
		if (prefix_within(&one->prefix, &m->prefix) && one->port_first >= m->port_first &&
			one->port_last <= m->port_last)
			return true;
	}
	return false;
}

static bool captured_within(const struct cidr *one, const struct message_netd_start *made)
{
	for (uint32_t i = 0; i < made->captured_count; i++) {
		if (prefix_within(one, &made->captured[i]))
			return true;
	}
	return false;
}

/** The first prefix that was not there when the service started; NULL: there is none. */
static const struct cidr *first_beyond(
	const struct message_netd_start *wanted, const struct message_netd_start *made)
{
	for (uint32_t i = 0; i < wanted->opened_count; i++) {
		if (!opened_within(&wanted->opened[i], made))
			return &wanted->opened[i].prefix;
	}
	for (uint32_t i = 0; i < wanted->captured_count; i++) {
		if (!captured_within(&wanted->captured[i], made))
			return &wanted->captured[i];
	}
	return NULL;
}

int serve_check(struct serve *s, const struct reload_bundle *bundle, struct reload_fault *ret_fault)
{
	auto_free struct message_netd_start *wanted = calloc(1, sizeof(*wanted));
	struct policy *policy = NULL;
	struct failure why = {0};
	char shown[ADDRESS_TEXT_BYTES];
	int r = wanted == NULL ? failure_errno(&why, -ENOMEM, "policy")
			       : compile(buf_slice(&bundle->text), &policy, &why);
	if (r == 0)
		r = openings_of(s, policy, wanted, &why);
	const struct cidr *beyond = r == 0 ? first_beyond(wanted, &s->made) : NULL;
	if (beyond != NULL)
		r = failure_set(&why, -ENOTSUP,
			"it opens %s/%u by addr= or ip:, which the service's packet rules were not made for: restart it",
			address_format(&beyond->base, shown), beyond->bits);
	if (r < 0) {
		policy_free(policy);
		*ret_fault = (struct reload_fault){.code = r, .errors = 1};
		(void)snprintf(ret_fault->text, sizeof(ret_fault->text), "%s", why.text);
		return r;
	}
	policy_free(s->checked);
	s->checked = policy;
	return 0;
}

void serve_loaded(struct serve *s)
{
	if (s == NULL || s->checked == NULL)
		return;
	policy_free(s->policy);
	s->policy = ptr_take(s->checked);
}
