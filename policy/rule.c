/* See rule.h. */
#include "policy/rule.h"

#include "common/buf.h"

#include <errno.h>

#define HTTP_PORT 80

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

/** 2 exact, 1 one label, 0 any depth. */
static int kind_rank(enum pattern_kind kind)
{
	return kind == PATTERN_EXACT ? 2 : kind == PATTERN_LABEL ? 1 : 0;
}

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

int rule_compare_specificity(
	const struct rule_entry *a, size_t a_literal, const struct rule_entry *b, size_t b_literal)
{
	const int order[] = {
		kind_rank(a->kind) - kind_rank(b->kind),
		compare(a->name.len, b->name.len),
		compare(a_literal, b_literal),
		/* "every method" is stored as none: one less wraps it to the top */
		compare(b->method_count - 1, a->method_count - 1),
		compare(a->rule.query_denied, b->rule.query_denied),
		compare(b->rule.encoded_slash, a->rule.encoded_slash),
		compare(b->rule.req_body_bytes, a->rule.req_body_bytes),
		compare(b->rule.resp_body_bytes, a->rule.resp_body_bytes),
		compare(b->rule.address_count, a->rule.address_count),
		strcmp(b->rule.id, a->rule.id),
	};
	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (order[i] != 0)
			return order[i];
	}
	return 0;
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

int rule_describe(struct rule_entry *r, struct arena *arena)
{
	struct buf text = {.limit = 0};
	(void)buf_append_text(&text, pattern_prefix(r->kind));
	(void)buf_append(&text, r->name);
	describe_ports(r, &text);
	if (!text.failed)
		r->target = arena_dup(arena, buf_slice(&text));
	buf_clear(&text);
	if (r->method_count == 0)
		(void)buf_append_text(&text, "ANY");
	describe_list(r->methods, r->method_count, ",", &text);
	(void)buf_append_text(&text, r->path_count == 0 ? " /**" : " ");
	describe_list(r->paths, r->path_count, " ", &text);
	if (!text.failed)
		r->admits = arena_dup(arena, buf_slice(&text));
	buf_fini(&text);
	return r->target == NULL || r->admits == NULL ? -ENOMEM : 0;
}

enum reason policy_admit_address(const struct rule *rule, const struct address *a)
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
