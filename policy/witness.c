/* See witness.h. Input: checked patterns. */
#include "policy/witness.h"

#include "policy/target.h"

#include <errno.h>

/** What stands for "any name": in no pattern that people write. */
#define FILLER "any~"

/** A bounded text. Too long a one is given up. */
struct text {
	char bytes[2 * PATTERN_PATH_BYTES_MAX];
	size_t len;
	bool full;
};

static void put(struct text *t, struct slice s)
{
	if (s.len > sizeof(t->bytes) - t->len) {
		t->full = true;
		return;
	}
	if (s.len > 0)
		memcpy(t->bytes + t->len, s.ptr, s.len);
	t->len += s.len;
}

static bool is_any(struct slice segment)
{
	return slice_equal(segment, SLICE("*"));
}

static bool is_rest(struct slice segment)
{
	return slice_equal(segment, SLICE("**"));
}

/** @a with its first wildcard replaced by the literal bytes of @b, if both match that. */
static bool merge_partial(struct slice a, struct slice b, struct text *to)
{
	struct text merged = {.len = 0};
	size_t star = (size_t)slice_find(a, '*');
	put(&merged, slice_part(a, 0, star));
	for (size_t i = 0; i < b.len; i++) {
		if (b.ptr[i] != '*')
			put(&merged, slice_part(b, i, i + 1));
	}
	for (size_t i = star + 1; i < a.len; i++) {
		if (a.ptr[i] != '*')
			put(&merged, slice_part(a, i, i + 1));
	}
	struct slice text = {merged.bytes, merged.len};
	if (merged.full || !pattern_match_path(a, text) || !pattern_match_path(b, text))
		return false;
	put(to, text);
	return true;
}

/** Append a pattern that matches only what both segments match. */
static bool intersect_segment(struct slice a, struct slice b, struct text *to)
{
	bool a_literal = slice_find(a, '*') < 0;
	bool b_literal = slice_find(b, '*') < 0;
	if (a_literal || b_literal) {
		put(to, a_literal ? a : b);
		return a_literal ? pattern_match_path(b, a) : pattern_match_path(a, b);
	}
	if (is_any(a) || is_any(b) || slice_equal(a, b)) {
		put(to, is_any(a) ? b : a);
		return true;
	}
	return merge_partial(a, b, to) || merge_partial(b, a, to);
}

/** @to: a pattern of what both match. False: there is none, or none was found. */
static bool intersect(struct slice a, struct slice b, struct text *to)
{
	for (;;) {
		struct slice a_head = a;
		struct slice b_head = b;
		struct slice a_rest;
		struct slice b_rest;
		bool a_more = slice_split(a, '/', &a_head, &a_rest);
		bool b_more = slice_split(b, '/', &b_head, &b_rest);
		if ((!a_more && is_rest(a_head)) || (!b_more && is_rest(b_head))) {
			put(to, !a_more && is_rest(a_head) ? b : a);
			return !to->full;
		}
		if (a_more != b_more || !intersect_segment(a_head, b_head, to))
			return false;
		if (!a_more)
			return !to->full;
		put(to, SLICE("/"));
		a = a_rest;
		b = b_rest;
	}
}

/** Patterns so far, closed under intersection in the end. */
struct closure {
	struct slice patterns[WITNESS_PATTERNS_MAX];
	size_t count;
	bool full;
	struct arena *arena;
};

static void add_pattern(struct closure *c, struct slice pattern)
{
	for (size_t i = 0; i < c->count; i++) {
		if (slice_equal(c->patterns[i], pattern))
			return;
	}
	if (c->count == WITNESS_PATTERNS_MAX) {
		c->full = true;
		return;
	}
	char *copy = arena_dup(c->arena, pattern); /* the arena's failure is sticky */
	if (copy != NULL)
		c->patterns[c->count++] = (struct slice){copy, pattern.len};
}

static void close_patterns(struct closure *c)
{
	for (size_t i = 1; i < c->count && !c->full; i++) {
		for (size_t j = 0; j < i; j++) {
			struct text both = {.len = 0};
			if (intersect(c->patterns[i], c->patterns[j], &both))
				add_pattern(c, (struct slice){both.bytes, both.len});
		}
	}
}

/** The pattern with @filler for each '*' and @rest for a last "**"; kept if a request can have it. */
static void instantiate(struct closure *c, struct slice pattern, struct slice filler,
	struct slice rest, struct witness_paths *to)
{
	struct text text = {.len = 0};
	struct target target;
	bool has_rest = slice_ends(pattern, SLICE("/**"));
	size_t len = pattern.len - (has_rest ? 2 : 0);
	for (size_t i = 0; i < len; i++)
		put(&text, pattern.ptr[i] == '*' ? filler : slice_part(pattern, i, i + 1));
	if (has_rest)
		put(&text, rest);
	struct slice path = {text.bytes, text.len};
	if (text.full || target_normalise(path, &target) < 0 || !slice_equal(target.path, path))
		return;
	char *copy = arena_dup(c->arena, path);
	if (copy != NULL)
		to->paths[to->count++] = (struct slice){copy, path.len};
}

int witness_paths(const struct slice *patterns, size_t pattern_count, bool encoded,
	struct arena *arena, struct witness_paths *ret)
{
	static const struct slice rests[] = {
		{"", 0}, {FILLER, sizeof(FILLER) - 1}, {FILLER "/" FILLER, 2 * sizeof(FILLER) - 1}};
	struct slice plain = SLICE(FILLER);
	struct slice slashed = SLICE(FILLER "%2F" FILLER);
	struct closure c = {.arena = arena};
	for (size_t i = 0; i < pattern_count; i++)
		add_pattern(&c, patterns[i]);
	close_patterns(&c);
	struct witness_paths paths = {.complete = !c.full};
	paths.paths = arena_alloc(arena, 4 * c.count + 1, sizeof(*paths.paths));
	if (paths.paths == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < c.count; i++) {
		bool has_rest = slice_ends(c.patterns[i], SLICE("/**"));
		for (size_t r = 0; r < (has_rest ? 3 : 1); r++)
			instantiate(&c, c.patterns[i], plain, rests[r], &paths);
		if (encoded)
			instantiate(&c, c.patterns[i], slashed, slashed, &paths);
	}
	if (arena->failed)
		return -ENOMEM;
	*ret = paths;
	return 0;
}
