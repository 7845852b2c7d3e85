/*
 * The compiled form of a profile's rules, made once and never changed: a hash of whole names for exact
 * rules, a trie of reversed labels for suffix rules (any is its root), a hash of prefixes for ip: rules, then groups of rules that share ports, scheme and
 * methods, then an index of paths. Every look-up ends in a comparison with the rule itself: a hash only
 * says where to look.
 */
#ifndef ECLUSA_POLICY_MATCHER_H
#define ECLUSA_POLICY_MATCHER_H

#include "policy/rule.h"

#define MATCHER_LABELS_MAX 127                      /* of a name of 253 octets */
#define MATCHER_SPANS_MAX  (MATCHER_LABELS_MAX + 2) /* any and the exact name beside them */
#define MATCHER_NO_INDEX   UINT32_MAX

/**
 * Rules [first, first + count) of one name that differ only in paths and limits. Allow rules: the most
 * specific first, paths aside. Deny rules: those of every path first, then in order of place.
 */
struct matcher_group {
	uint32_t first;
	uint32_t count;
	uint32_t index; /* of its paths, or MATCHER_NO_INDEX: so few rules that each is asked */
};

/** Groups [first, first + count) of one name: for the exact name, or for what ends in it. */
struct matcher_span {
	uint32_t first;
	uint32_t count;
	uint32_t labels_before; /* of the name that was asked for, in front of the rules' name */
};

struct matcher_exact;
struct matcher_edge;
struct matcher_node;
struct matcher_paths;
struct matcher_prefix;

#define MATCHER_BITS_MAX 129 /* lengths of prefixes, 0 to 128 */

struct matcher {
	const struct rule_entry **rules; /* sorted by name and group */
	struct matcher_group *groups;
	struct matcher_exact *exact; /* open addressing, at most half full */
	size_t exact_mask;
	struct matcher_edge *edges; /* likewise: from a node by a label to a node */
	size_t edge_mask;
	struct matcher_node *nodes;
	struct matcher_paths *indexes;
	struct matcher_prefix *prefixes; /* open addressing, too */
	size_t prefix_mask;
	uint8_t bits[2]
		    [MATCHER_BITS_MAX]; /* lengths that ip: rules have, v4 and v6, shorter first */
	uint8_t bits_count[2];
	size_t bytes; /* of all tables, the rules themselves aside */
};

/** Order @rules (kept, changed in place) and index them in @arena. @return 0 or -ENOMEM. */
int matcher_build(
	struct matcher *m, struct arena *arena, const struct rule_entry **rules, size_t rule_count);

/**
 * Where the rules are that may cover a host, those of shorter names or prefixes first; whether a group does is
 * for pattern_covers() to say. @return how many spans.
 */
size_t matcher_find(const struct matcher *m, const struct host *host,
	struct matcher_span ret_spans[static MATCHER_SPANS_MAX]);
/** The same for all that a rule's target covers: rules whose own target may meet it, and is as wide or wider. */
size_t matcher_find_rule(const struct matcher *m, const struct rule_entry *r,
	struct matcher_span ret_spans[static MATCHER_SPANS_MAX]);

/** Whether some allow rule, expired or not, names something that ends in a dot and @name. */
bool matcher_has_below(const struct matcher *m, struct slice name);

/** Called for each rule of a group that may match a path; sometimes twice for the same. */
typedef void matcher_visit(void *arg, const struct rule_entry *r);
void matcher_candidates(const struct matcher *m, const struct matcher_group *g, struct slice path,
	matcher_visit *visit, void *arg);

/** Order of place: file, then line. */
int matcher_compare_places(const struct rule_entry *a, const struct rule_entry *b);

/* The index over the paths of one group (matcher_paths.c), and the one over prefixes (matcher_prefixes.c). */
int matcher_paths_build(struct matcher *m, struct arena *arena, size_t group_count);
int matcher_prefixes_build(struct matcher *m, struct arena *arena, size_t group_count);
/** Spans of the prefixes that @prefix lies in. */
size_t matcher_prefixes_find(const struct matcher *m, const struct cidr *prefix,
	struct matcher_span ret_spans[static MATCHER_SPANS_MAX]);
/** One more than the last group of the span that starts with group @first. */
size_t matcher_span_end(const struct matcher *m, size_t first, size_t group_count);

#endif
