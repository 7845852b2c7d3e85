/* See rule.h. */
#include "policy/rule.h"

#include "common/buf.h"

#include <errno.h>

#define HTTP_PORT 80

static bool covers_name(const struct rule_entry *r, struct slice name)
{
	size_t before = 0;
	size_t rest = name.len - r->name.len;
	if (r->kind == PATTERN_ANY)
		return true;
	if (!slice_ends(name, r->name) || (rest > 0 && name.ptr[rest - 1] != '.'))
		return false;
	for (size_t i = 0; i < rest; i++)
		before += name.ptr[i] == '.';
	return pattern_covers(r->kind, before);
}

bool rule_covers_host(const struct rule_entry *r, const struct host *host)
{
	if ((r->kind == PATTERN_ADDRESS) != (host->kind == HOST_ADDRESS))
		return false;
	if (host->kind == HOST_NAME)
		return covers_name(r, slice_of(host->name));
	return cidr_contains(&r->prefix, &host->address) &&
		(!r->rule.allow || reason_allows(policy_admit_address(&r->rule, &host->address)));
}

bool rule_has_port(const struct rule_entry *r, uint16_t port)
{
	for (size_t i = 0; i < r->port_count; i++) {
		if (port >= r->ports[i].first && port <= r->ports[i].last)
			return true;
	}
	return r->port_count == 0;
}

bool rule_has_scheme(const struct rule_entry *r, uint16_t port, enum policy_scheme scheme)
{
	switch (r->scheme) {
	case RULE_SCHEME_BY_PORT:
		return (port == HTTP_PORT) == (scheme == POLICY_SCHEME_HTTP);
	case RULE_SCHEME_HTTP:
		return scheme == POLICY_SCHEME_HTTP;
	case RULE_SCHEME_HTTPS:
		return scheme == POLICY_SCHEME_HTTPS;
	case RULE_SCHEME_ANY:
		return true;
	}
	return false;
}

bool rule_has_method(const struct rule_entry *r, struct slice method)
{
	for (size_t i = 0; i < r->method_count; i++) {
		if (slice_equal(r->methods[i], method))
			return true;
	}
	return r->method_count == 0;
}

bool rule_has_path(const struct rule_entry *r, struct slice path, size_t *ret_literal)
{
	bool found = r->path_count == 0;
	size_t longest = 0;
	for (size_t i = 0; i < r->path_count; i++) {
		if (!pattern_match_path(r->paths[i], path))
			continue;
		size_t literal = pattern_literal_bytes(r->paths[i]);
		longest = literal > longest ? literal : longest;
		found = true;
	}
	if (found)
		*ret_literal = longest;
	return found;
}

static int kind_rank(enum pattern_kind kind)
{
	switch (kind) {
	case PATTERN_EXACT:
	case PATTERN_ADDRESS: /* compared with its own kind only */
		return 3;
	case PATTERN_LABEL:
		return 2;
	case PATTERN_BELOW:
	case PATTERN_TREE:
		return 1;
	case PATTERN_ANY:
	case PATTERN_KIND_COUNT:
		break;
	}
	return 0;
}

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static size_t host_length(const struct rule_entry *r)
{
	return r->kind == PATTERN_ADDRESS ? r->prefix.bits : r->name.len;
}

/** Above 0: @a's budget is the narrower one, as far as one number after the other can say. */
static int compare_budgets(const struct rule_budget *a, const struct rule_budget *b)
{
	const int order[] = {
		compare(b->up_bytes, a->up_bytes),
		compare(b->down_bytes, a->down_bytes),
		compare(b->requests, a->requests),
		/* no window is the longest: one less wraps it to the top */
		compare(a->window_ms - 1, b->window_ms - 1),
		compare(b->max_uses, a->max_uses),
		compare(b->connections, a->connections),
		compare(b->time_ms, a->time_ms),
		compare(b->rate_ms == 0, a->rate_ms == 0),
		compare(b->rate_uses, a->rate_uses),
		compare(a->rate_ms, b->rate_ms),
	};
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (order[i] != 0)
			return order[i];
	}
	return 0;
}

