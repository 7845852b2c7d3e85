/* See matcher.h. Names to groups; paths are matcher_paths.c's. Input: rules that the compiler checked. */
#include "policy/matcher_table.h"

#include "policy/value.h"

#include <errno.h>
#include <stdlib.h>

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

int matcher_compare_places(const struct rule_entry *a, const struct rule_entry *b)
{
	int order = strcmp(a->place.file, b->place.file);
	return order != 0 ? order : compare_numbers(a->place.line, b->place.line);
}

static int compare_ports(const struct rule_entry *a, const struct rule_entry *b)
{
	int order = compare_numbers(a->port_count, b->port_count);
	if (a->ports == b->ports)
		return order;
	for (size_t i = 0; i < a->port_count && order == 0; i++) {
		order = compare_numbers(a->ports[i].first, b->ports[i].first);
		if (order == 0)
			order = compare_numbers(a->ports[i].last, b->ports[i].last);
	}
	return order;
}

static int compare_methods(const struct rule_entry *a, const struct rule_entry *b)
{
	int order = compare_numbers(a->method_count, b->method_count);
	if (a->methods == b->methods)
		return order;
	for (size_t i = 0; i < a->method_count && order == 0; i++)
		order = value_compare_slices(&a->methods[i], &b->methods[i]);
	return order;
}

/** 0: both are for the same table entry: an exact name, or a suffix. */
static int compare_spans(const struct rule_entry *a, const struct rule_entry *b)
{
	int order = value_compare_slices(&a->name, &b->name);
	return order != 0 ? order : (a->kind != PATTERN_EXACT) - (b->kind != PATTERN_EXACT);
}

static bool in_trie(const struct rule_entry *r)
{
	return r->kind != PATTERN_EXACT && r->kind != PATTERN_ADDRESS;
}

/** 0: both are of one group. */
static int compare_groups(const struct rule_entry *a, const struct rule_entry *b)
{
	int order = compare_spans(a, b);
	if (order == 0)
		order = a->rule.allow - b->rule.allow;
	if (order == 0)
		order = (int)a->kind - (int)b->kind;
	if (order == 0)
		order = (int)a->rule.transport - (int)b->rule.transport;
	if (order == 0)
		order = a->rule.observe - b->rule.observe;
	if (order == 0)
		order = (int)a->scheme - (int)b->scheme;
	if (order == 0)
		order = compare_ports(a, b);
	return order != 0 ? order : compare_methods(a, b);
}

static int compare_rules(const void *a, const void *b)
{
	const struct rule_entry *left = *(const struct rule_entry *const *)a;
	const struct rule_entry *right = *(const struct rule_entry *const *)b;
	int order = compare_groups(left, right);
	if (order != 0)
		return order;
	if (left->rule.allow)
		order = rule_compare_specificity(right, 0, left, 0);
	else
		order = (left->path_count != 0) - (right->path_count != 0);
	if (order == 0)
		order = matcher_compare_places(left, right);
	return order != 0 ? order : compare_numbers(left->expires_ms, right->expires_ms);
}

/** @return how many groups; written to @to when it is not NULL. */
static size_t split_groups(
	const struct rule_entry *const *rules, size_t rule_count, struct matcher_group *to)
{
	size_t count = 0;
	for (size_t first = 0, i = 1; i <= rule_count; i++) {
		if (i < rule_count && compare_groups(rules[i], rules[first]) == 0)
			continue;
		if (to != NULL)
			to[count] = (struct matcher_group){
				(uint32_t)first, (uint32_t)(i - first), MATCHER_NO_INDEX};
		first = i;
		count++;
	}
	return count;
}

size_t matcher_span_end(const struct matcher *m, size_t first, size_t group_count)
{
	const struct rule_entry *head = m->rules[m->groups[first].first];
	size_t end = first + 1;
	while (end < group_count && compare_spans(m->rules[m->groups[end].first], head) == 0)
		end++;
	return end;
}

