/* See pattern.h. */
#include "policy/pattern.h"

#include "policy/target.h"

#include <assert.h>

static const char *const prefixes[] = {
	[PATTERN_EXACT] = "",
	[PATTERN_LABEL] = "*.",
	[PATTERN_BELOW] = "**.",
	[PATTERN_TREE] = ".",
	[PATTERN_ANY] = "any",
	[PATTERN_ADDRESS] = "ip:",
};

static_assert(sizeof(prefixes) / sizeof(prefixes[0]) == PATTERN_KIND_COUNT, "a prefix a kind");

const char *pattern_prefix(enum pattern_kind kind)
{
	return prefixes[kind];
}

static enum pattern_kind kind_of(struct slice text)
{
	if (slice_starts(text, SLICE("**.")))
		return PATTERN_BELOW;
	if (slice_starts(text, SLICE("*.")))
		return PATTERN_LABEL;
	if (slice_starts(text, SLICE(".")))
		return PATTERN_TREE;
	return PATTERN_EXACT;
}

/** A byte above ASCII, or -1. */
static ptrdiff_t find_non_ascii(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		if ((unsigned char)text.ptr[i] >= 0x80)
			return (ptrdiff_t)i;
	}
	return -1;
}

bool pattern_names(const struct host *host)
{
	static const char *const words[] = {"any", "tcp", "ip"};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(host->name, words[i]) == 0)
			return false;
	}
	return true;
}

const char *pattern_parse_host(
	struct slice text, enum pattern_kind *ret_kind, struct host *ret_host, size_t *ret_offset)
{
	enum pattern_kind kind = kind_of(text);
	size_t prefix_len = strlen(prefixes[kind]);
	struct slice name = slice_part(text, prefix_len, text.len);
	struct host host;
	ptrdiff_t at = find_non_ascii(text);
	*ret_offset = 0;
	if (at >= 0) {
		*ret_offset = (size_t)at;
		return "the host is not ASCII; write the A-label (xn--...)";
	}
	if (slice_equal(text, SLICE("*")) || slice_equal(text, SLICE("**")))
		return "a bare wildcard covers every host; name the hosts";
	at = slice_find(name, '*');
	if (at >= 0) {
		*ret_offset = prefix_len + (size_t)at;
		return "a wildcard can only be a leading *. or **. in front of a whole name";
	}
	if (host_parse(name, &host) < 0) {
		*ret_offset = prefix_len;
		return "this is not a host name";
	}
	if (host.kind == HOST_ADDRESS)
		return "this is an address, not a host name; ip: in front of it names an address";
	if (kind != PATTERN_EXACT && strchr(host.name, '.') == NULL)
		return "the wildcard covers a whole public suffix; name at least two labels";
	if (!pattern_names(&host))
		return "this word has another meaning in a rule, which can't name a host that is called so";
	*ret_kind = kind;
	*ret_host = host;
	return NULL;
}

const char *pattern_parse_address(struct slice text, struct cidr *ret)
{
	struct cidr prefix;
	bool bracketed = slice_starts(text, SLICE("[")) && slice_ends(text, SLICE("]"));
	if (bracketed)
		text = slice_part(text, 1, text.len - 1);
	if (cidr_parse(text, &prefix) < 0)
		return "ip: takes an address or a prefix with zero host bits: ip:192.0.2.7, "
		       "ip:192.0.2.0/24, ip:[2001:db8::/32]";
	if (bracketed != (prefix.base.family == 6))
		return bracketed ? "only IPv6 stands in brackets"
				 : "IPv6 stands in brackets: ip:[2001:db8::/32]";
	if (prefix.bits == 0)
		return "a prefix of length 0 opens every address; name the networks";
	*ret = prefix;
	return NULL;
}

bool pattern_covers(enum pattern_kind kind, size_t labels_before)
{
	switch (kind) {
	case PATTERN_EXACT:
		return labels_before == 0;
	case PATTERN_LABEL:
		return labels_before == 1;
	case PATTERN_BELOW:
		return labels_before >= 1;
	case PATTERN_TREE:
	case PATTERN_ANY:
	case PATTERN_ADDRESS: /* looked up by its prefix: no labels are left over */
		return true;
	case PATTERN_KIND_COUNT:
		break;
	}
	return false;
}

/** Where the first "**" stands that is not the whole last segment, or -1. */
static ptrdiff_t find_misplaced_rest(struct slice text)
{
	for (size_t i = 1; i + 2 <= text.len; i++) {
		if (!slice_equal(slice_part(text, i, i + 2), SLICE("**")))
			continue;
		if (text.ptr[i - 1] != '/' || i + 2 != text.len)
			return (ptrdiff_t)i;
	}
	return -1;
}

const char *pattern_check_path(struct slice text, size_t *ret_offset)
{
	struct target target;
	ptrdiff_t at = find_misplaced_rest(text);
	*ret_offset = 0;
	if (text.len > PATTERN_PATH_BYTES_MAX)
		return "the path is longer than 1024 bytes";
	if (slice_find(text, '?') >= 0) {
		*ret_offset = (size_t)slice_find(text, '?');
		return "a path has no query; query=allow and query=deny judge it";
	}
	if (at >= 0) {
		*ret_offset = (size_t)at;
		return "** can only be the whole last segment";
	}
	if (target_normalise(text, &target) < 0)
		return "no request can have this path (escapes, dots or bytes that are refused)";
	if (!slice_equal(target.path, text))
		return "no request has this path after normalisation: write unreserved characters "
		       "plainly, escapes with upper-case hex, and no dot segments";
	return NULL;
}

/**
 * '*' within one segment: on a mismatch only the latest '*' takes one byte more, so the work is at most
 * the product of both lengths, without recursion.
 */
static bool match_segment(struct slice pattern, struct slice text)
{
	size_t p = 0;
	size_t t = 0;
	size_t star_p = SIZE_MAX; /* after the latest '*' */
	size_t star_t = 0;        /* where that '*' stops for now */
	if (slice_equal(pattern, SLICE("*")))
		return text.len > 0;
	while (t < text.len) {
		if (p < pattern.len && pattern.ptr[p] == '*') {
			star_p = ++p;
			star_t = t;
		} else if (p < pattern.len && pattern.ptr[p] == text.ptr[t]) {
			p++;
			t++;
		} else if (star_p != SIZE_MAX) {
			p = star_p;
			t = ++star_t;
		} else {
			return false;
		}
	}
	while (p < pattern.len && pattern.ptr[p] == '*')
		p++;
	return p == pattern.len;
}

bool pattern_match_path(struct slice pattern, struct slice path)
{
	for (;;) {
		struct slice pattern_segment = pattern;
		struct slice pattern_rest;
		struct slice path_segment = path;
		struct slice path_rest;
		bool pattern_more = slice_split(pattern, '/', &pattern_segment, &pattern_rest);
		bool path_more = slice_split(path, '/', &path_segment, &path_rest);
		if (!pattern_more && slice_equal(pattern_segment, SLICE("**")))
			return true;
		if (pattern_more != path_more || !match_segment(pattern_segment, path_segment))
			return false;
		if (!pattern_more)
			return true;
		pattern = pattern_rest;
		path = path_rest;
	}
}

size_t pattern_literal_bytes(struct slice pattern)
{
	size_t count = 0;
	for (size_t i = 0; i < pattern.len; i++)
		count += pattern.ptr[i] != '*';
	return count;
}
