/* Patterns: which hosts, and which paths, a rule names. Matching is linear in the host, bounded in the path. */
#ifndef ECLUSA_POLICY_PATTERN_H
#define ECLUSA_POLICY_PATTERN_H

#include "policy/host.h"

#define PATTERN_PATH_BYTES_MAX 1024

/** The spellings of a target, each with one meaning. */
enum pattern_kind {
	PATTERN_EXACT,   /* h: this name */
	PATTERN_LABEL,   /* *.h: exactly one label before h */
	PATTERN_BELOW,   /* **.h: one or more labels before h */
	PATTERN_TREE,    /* .h: h and whatever ends in it */
	PATTERN_ANY,     /* any: every name, never an address */
	PATTERN_ADDRESS, /* ip:a or ip:a/bits: a client that asks for the address itself */
	PATTERN_KIND_COUNT
};

/** What stands before the name: "", "*.", "**.", ".", "any", "ip:". */
const char *pattern_prefix(enum pattern_kind kind);

/**
 * Parse a host pattern. @return NULL, or what is wrong with it, for people; then *ret_offset is the byte
 * that is wrong and the other outputs are untouched. ret_host->name is the name without its prefix.
 */
const char *pattern_parse_host(
	struct slice text, enum pattern_kind *ret_kind, struct host *ret_host, size_t *ret_offset);

/** Whether a rule can name this host. "any", "tcp" and "ip" have another meaning there, with a dot behind them, too. */
bool pattern_names(const struct host *host);

/** What follows "ip:" up to the ports: "192.0.2.0/24", "[2001:db8::1]". @return NULL or what is wrong. */
const char *pattern_parse_address(struct slice text, struct cidr *ret);

/** Whether a pattern covers a name of which its own is the suffix after @labels_before labels. */
bool pattern_covers(enum pattern_kind kind, size_t labels_before);

/** Check a path pattern. @return NULL, or what is wrong; then *ret_offset is where. */
const char *pattern_check_path(struct slice text, size_t *ret_offset);
/**
 * Whether a checked pattern matches a normalised path. '*' is any bytes within a segment, and at least one
 * where it is the whole segment; a last segment '**' is any rest. An encoded slash is an ordinary character.
 */
bool pattern_match_path(struct slice pattern, struct slice path);
/** Bytes of a path pattern that are not wildcards: the longer, the more specific. */
size_t pattern_literal_bytes(struct slice pattern);

#endif
