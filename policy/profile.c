/* See profile.h. */
#include "policy/profile.h"

#include "policy/value.h"

#include "common/buf.h"

#include <errno.h>
#include <stdlib.h>

static int compare_rules(const void *a, const void *b)
{
	const struct rule_entry *left = *(const struct rule_entry *const *)a;
	const struct rule_entry *right = *(const struct rule_entry *const *)b;
	int order = value_compare_slices(&left->name, &right->name);
	if (order == 0)
		order = strcmp(left->place.file, right->place.file);
	if (order == 0)
		order = (left->place.line > right->place.line) -
			(left->place.line < right->place.line);
	return order;
}

static uint32_t hash_name(struct slice name)
{
	uint32_t hash = PROFILE_HASH_START;
	for (size_t i = name.len; i > 0; i--)
		hash = profile_hash_step(hash, name.ptr[i - 1]);
	return hash;
}

static void slot_add(struct profile *p, size_t first, size_t count)
{
	struct slice name = p->rules[first]->name;
	uint32_t hash = hash_name(name);
	size_t at = hash & p->slot_mask;
	while (p->slots[at].count > 0)
		at = (at + 1) & p->slot_mask;
	p->slots[at] = (struct profile_slot){name, hash, (uint32_t)first, (uint32_t)count};
}

int profile_build(
	struct profile *p, struct arena *arena, const struct rule_entry **rules, size_t rule_count)
{
	size_t slot_count = 4;
	while (slot_count < 2 * rule_count)
		slot_count *= 2;
	p->slots = arena_alloc(arena, slot_count, sizeof(*p->slots));
	if (p->slots == NULL)
		return -ENOMEM;
	p->slot_mask = slot_count - 1;
	p->rules = rules;
	p->rule_count = rule_count;
	if (rule_count > 1)
		qsort(rules, rule_count, sizeof(rules[0]), compare_rules);
	size_t first = 0;
	for (size_t i = 1; i <= rule_count; i++) {
		if (i < rule_count && slice_equal(rules[i]->name, rules[first]->name))
			continue;
		slot_add(p, first, i - first);
		first = i;
	}
	return 0;
}

const struct profile_slot *profile_find(const struct profile *p, struct slice name, uint32_t hash)
{
	for (size_t at = hash & p->slot_mask; p->slots[at].count > 0;
		at = (at + 1) & p->slot_mask) {
		const struct profile_slot *slot = &p->slots[at];
		if (slot->hash == hash && slice_equal(slot->name, name))
			return slot;
	}
	return NULL;
}

/** All that decides, in one spelling. Ids, owners, notes and places do not. */
static char *dump_rule(const struct rule_entry *r)
{
	static const char *const schemes[] = {
		[RULE_SCHEME_BY_PORT] = "by-port",
		[RULE_SCHEME_HTTP] = "http",
		[RULE_SCHEME_HTTPS] = "https",
		[RULE_SCHEME_ANY] = "any",
	};
	struct buf text = {.limit = 0};
	char address[ADDRESS_TEXT_BYTES];
	(void)buf_printf(&text,
		"%s %s %s scheme=%s query=%s enc-slash=%s req-body=%llu "
		"resp-body=%llu expires=%llu addr=",
		r->rule.allow ? "allow" : "deny", r->target, r->admits, schemes[r->scheme],
		r->rule.query_denied ? "deny" : "allow", r->rule.encoded_slash ? "literal" : "no",
		(unsigned long long)r->rule.req_body_bytes,
		(unsigned long long)r->rule.resp_body_bytes, (unsigned long long)r->expires_ms);
	for (size_t i = 0; i < r->rule.address_count; i++)
		(void)buf_printf(&text, "%s/%u,",
			address_format(&r->rule.addresses[i].base, address),
			r->rule.addresses[i].bits);
	(void)buf_append(&text, SLICE("\n"));
	char *copy = text.failed ? NULL : slice_dup(buf_slice(&text));
	buf_fini(&text);
	return copy;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int digest_lines(char **lines, size_t count, char ret_text[static DIGEST_TEXT_BYTES])
{
	struct digest *d = digest_new();
	int r = d == NULL ? -ENOMEM : 0;
	for (size_t i = 0; i < count && r == 0; i++) {
		if (i == 0 || strcmp(lines[i], lines[i - 1]) != 0)
			r = digest_update(d, slice_of(lines[i]));
	}
	if (r == 0)
		r = digest_finish(d, ret_text);
	digest_free(d);
	return r;
}

int profile_seal(struct profile *p)
{
	size_t count = 0;
	int r = 0;
	char **lines = calloc(p->rule_count + 1, sizeof(*lines));
	if (lines == NULL)
		return -ENOMEM;
	for (; count < p->rule_count && r == 0; count++) {
		lines[count] = dump_rule(p->rules[count]);
		r = lines[count] == NULL ? -ENOMEM : 0;
	}
	if (r == 0) {
		qsort(lines, count, sizeof(*lines), compare_lines);
		r = digest_lines(lines, count, p->digest);
	}
	for (size_t i = 0; i < count; i++)
		free(lines[i]);
	free(lines);
	return r;
}

const char *profile_name(const struct profile *p)
{
	return p->name;
}

const char *profile_digest(const struct profile *p)
{
	return p->digest;
}