static const struct rule_entry *span_head(const struct matcher *m, size_t first)
{
	return m->rules[m->groups[first].first];
}

static uint32_t hash_name(struct slice name)
{
	uint32_t hash = MATCHER_HASH_START;
	for (size_t i = 0; i < name.len; i++)
		hash = matcher_hash_step(hash, name.ptr[i]);
	return matcher_hash_end(hash);
}

/** A power of two that is at least twice @count. */
static size_t table_size(size_t count)
{
	size_t size = 2;
	while (size < 2 * count)
		size *= 2;
	return size;
}

static int build_exact(struct matcher *m, struct arena *arena, size_t group_count)
{
	size_t names = 0;
	for (size_t i = 0; i < group_count; i = matcher_span_end(m, i, group_count))
		names += span_head(m, i)->kind == PATTERN_EXACT;
	size_t size = table_size(names);
	m->exact = arena_alloc(arena, size, sizeof(*m->exact));
	if (m->exact == NULL)
		return -ENOMEM;
	m->exact_mask = size - 1;
	m->bytes += size * sizeof(*m->exact);
	for (size_t i = 0, end; i < group_count; i = end) {
		const struct rule_entry *head = span_head(m, i);
		end = matcher_span_end(m, i, group_count);
		if (head->kind != PATTERN_EXACT)
			continue;
		uint32_t hash = hash_name(head->name);
		size_t at = hash & m->exact_mask;
		while (m->exact[at].count > 0)
			at = (at + 1) & m->exact_mask;
		m->exact[at] = (struct matcher_exact){head->name.ptr, hash,
			(uint32_t)head->name.len, (uint32_t)i, (uint32_t)(end - i)};
	}
	return 0;
}

/** The trie while it grows; on the heap, because it is moved. */
struct trie {
	struct matcher_edge *edges;
	size_t edge_mask;
	struct matcher_node *nodes;
	size_t node_count;
	size_t node_room;
};

/** Take the last label off *rest, with its hash. False: there was none left. */
static inline bool take_label(struct slice *rest, struct slice *ret_label, uint32_t *ret_hash)
{
	uint32_t hash = MATCHER_HASH_START;
	size_t at = rest->len;
	if (at == 0)
		return false;
	while (at > 0 && rest->ptr[at - 1] != '.')
		hash = matcher_hash_step(hash, rest->ptr[--at]);
	*ret_label = (struct slice){rest->ptr + at, rest->len - at};
	*ret_hash = hash;
	rest->len = at > 0 ? at - 1 : 0;
	return true;
}

static inline uint32_t edge_hash(uint32_t label_hash, uint32_t parent)
{
	return matcher_hash_end(label_hash ^ parent * UINT32_C(0x9e3779b1));
}

/** The edge, or the free place where it would be. */
static size_t find_edge(const struct matcher_edge *edges, size_t mask, uint32_t parent,
	struct slice label, uint32_t hash)
{
	size_t at = hash & mask;
	for (; edges[at].child != 0; at = (at + 1) & mask) {
		const struct matcher_edge *e = &edges[at];
		if (e->hash == hash && e->parent == parent && e->label_len == label.len &&
			memcmp(e->label, label.ptr, label.len) == 0)
			break;
	}
	return at;
}

static int trie_grow_edges(struct trie *t)
{
	size_t size = 2 * (t->edge_mask + 1);
	struct matcher_edge *edges = calloc(size, sizeof(*edges));
	if (edges == NULL)
		return -ENOMEM;
	for (size_t i = 0; i <= t->edge_mask; i++) {
		size_t at = t->edges[i].hash & (size - 1);
		if (t->edges[i].child == 0)
			continue;
		while (edges[at].child != 0)
			at = (at + 1) & (size - 1);
		edges[at] = t->edges[i];
	}
	free(t->edges);
	t->edges = edges;
	t->edge_mask = size - 1;
	return 0;
}

