/*
 * The compiled form of a profile's rules, made once and never changed: a hash of whole names for exact
 * rules, a trie of reversed labels for suffix rules, then groups of rules that share ports, scheme and
 * methods, then an index of paths. Every look-up ends in a comparison with the rule itself: a hash only
 * says where to look.
 */
#ifndef ECLUSA_POLICY_MATCHER_H
#define ECLUSA_POLICY_MATCHER_H

#include "policy/rule.h"

#define MATCHER_LABELS_MAX 127 /* of a name of 253 octets */
#define MATCHER_SPANS_MAX  (MATCHER_LABELS_MAX + 1)
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

struct matcher {
	const struct rule_entry **rules; /* sorted by name and group */
	struct matcher_group *groups;
	struct matcher_exact *exact; /* open addressing, at most half full */
	size_t exact_mask;
	struct matcher_edge *edges; /* likewise: from a node by a label to a node */
	size_t edge_mask;
	struct matcher_node *nodes;
	struct matcher_paths *indexes;
	size_t bytes; /* of all tables, the rules themselves aside */
};

/** Order @rules (kept, changed in place) and index them in @arena. @return 0 or -ENOMEM. */
int matcher_build(
	struct matcher *m, struct arena *arena, const struct rule_entry **rules, size_t rule_count);

/**
 * Where the rules are that may cover @name, shorter names first; whether a group does is for
 * pattern_covers() to say. @return how many spans.
 */
size_t matcher_find(const struct matcher *m, struct slice name,
	struct matcher_span ret_spans[static MATCHER_SPANS_MAX]);

/** Called for each rule of a group that may match a path; sometimes twice for the same. */
typedef void matcher_visit(void *arg, const struct rule_entry *r);
void matcher_candidates(const struct matcher *m, const struct matcher_group *g, struct slice path,
	matcher_visit *visit, void *arg);

/** Order of place: file, then line. */
int matcher_compare_places(const struct rule_entry *a, const struct rule_entry *b);

/* The two halves of an index over the paths of one group (matcher_paths.c). */
int matcher_paths_build(struct matcher *m, struct arena *arena, size_t group_count);

#endif
