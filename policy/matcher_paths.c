/*
 * The index over the paths of a group: which rules have a pattern that starts with the same whole literal
 * segments as a path. It only leaves out rules that cannot match. See matcher.h.
 */
#include "policy/matcher_table.h"

#include <errno.h>
#include <stdlib.h>

#define INDEXED_FROM 9  /* rules of a group; for fewer, asking each is cheaper */
#define DEPTH_MAX    63 /* literal segments that count */

/** A pattern of a rule, by its literal start. */
struct path_entry {
	uint32_t hash;
	uint32_t rule;
};

/** Hash and number of the whole literal segments that a pattern starts with. */
static uint32_t literal_start(struct slice pattern, unsigned *ret_depth)
{
	uint32_t running = MATCHER_HASH_START;
	uint32_t hash = running;
	unsigned depth = 0;
	for (size_t i = 0; i <= pattern.len && depth < DEPTH_MAX; i++) {
		if (i == pattern.len || (i > 0 && pattern.ptr[i] == '/')) {
			hash = running;
			depth++;
		}
		if (i < pattern.len && pattern.ptr[i] == '*')
			break;
		if (i < pattern.len)
			running = matcher_hash_step(running, pattern.ptr[i]);
	}
	*ret_depth = depth;
	return matcher_hash_end(hash + depth);
}

static int compare_entries(const void *a, const void *b)
{
	const struct path_entry *left = a;
	const struct path_entry *right = b;
	if (left->hash != right->hash)
		return left->hash < right->hash ? -1 : 1;
	return (left->rule > right->rule) - (left->rule < right->rule);
}

static size_t count_entries(const struct matcher *m, const struct matcher_group *g)
{
	size_t count = 0;
	for (uint32_t i = g->first; i < g->first + g->count; i++)
		count += m->rules[i]->path_count > 0 ? m->rules[i]->path_count : 1;
	return count;
}

static size_t list_entries(const struct matcher *m, const struct matcher_group *g,
	struct path_entry *to, uint64_t *ret_depths)
{
	size_t count = 0;
	unsigned depth;
	*ret_depths = 0;
	for (uint32_t i = g->first; i < g->first + g->count; i++) {
		const struct rule_entry *r = m->rules[i];
		for (size_t p = 0; p < r->path_count; p++) {
			to[count++] = (struct path_entry){literal_start(r->paths[p], &depth), i};
			*ret_depths |= UINT64_C(1) << depth;
		}
		if (r->path_count > 0)
			continue;
		to[count++] = (struct path_entry){literal_start(SLICE("*"), &depth), i};
		*ret_depths |= UINT64_C(1) << depth;
	}
	qsort(to, count, sizeof(*to), compare_entries);
	return count;
}

static void slot_add(
	struct matcher_paths *x, const struct path_entry *entries, size_t first, size_t count)
{
	uint32_t at = entries[first].hash & x->mask;
	while (x->slots[at].count > 0)
		at = (at + 1) & x->mask;
	x->slots[at] =
		(struct matcher_path_slot){entries[first].hash, (uint32_t)first, (uint32_t)count};
}

static int index_fill(struct matcher *m, struct arena *arena, struct matcher_paths *x,
	const struct path_entry *entries, size_t count)
{
	size_t size = 2;
	while (size < 2 * count)
		size *= 2;
	x->mask = (uint32_t)(size - 1);
	x->slots = arena_alloc(arena, size, sizeof(*x->slots));
	x->rules = arena_alloc(arena, count, sizeof(*x->rules));
	if (x->slots == NULL || x->rules == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		x->rules[i] = entries[i].rule;
	for (size_t first = 0, i = 1; i <= count; i++) {
		if (i < count && entries[i].hash == entries[first].hash)
			continue;
		slot_add(x, entries, first, i - first);
		first = i;
	}
	m->bytes += sizeof(*x) + size * sizeof(*x->slots) + count * sizeof(*x->rules);
	return 0;
}

static int index_build(struct matcher *m, struct arena *arena, const struct matcher_group *g,
	struct matcher_paths *x)
{
	struct path_entry *entries = calloc(count_entries(m, g), sizeof(*entries));
	if (entries == NULL)
		return -ENOMEM;
	size_t count = list_entries(m, g, entries, &x->depths);
	int r = index_fill(m, arena, x, entries, count);
	free(entries);
	return r;
}

int matcher_paths_build(struct matcher *m, struct arena *arena, size_t group_count)
{
	size_t count = 0;
	for (size_t i = 0; i < group_count; i++) {
		if (m->groups[i].count >= INDEXED_FROM)
			m->groups[i].index = (uint32_t)count++;
	}
	m->indexes = arena_alloc(arena, count, sizeof(*m->indexes));
	if (m->indexes == NULL)
		return -ENOMEM;
	int r = 0;
	for (size_t i = 0; i < group_count && r == 0; i++) {
		if (m->groups[i].index != MATCHER_NO_INDEX)
			r = index_build(m, arena, &m->groups[i], &m->indexes[m->groups[i].index]);
	}
	return r;
}

struct candidates {
	const struct matcher *m;
	const struct matcher_paths *x;
	matcher_visit *visit;
	void *arg;
};

static void visit_start(const struct candidates *c, uint32_t hash, unsigned depth)
{
	if ((c->x->depths >> depth & 1) == 0)
		return;
	hash = matcher_hash_end(hash + depth);
	uint32_t at = hash & c->x->mask;
	while (c->x->slots[at].count > 0 && c->x->slots[at].hash != hash)
		at = (at + 1) & c->x->mask;
	const struct matcher_path_slot *slot = &c->x->slots[at];
	for (uint32_t i = slot->first; i < slot->first + slot->count; i++)
		c->visit(c->arg, c->m->rules[c->x->rules[i]]);
}

void matcher_candidates(const struct matcher *m, const struct matcher_group *g, struct slice path,
	matcher_visit *visit, void *arg)
{
	if (g->index == MATCHER_NO_INDEX) {
		for (uint32_t i = g->first; i < g->first + g->count; i++)
			visit(arg, m->rules[i]);
		return;
	}
	struct candidates c = {m, &m->indexes[g->index], visit, arg};
	uint32_t hash = MATCHER_HASH_START;
	unsigned depth = 0;
	visit_start(&c, hash, depth);
	for (size_t i = 0; i <= path.len && depth < DEPTH_MAX; i++) {
		if (i == path.len || (i > 0 && path.ptr[i] == '/'))
			visit_start(&c, hash, ++depth);
		if (i < path.len)
			hash = matcher_hash_step(hash, path.ptr[i]);
	}
}
