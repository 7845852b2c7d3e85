/* See recorded.h. */
#include "cli/recorded.h"

#include "policy/value.h"

#include <assert.h>

enum { CLASS_NETWORK = 4001, CLASS_HTTP = 4002, ACTION_ALLOWED = 1, SWITCHED = 101 };

static const char *const kind_names[] = {
	[RECORDED_REQUEST] = "request",
	[RECORDED_REDACTED] = "redacted path",
	[RECORDED_CUT] = "cut path",
	[RECORDED_INVALID] = "no valid request",
	[RECORDED_PACKETS] = "packets",
	[RECORDED_OTHER] = "no decision",
};

static_assert(sizeof(kind_names) / sizeof(kind_names[0]) == RECORDED_KIND_COUNT, "a name a kind");

const char *recorded_kind_name(enum recorded_kind kind)
{
	return kind_names[kind];
}

bool recorded_reason(struct slice code, enum reason *ret)
{
	for (unsigned i = 0; i < REASON_COUNT; i++) {
		if (slice_equal(code, slice_of(reason_code((enum reason)i)))) {
			*ret = (enum reason)i;
			return true;
		}
	}
	return false;
}

static bool take_host(const struct audit_line *line, struct recorded *r)
{
	struct slice name = audit_line_text(line, "dst_endpoint.hostname");
	uint64_t port = audit_line_number_at(line, "dst_endpoint.port");
	char bracketed[HOST_NAME_BYTES + 2];
	if (name.len == 0 || port == 0 || port > UINT16_MAX)
		return false;
	if (slice_find(name, ':') >= 0 &&
		name.len + 2 < sizeof(bracketed)) { /* as a peer writes it */
		bracketed[0] = '[';
		(void)slice_copy(name, bracketed + 1, sizeof(bracketed) - 1); /* fits */
		bracketed[name.len + 1] = ']';
		name = (struct slice){bracketed, name.len + 2};
	}
	r->question.host = &r->host;
	r->question.port = (uint16_t)port;
	return host_parse(name, &r->host) == 0;
}

/** Raw TCP is no HTTP event; the rest says what its TLS was to us. */
static enum policy_transport transport_of(const struct audit_line *line, uint64_t class)
{
	struct slice mode = audit_line_text(line, "unmapped.eclusa.tls_mode");
	if (class == CLASS_NETWORK)
		return POLICY_TCP;
	return slice_equal(mode, SLICE("splice")) ? POLICY_SPLICE : POLICY_INSPECT;
}

static bool holds(struct slice text, struct slice what)
{
	for (size_t i = 0; i + what.len <= text.len; i++) {
		if (slice_equal(slice_part(text, i, i + what.len), what))
			return true;
	}
	return false;
}

/** What is left of a path must be what normalising makes of it. */
static enum recorded_kind path_kind(struct slice path)
{
	struct target target;
	if (slice_equal(path, SLICE("*")))
		return RECORDED_REQUEST;
	if (target_normalise(path, &target) < 0 || !slice_equal(target.path, path))
		return RECORDED_INVALID;
	if (holds(path, SLICE(RECORDED_CUT_MARK)))
		return RECORDED_CUT;
	return holds(path, SLICE(RECORDED_MARK)) ? RECORDED_REDACTED : RECORDED_REQUEST;
}

static enum recorded_kind take_request(const struct audit_line *line, struct recorded *r)
{
	struct slice scheme = audit_line_text(line, "http_request.url.scheme");
	struct slice method = audit_line_text(line, "http_request.http_method");
	r->connect = r->transport == POLICY_TCP || slice_equal(method, SLICE("CONNECT"));
	r->question.scheme = POLICY_SCHEME_HTTPS;
	if (r->connect)
		return RECORDED_REQUEST;
	if (slice_equal(scheme, SLICE("http")))
		r->question.scheme = POLICY_SCHEME_HTTP;
	else if (!slice_equal(scheme, SLICE("https")))
		return RECORDED_INVALID;
	r->path = audit_line_text(line, "http_request.url.path");
	if (value_method(method) != NULL || r->path.len == 0)
		return RECORDED_INVALID;
	r->request_body_bytes = audit_line_number_at(line, "http_request.body_length");
	r->response_body_bytes = audit_line_number_at(line, "http_response.body_length");
	r->question.method = method;
	r->question.path = r->path;
	r->question.has_query = audit_line_true(line, "unmapped.eclusa.has_query");
	r->question.encoded_slash = audit_line_true(line, "unmapped.eclusa.encoded_slash");
	r->websocket = audit_line_number_at(line, "http_response.code") == SWITCHED;
	return path_kind(r->path);
}

static enum recorded_kind take(const struct audit_line *line, struct recorded *r)
{
	struct slice would = audit_line_text(line, "unmapped.eclusa.would");
	struct slice profile = audit_line_text(line, "policy.uid");
	struct slice address = audit_line_text(line, "dst_endpoint.ip");
	uint64_t class = audit_line_number_at(line, "class_uid");
	if ((class != CLASS_HTTP && class != CLASS_NETWORK) || !audit_line_counts(line))
		return RECORDED_OTHER;
	if (slice_equal(audit_line_text(line, "unmapped.eclusa.intercept"), SLICE("packet")))
		return RECORDED_PACKETS;
	if (!recorded_reason(audit_line_text(line, "status_code"), &r->reason) ||
		(would.len > 0 && !recorded_reason(would, &r->would)) ||
		value_name(profile) != NULL || !take_host(line, r))
		return RECORDED_INVALID;
	if (address.len > 0 && address_parse(address, &r->destination) < 0)
		return RECORDED_INVALID;
	r->transport = transport_of(line, class);
	r->profile = profile.ptr; /* a name without NUL */
	r->passed = audit_line_number_at(line, "action_id") == ACTION_ALLOWED;
	r->observing = slice_equal(audit_line_text(line, "unmapped.eclusa.mode"), SLICE("observe"));
	r->bytes_out = audit_line_number_at(line, "traffic.bytes_out");
	r->time_ms = audit_line_number_at(line, "start_time");
	return take_request(line, r);
}

void recorded_take(const struct audit_line *line, struct recorded *ret)
{
	*ret = (struct recorded){.uid = audit_line_text(line, "metadata.uid"),
		.sandbox = audit_line_text(line, "src_endpoint.uid"),
		.rule = audit_line_text(line, "firewall_rule.uid"),
		.place = audit_line_text(line, "firewall_rule.desc")};
	ret->kind = take(line, ret);
}
