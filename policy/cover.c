/* See cover.h. Input: rules that the compiler checked. */
#include "policy/cover.h"

#define HTTP_PORT 80

static size_t labels_of(struct slice name)
{
	size_t count = 1;
	for (size_t i = 0; i < name.len; i++)
		count += name.ptr[i] == '.';
	return count;
}

/** An address is not a name: of these two kinds, hosts of one are never hosts of the other. */
static bool other_world(const struct rule_entry *a, const struct rule_entry *b)
{
	return (a->kind == PATTERN_ADDRESS) != (b->kind == PATTERN_ADDRESS);
}

static bool prefix_covers(const struct rule_entry *wide, const struct rule_entry *narrow)
{
	return wide->prefix.bits <= narrow->prefix.bits &&
		cidr_contains(&wide->prefix, &narrow->prefix.base);
}

static bool covers_host(const struct rule_entry *wide, const struct rule_entry *narrow)
{
	if (other_world(wide, narrow))
		return false;
	if (wide->kind == PATTERN_ADDRESS)
		return prefix_covers(wide, narrow);
	if (wide->kind == PATTERN_ANY || narrow->kind == PATTERN_ANY)
		return wide->kind == PATTERN_ANY;
	if (slice_equal(wide->name, narrow->name))
		return wide->kind == narrow->kind || wide->kind == PATTERN_TREE ||
			(wide->kind == PATTERN_BELOW && narrow->kind == PATTERN_LABEL);
	size_t more = narrow->name.len - wide->name.len;
	if (narrow->name.len <= wide->name.len || wide->kind == PATTERN_EXACT ||
		narrow->name.ptr[more - 1] != '.' || !slice_ends(narrow->name, wide->name))
		return false;
	return wide->kind != PATTERN_LABEL ||
		(narrow->kind == PATTERN_EXACT &&
			labels_of(narrow->name) == labels_of(wide->name) + 1);
}

static bool range_covered(const struct rule_entry *wide, const struct port_range *range)
{
	for (size_t i = 0; i < wide->port_count; i++) {
		if (wide->ports[i].first <= range->first && wide->ports[i].last >= range->last)
			return true;
	}
	return false;
}

static bool covers_ports(const struct rule_entry *wide, const struct rule_entry *narrow)
{
	if (wide->port_count == 0)
		return true;
	for (size_t i = 0; i < narrow->port_count; i++) {
		if (!range_covered(wide, &narrow->ports[i]))
			return false;
	}
	return narrow->port_count > 0;
}

/** The one scheme that the rule's ports leave of BY_PORT, if they leave one. */
static enum rule_scheme plain_scheme(const struct rule_entry *r)
{
	if (r->scheme != RULE_SCHEME_BY_PORT || r->port_count == 0)
		return r->scheme;
	if (!rule_has_port(r, HTTP_PORT))
		return RULE_SCHEME_HTTPS;
	bool only = r->port_count == 1 && r->ports[0].first == r->ports[0].last;
	return only ? RULE_SCHEME_HTTP : RULE_SCHEME_BY_PORT;
}

/** Their ports are known to lie within each other. */
static bool covers_scheme(const struct rule_entry *wide, const struct rule_entry *narrow)
{
	enum rule_scheme w = plain_scheme(wide);
	enum rule_scheme n = plain_scheme(narrow);
	if (w == RULE_SCHEME_ANY || w == n)
		return true;
	if (w != RULE_SCHEME_BY_PORT || narrow->port_count == 0)
		return false;
	bool only_80 = narrow->port_count == 1 && narrow->ports[0].first == HTTP_PORT &&
		narrow->ports[0].last == HTTP_PORT;
	return (n == RULE_SCHEME_HTTPS && !rule_has_port(narrow, HTTP_PORT)) ||
		(n == RULE_SCHEME_HTTP && only_80);
}

static bool covers_methods(const struct rule_entry *wide, const struct rule_entry *narrow)
{
	if (wide->method_count == 0)
		return true;
	for (size_t i = 0; i < narrow->method_count; i++) {
		if (!rule_has_method(wide, narrow->methods[i]))
			return false;
	}
	return narrow->method_count > 0;
}