/** Above 0: @a allows less in a request that both allow. */
static int compare_limits(const struct rule_entry *a, const struct rule_entry *b)
{
	const int order[] = {
		compare(a->rule.query_denied, b->rule.query_denied),
		compare(b->rule.encoded_slash, a->rule.encoded_slash),
		compare(b->rule.req_body_bytes, a->rule.req_body_bytes),
		compare(b->rule.resp_body_bytes, a->rule.resp_body_bytes),
		compare(b->rule.address_count, a->rule.address_count),
		compare(a->rule.header_deny_count, b->rule.header_deny_count),
		compare(b->rule.websocket, a->rule.websocket),
		compare(b->rule.observe, a->rule.observe),
		compare_budgets(&a->rule.budget, &b->rule.budget),
		strcmp(b->rule.id, a->rule.id),
	};
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (order[i] != 0)
			return order[i];
	}
	return 0;
}

int rule_compare_specificity(
	const struct rule_entry *a, size_t a_literal, const struct rule_entry *b, size_t b_literal)
{
	int order = kind_rank(a->kind) - kind_rank(b->kind);
	if (order == 0)
		order = compare(host_length(a), host_length(b));
	if (order == 0)
		order = compare(a_literal, b_literal);
	/* "every method" is stored as none: one less wraps it to the top */
	if (order == 0)
		order = compare(b->method_count - 1, a->method_count - 1);
	return order != 0 ? order : compare_limits(a, b);
}

static void describe_ports(const struct rule_entry *r, struct buf *to)
{
	for (size_t i = 0; i < r->port_count; i++) {
		const struct port_range *range = &r->ports[i];
		(void)buf_printf(to, "%c%u", i == 0 ? ':' : ',', range->first);
		if (range->last != range->first)
			(void)buf_printf(to, "-%u", range->last);
	}
}

static void describe_list(
	const struct slice *items, size_t count, const char *separator, struct buf *to)
{
	for (size_t i = 0; i < count; i++) {
		if (i > 0)
			(void)buf_append_text(to, separator);
		(void)buf_append(to, items[i]);
	}
}

static void describe_requests(const struct rule_entry *r, struct buf *to)
{
	if (r->method_count == 0)
		(void)buf_append_text(to, "ANY");
	describe_list(r->methods, r->method_count, ",", to);
	(void)buf_append_text(to, r->path_count == 0 ? " /**" : " ");
	describe_list(r->paths, r->path_count, " ", to);
}

int rule_describe(struct rule_entry *r, struct arena *arena)
{
	struct buf text = {.limit = 0};
	if (r->rule.transport == POLICY_TCP)
		(void)buf_append_text(&text, "tcp ");
	(void)buf_append_text(&text, pattern_prefix(r->kind));
	(void)buf_append(&text, r->name);
	describe_ports(r, &text);
	if (!text.failed)
		r->target = arena_dup(arena, buf_slice(&text));
	buf_clear(&text);
	if (r->rule.transport == POLICY_INSPECT)
		describe_requests(r, &text);
	if (!text.failed)
		r->admits = arena_dup(arena, buf_slice(&text));
	buf_fini(&text);
	return r->target == NULL || r->admits == NULL ? -ENOMEM : 0;
}

/** By its class and the rule's prefixes, whatever it carries. */
static enum reason admit_itself(const struct rule *rule, const struct address *a)
{
	enum address_class class = address_classify(a);
	if (class == ADDRESS_PUBLIC)
		return REASON_ALLOW_RULE;
	/* A wide prefix does not open the metadata service that happens to lie in it. */
	uint8_t least_bits = class == ADDRESS_METADATA ? (a->family == 4 ? 32 : 128) : 0;
	for (size_t i = 0; rule != NULL && i < rule->address_count; i++) {
		if (rule->addresses[i].bits >= least_bits && cidr_contains(&rule->addresses[i], a))
			return REASON_ALLOW_RULE;
	}
	return class == ADDRESS_METADATA ? REASON_DENY_ADDRESS_METADATA
					 : REASON_DENY_ADDRESS_PRIVATE;
}

enum reason policy_admit_address(const struct rule *rule, const struct address *a)
{
	struct address carried;
	enum reason reason = admit_itself(rule, a);
	/* Whoever opens NAT64 opens the world's IPv4, and not the private part of it. */
	if (reason_allows(reason) && address_carried_v4(a, &carried))
		reason = admit_itself(rule, &carried);
	return reason;
}