static int trie_grow_nodes(struct trie *t)
{
	size_t room = 2 * t->node_room;
	struct matcher_node *nodes = realloc(t->nodes, room * sizeof(*nodes));
	if (nodes == NULL)
		return -ENOMEM;
	t->nodes = nodes;
	t->node_room = room;
	return 0;
}

static int trie_init(struct trie *t)
{
	*t = (struct trie){.edge_mask = 15, .node_count = 1, .node_room = 16};
	t->edges = calloc(t->edge_mask + 1, sizeof(*t->edges));
	t->nodes = calloc(t->node_room, sizeof(*t->nodes));
	return t->edges == NULL || t->nodes == NULL ? -ENOMEM : 0;
}

static void trie_fini(struct trie *t)
{
	free(t->edges);
	free(t->nodes);
}

/** The node of a name, made where it is missing. @above: so are those on the way to it, and it. */
static int trie_add(struct trie *t, struct slice name, bool above, uint32_t *ret_node)
{
	struct slice rest = name;
	struct slice label;
	uint32_t label_hash;
	uint32_t node = 0;
	while (take_label(&rest, &label, &label_hash)) {
		if ((2 * t->node_count > t->edge_mask && trie_grow_edges(t) < 0) ||
			(t->node_count == t->node_room && trie_grow_nodes(t) < 0))
			return -ENOMEM;
		uint32_t hash = edge_hash(label_hash, node);
		struct matcher_edge *e =
			&t->edges[find_edge(t->edges, t->edge_mask, node, label, hash)];
		if (e->child == 0) {
			t->nodes[t->node_count] = (struct matcher_node){0};
			*e = (struct matcher_edge){label.ptr, hash, (uint32_t)label.len, node,
				(uint32_t)t->node_count++};
		}
		node = e->child;
		t->nodes[node].above |= above;
	}
	*ret_node = node;
	return 0;
}

/** Move the trie to its last place. */
static int trie_settle(const struct trie *t, struct matcher *m, struct arena *arena)
{
	size_t edge_bytes = (t->edge_mask + 1) * sizeof(*t->edges);
	size_t node_bytes = t->node_count * sizeof(*t->nodes);
	m->edges = arena_alloc(arena, 1, edge_bytes);
	m->nodes = arena_alloc(arena, 1, node_bytes);
	if (m->edges == NULL || m->nodes == NULL)
		return -ENOMEM;
	memcpy(m->edges, t->edges, edge_bytes);
	memcpy(m->nodes, t->nodes, node_bytes);
	m->edge_mask = t->edge_mask;
	m->bytes += edge_bytes + node_bytes;
	return 0;
}

static bool span_allows(const struct matcher *m, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		if (span_head(m, i)->rule.allow)
			return true;
	}
	return false;
}

/** What is above a name: below it there is something that has no rule itself. */
static struct slice parent_of(struct slice name)
{
	struct slice label, parent;
	return slice_split(name, '.', &label, &parent) ? parent : (struct slice){name.ptr, 0};
}

/** The groups of one name, [first, end). */
static int trie_add_span(struct trie *t, const struct matcher *m, size_t first, size_t end)
{
	const struct rule_entry *head = span_head(m, first);
	bool above = span_allows(m, first, end);
	uint32_t node;
	if (!in_trie(head))
		return above && head->kind == PATTERN_EXACT
			? trie_add(t, parent_of(head->name), true, &node)
			: 0;
	int r = trie_add(t, head->name, above, &node);
	if (r < 0)
		return r;
	t->nodes[node].first = (uint32_t)first;
	t->nodes[node].count = (uint32_t)(end - first);
	return 0;
}

static int build_trie(struct matcher *m, struct arena *arena, size_t group_count)
{
	struct trie t;
	int r = trie_init(&t);
	for (size_t i = 0, end; i < group_count && r == 0; i = end) {
		end = matcher_span_end(m, i, group_count);
		r = trie_add_span(&t, m, i, end);
	}
	if (r == 0)
		r = trie_settle(&t, m, arena);
	trie_fini(&t);
	return r;
}