static bool segment_covers(struct slice wide, struct slice narrow)
{
	if (slice_equal(wide, narrow))
		return true;
	if (slice_equal(wide, SLICE("*")))
		return narrow.len > 0;
	return slice_find(narrow, '*') < 0 && pattern_match_path(wide, narrow);
}

bool cover_path(struct slice wide, struct slice narrow)
{
	for (;;) {
		struct slice wide_segment = wide;
		struct slice wide_rest;
		struct slice narrow_segment = narrow;
		struct slice narrow_rest;
		bool wide_more = slice_split(wide, '/', &wide_segment, &wide_rest);
		bool narrow_more = slice_split(narrow, '/', &narrow_segment, &narrow_rest);
		if (!wide_more && slice_equal(wide_segment, SLICE("**")))
			return true;
		if (!narrow_more && slice_equal(narrow_segment, SLICE("**")))
			return false;
		if (wide_more != narrow_more || !segment_covers(wide_segment, narrow_segment))
			return false;
		if (!wide_more)
			return true;
		wide = wide_rest;
		narrow = narrow_rest;
	}
}

static bool covers_path(const struct rule_entry *wide, struct slice path)
{
	for (size_t i = 0; i < wide->path_count; i++) {
		if (cover_path(wide->paths[i], path))
			return true;
	}
	return wide->path_count == 0;
}

static bool covers_paths(const struct rule_entry *wide, const struct rule_entry *narrow)
{
	for (size_t i = 0; i < narrow->path_count; i++) {
		if (!covers_path(wide, narrow->paths[i]))
			return false;
	}
	return narrow->path_count > 0 || covers_path(wide, SLICE("/**"));
}

bool cover_rule(const struct rule_entry *wide, const struct rule_entry *narrow)
{
	return covers_host(wide, narrow) && covers_ports(wide, narrow) &&
		covers_scheme(wide, narrow) && covers_methods(wide, narrow) &&
		covers_paths(wide, narrow);
}

/** Whether some text matches both; from their ends, one row of the table at a time. */
static bool segments_meet(struct slice a, struct slice b)
{
	bool row[PATTERN_PATH_BYTES_MAX + 1];
	if (slice_equal(a, SLICE("*")) || slice_equal(b, SLICE("*")))
		return a.len > 0 && b.len > 0;
	row[b.len] = true;
	for (size_t j = b.len; j > 0; j--)
		row[j - 1] = row[j] && b.ptr[j - 1] == '*';
	for (size_t i = a.len; i > 0; i--) {
		bool star = a.ptr[i - 1] == '*';
		bool diagonal = row[b.len];
		row[b.len] = row[b.len] && star;
		for (size_t j = b.len; j > 0; j--) {
			bool below = row[j - 1];
			bool same = a.ptr[i - 1] == b.ptr[j - 1] && diagonal;
			bool skip = (star && (below || row[j])) ||
				(b.ptr[j - 1] == '*' && (below || row[j]));
			diagonal = below;
			row[j - 1] = same || skip;
		}
	}
	return row[0];
}

bool cover_paths_meet(struct slice a, struct slice b)
{
	for (;;) {
		struct slice a_segment = a;
		struct slice a_rest;
		struct slice b_segment = b;
		struct slice b_rest;
		bool a_more = slice_split(a, '/', &a_segment, &a_rest);
		bool b_more = slice_split(b, '/', &b_segment, &b_rest);
		if ((!a_more && slice_equal(a_segment, SLICE("**"))) ||
			(!b_more && slice_equal(b_segment, SLICE("**"))))
			return true;
		if (a_more != b_more || !segments_meet(a_segment, b_segment))
			return false;
		if (!a_more)
			return true;
		a = a_rest;
		b = b_rest;
	}
}

bool cover_hosts_tie(const struct rule_entry *a, const struct rule_entry *b)
{
	bool any_depth = (a->kind == PATTERN_BELOW || a->kind == PATTERN_TREE) &&
		(b->kind == PATTERN_BELOW || b->kind == PATTERN_TREE);
	return (a->kind == b->kind || any_depth) && slice_equal(a->name, b->name);
}

