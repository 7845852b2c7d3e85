/* The index over ip: targets: a hash of prefixes, asked once for each length that a rule has. See matcher.h. */
#include "policy/matcher_table.h"

#include <errno.h>

static uint32_t hash_prefix(const struct cidr *c)
{
	uint32_t hash = MATCHER_HASH_START;
	size_t len = c->base.family == 4 ? 4 : 16;
	for (size_t i = 0; i < len; i++)
		hash = matcher_hash_step(hash, (char)c->base.bytes[i]);
	return matcher_hash_end(hash ^ c->bits * UINT32_C(0x9e3779b1));
}

static bool prefix_equal(const struct cidr *a, const struct cidr *b)
{
	return a->bits == b->bits && address_equal(&a->base, &b->base);
}

/** The first @bits of an address. */
static struct cidr cut(const struct address *a, uint8_t bits)
{
	struct cidr c = {.base = {.family = a->family}, .bits = bits};
	memcpy(c.base.bytes, a->bytes, bits / 8);
	if (bits % 8 != 0)
		c.base.bytes[bits / 8] = (uint8_t)(a->bytes[bits / 8] & 0xff << (8 - bits % 8));
	return c;
}

static void note_bits(struct matcher *m, const struct cidr *c)
{
	size_t six = c->base.family == 6;
	uint8_t *list = m->bits[six];
	size_t at = 0;
	while (at < m->bits_count[six] && list[at] < c->bits)
		at++;
	if (at < m->bits_count[six] && list[at] == c->bits)
		return;
	memmove(list + at + 1, list + at, m->bits_count[six] - at);
	list[at] = c->bits;
	m->bits_count[six]++;
}

int matcher_prefixes_build(struct matcher *m, struct arena *arena, size_t group_count)
{
	size_t count = 0;
	size_t size = 1;
	for (size_t i = 0; i < group_count; i = matcher_span_end(m, i, group_count))
		count += m->rules[m->groups[i].first]->kind == PATTERN_ADDRESS;
	while (size < 2 * count)
		size *= 2;
	m->prefixes = arena_alloc(arena, size, sizeof(*m->prefixes));
	if (m->prefixes == NULL)
		return -ENOMEM;
	m->prefix_mask = size - 1;
	m->bytes += size * sizeof(*m->prefixes);
	for (size_t i = 0, end; i < group_count; i = end) {
		const struct rule_entry *head = m->rules[m->groups[i].first];
		end = matcher_span_end(m, i, group_count);
		if (head->kind != PATTERN_ADDRESS)
			continue;
		uint32_t hash = hash_prefix(&head->prefix);
		size_t at = hash & m->prefix_mask;
		while (m->prefixes[at].count > 0)
			at = (at + 1) & m->prefix_mask;
		m->prefixes[at] = (struct matcher_prefix){
			head->prefix, hash, (uint32_t)i, (uint32_t)(end - i)};
		note_bits(m, &head->prefix);
	}
	return 0;
}

static const struct matcher_prefix *find(const struct matcher *m, const struct cidr *c)
{
	uint32_t hash = hash_prefix(c);
	for (size_t at = hash & m->prefix_mask; m->prefixes[at].count > 0;
		at = (at + 1) & m->prefix_mask) {
		const struct matcher_prefix *p = &m->prefixes[at];
		if (p->hash == hash && prefix_equal(&p->prefix, c))
			return p;
	}
	return NULL;
}

size_t matcher_prefixes_find(const struct matcher *m, const struct cidr *prefix,
	struct matcher_span ret_spans[static MATCHER_SPANS_MAX])
{
	size_t count = 0;
	size_t six = prefix->base.family == 6;
	for (size_t i = 0; i < m->bits_count[six] && m->bits[six][i] <= prefix->bits; i++) {
		struct cidr c = cut(&prefix->base, m->bits[six][i]);
		const struct matcher_prefix *p = find(m, &c);
		if (p != NULL)
			ret_spans[count++] = (struct matcher_span){p->first, p->count, 0};
	}
	return count;
}