int matcher_build(
	struct matcher *m, struct arena *arena, const struct rule_entry **rules, size_t rule_count)
{
	*m = (struct matcher){.rules = rules};
	if (rule_count > 1)
		qsort(rules, rule_count, sizeof(rules[0]), compare_rules);
	size_t group_count = split_groups(rules, rule_count, NULL);
	m->groups = arena_alloc(arena, group_count, sizeof(*m->groups));
	if (m->groups == NULL)
		return -ENOMEM;
	(void)split_groups(rules, rule_count, m->groups);
	m->bytes = group_count * sizeof(*m->groups) + rule_count * sizeof(rules[0]);
	int r = build_exact(m, arena, group_count);
	if (r == 0)
		r = build_trie(m, arena, group_count);
	if (r == 0)
		r = matcher_prefixes_build(m, arena, group_count);
	return r == 0 ? matcher_paths_build(m, arena, group_count) : r;
}

static const struct matcher_exact *find_exact(const struct matcher *m, struct slice name)
{
	uint32_t hash = hash_name(name);
	for (size_t at = hash & m->exact_mask; m->exact[at].count > 0;
		at = (at + 1) & m->exact_mask) {
		const struct matcher_exact *e = &m->exact[at];
		if (e->hash == hash && e->name_len == name.len &&
			memcmp(e->name, name.ptr, name.len) == 0)
			return e;
	}
	return NULL;
}

static uint32_t count_labels(struct slice name)
{
	uint32_t count = name.len > 0;
	for (size_t i = 0; i < name.len; i++)
		count += name.ptr[i] == '.';
	return count;
}

bool matcher_has_below(const struct matcher *m, struct slice name)
{
	struct slice label;
	uint32_t hash;
	uint32_t node = 0;
	while (take_label(&name, &label, &hash)) {
		hash = edge_hash(hash, node);
		node = m->edges[find_edge(m->edges, m->edge_mask, node, label, hash)].child;
		if (node == 0)
			return false;
	}
	return m->nodes[node].above;
}

static size_t find_name(const struct matcher *m, struct slice name,
	struct matcher_span ret_spans[static MATCHER_SPANS_MAX])
{
	uint32_t labels_before = count_labels(name);
	struct slice rest = name;
	struct slice label;
	uint32_t hash;
	uint32_t node = 0;
	size_t count = 0;
	if (m->nodes[0].count > 0)
		ret_spans[count++] =
			(struct matcher_span){m->nodes[0].first, m->nodes[0].count, labels_before};
	while (count < MATCHER_LABELS_MAX + 1 && take_label(&rest, &label, &hash)) {
		hash = edge_hash(hash, node);
		node = m->edges[find_edge(m->edges, m->edge_mask, node, label, hash)].child;
		if (node == 0)
			break;
		labels_before--;
		const struct matcher_node *n = &m->nodes[node];
		if (n->count > 0)
			ret_spans[count++] =
				(struct matcher_span){n->first, n->count, labels_before};
	}
	const struct matcher_exact *e = find_exact(m, name);
	if (e != NULL)
		ret_spans[count++] = (struct matcher_span){e->first, e->count, 0};
	return count;
}

size_t matcher_find(const struct matcher *m, const struct host *host,
	struct matcher_span ret_spans[static MATCHER_SPANS_MAX])
{
	struct cidr whole = {host->address, host->address.family == 4 ? 32 : 128};
	return host->kind == HOST_ADDRESS ? matcher_prefixes_find(m, &whole, ret_spans)
					  : find_name(m, slice_of(host->name), ret_spans);
}

size_t matcher_find_rule(const struct matcher *m, const struct rule_entry *r,
	struct matcher_span ret_spans[static MATCHER_SPANS_MAX])
{
	return r->kind == PATTERN_ADDRESS ? matcher_prefixes_find(m, &r->prefix, ret_spans)
					  : find_name(m, r->name, ret_spans);
}