static bool ports_meet(const struct rule_entry *a, const struct rule_entry *b)
{
	for (size_t i = 0; i < a->port_count; i++) {
		for (size_t j = 0; j < b->port_count; j++) {
			if (a->ports[i].first <= b->ports[j].last &&
				b->ports[j].first <= a->ports[i].last)
				return true;
		}
	}
	return a->port_count == 0 || b->port_count == 0;
}

static bool schemes_meet(const struct rule_entry *a, const struct rule_entry *b)
{
	enum rule_scheme left = plain_scheme(a);
	enum rule_scheme right = plain_scheme(b);
	return !(left == RULE_SCHEME_HTTP && right == RULE_SCHEME_HTTPS) &&
		!(left == RULE_SCHEME_HTTPS && right == RULE_SCHEME_HTTP);
}

static bool methods_tie(const struct rule_entry *a, const struct rule_entry *b)
{
	if (a->method_count != b->method_count)
		return false;
	for (size_t i = 0; i < a->method_count; i++) {
		if (rule_has_method(b, a->methods[i]))
			return true;
	}
	return a->method_count == 0;
}

static bool paths_tie(const struct rule_entry *a, const struct rule_entry *b)
{
	for (size_t i = 0; i < a->path_count; i++) {
		size_t literal = pattern_literal_bytes(a->paths[i]);
		for (size_t j = 0; j < b->path_count; j++) {
			if (pattern_literal_bytes(b->paths[j]) == literal &&
				cover_paths_meet(a->paths[i], b->paths[j]))
				return true;
		}
	}
	return a->path_count == 0 && b->path_count == 0;
}

/** @wide's name is the end of @narrow's, after a dot. */
static bool hosts_nest(const struct rule_entry *wide, const struct rule_entry *narrow)
{
	size_t more = narrow->name.len - wide->name.len;
	if (wide->kind == PATTERN_EXACT || narrow->name.len <= wide->name.len ||
		narrow->name.ptr[more - 1] != '.' || !slice_ends(narrow->name, wide->name))
		return false;
	bool own_name = narrow->kind == PATTERN_EXACT || narrow->kind == PATTERN_TREE;
	return wide->kind != PATTERN_LABEL ||
		(own_name && labels_of(narrow->name) == labels_of(wide->name) + 1);
}

bool cover_hosts_meet(const struct rule_entry *a, const struct rule_entry *b)
{
	if (other_world(a, b))
		return false;
	if (a->kind == PATTERN_ADDRESS)
		return prefix_covers(a, b) || prefix_covers(b, a);
	if (a->kind == PATTERN_ANY || b->kind == PATTERN_ANY)
		return true;
	if (!slice_equal(a->name, b->name))
		return hosts_nest(a, b) || hosts_nest(b, a);
	bool a_own = a->kind == PATTERN_EXACT || a->kind == PATTERN_TREE;
	bool b_own = b->kind == PATTERN_EXACT || b->kind == PATTERN_TREE;
	return (a_own && b_own) || (a->kind != PATTERN_EXACT && b->kind != PATTERN_EXACT);
}

bool cover_connections_meet(const struct rule_entry *a, const struct rule_entry *b)
{
	return cover_hosts_meet(a, b) && ports_meet(a, b) && schemes_meet(a, b);
}

static bool methods_meet(const struct rule_entry *a, const struct rule_entry *b)
{
	for (size_t i = 0; i < a->method_count; i++) {
		if (rule_has_method(b, a->methods[i]))
			return true;
	}
	return a->method_count == 0 || b->method_count == 0;
}

static bool paths_meet(const struct rule_entry *a, const struct rule_entry *b)
{
	for (size_t i = 0; i < a->path_count; i++) {
		for (size_t j = 0; j < b->path_count; j++) {
			if (cover_paths_meet(a->paths[i], b->paths[j]))
				return true;
		}
	}
	return a->path_count == 0 || b->path_count == 0;
}

bool cover_requests_meet(const struct rule_entry *a, const struct rule_entry *b)
{
	return cover_connections_meet(a, b) && methods_meet(a, b) && paths_meet(a, b);
}

bool cover_ties(const struct rule_entry *a, const struct rule_entry *b)
{
	return cover_hosts_tie(a, b) && methods_tie(a, b) && ports_meet(a, b) &&
		schemes_meet(a, b) && paths_tie(a, b);
}
