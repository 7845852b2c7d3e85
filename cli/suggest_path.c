/* See suggest_path.h. One level of segments after the other; siblings are what has the same pattern so far. */
#include "cli/suggest_path.h"

#include "common/buf.h"
#include "common/cleanup.h"
#include "policy/pattern.h"

/** What a segment can be one of many of, in the order in which it is asked. */
enum variety {
	VARIETY_UUID,
	VARIETY_HEX, /* of one length */
	VARIETY_NUMBER,
	VARIETY_VERSION,
	VARIETY_IDENTIFIER,
	VARIETY_RELEASE, /* a name and a version: all but the name varies */
	VARIETY_COUNT
};

struct item {
	const struct suggest_path *path;
	struct slice rest; /* segments not looked at yet, without a slash in front */
	struct slice segment;
	bool more;   /* segments after this one */
	bool chosen; /* @keep and @star are the segment's pattern */
	bool star;   /* it ends in '*', after @keep bytes of the segment */
	size_t keep;
	size_t key; /* of its variety: the length of HEX, the name's of RELEASE */
	struct buf pattern;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
	return is_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'f');
}

static bool is_alphanumeric(char c)
{
	return is_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z');
}

static size_t count_of(struct slice text, bool is(char))
{
	size_t count = 0;
	for (size_t i = 0; i < text.len; i++)
		count += is(text.ptr[i]);
	return count;
}

static bool is_uuid(struct slice s)
{
	static const uint8_t dashes[] = {8, 13, 18, 23};
	if (s.len != 36 || count_of(s, is_hex) != 32)
		return false;
	for (size_t i = 0; i < array_size(dashes); i++) {
		if (s.ptr[dashes[i]] != '-')
			return false;
	}
	return true;
}

/** "1.0", "v2.31.0rc1", and whatever follows. */
static bool starts_version(struct slice s)
{
	size_t at = s.len > 0 && ascii_lower(s.ptr[0]) == 'v' ? 1 : 0;
	size_t from = at;
	while (at < s.len && is_digit(s.ptr[at]))
		at++;
	return at > from && at + 1 < s.len && s.ptr[at] == '.' && is_digit(s.ptr[at + 1]);
}

/** A mixture of letters and digits that is no word: a third of it digits. */
static bool is_identifier(struct slice s)
{
	size_t digits = count_of(s, is_digit);
	size_t known = count_of(s, is_alphanumeric);
	for (size_t i = 0; i < s.len; i++)
		known += s.ptr[i] == '-' || s.ptr[i] == '_';
	return s.len >= 8 && known == s.len && 3 * digits >= s.len;
}

/** Length of "name-" in "name-1.0.tar.gz"; 0: it has no version. */
static size_t release_name(struct slice s)
{
	for (size_t i = 1; i < s.len; i++) {
		bool mark = s.ptr[i - 1] == '-' || s.ptr[i - 1] == '_';
		if (i > 1 && mark && starts_version(slice_part(s, i, s.len)))
			return i;
	}
	return 0;
}

static bool has_variety(const struct item *i, enum variety v, size_t *ret_key)
{
	struct slice s = i->segment;
	*ret_key = 0;
	switch (v) {
	case VARIETY_UUID:
		return is_uuid(s);
	case VARIETY_HEX:
		*ret_key = s.len;
		return s.len >= 2 && count_of(s, is_hex) == s.len;
	case VARIETY_NUMBER:
		return s.len > 0 && count_of(s, is_digit) == s.len;
	case VARIETY_VERSION:
		return starts_version(s);
	case VARIETY_IDENTIFIER:
		return is_identifier(s);
	case VARIETY_RELEASE:
		*ret_key = release_name(s);
		return *ret_key > 0;
	case VARIETY_COUNT:
		break;
	}
	return false;
}

static int compare_slices(struct slice a, struct slice b)
{
	size_t shorter = a.len < b.len ? a.len : b.len;
	int order = shorter == 0 ? 0 : memcmp(a.ptr, b.ptr, shorter);
	return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/** Those that have a pattern last; then by key and text, so that a name's releases stand together. */
static int by_key(const void *a, const void *b)
{
	const struct item *left = a;
	const struct item *right = b;
	if (left->chosen != right->chosen)
		return left->chosen - right->chosen;
	if (left->key != right->key)
		return (left->key > right->key) - (left->key < right->key);
	return compare_slices(left->segment, right->segment);
}

/** By what stands in the pattern; the ends of paths first. */
static int by_pattern(const void *a, const void *b)
{
	const struct item *left = a;
	const struct item *right = b;
	if (left->star != right->star)
		return left->star - right->star;
	int order = compare_slices(slice_part(left->segment, 0, left->keep),
		slice_part(right->segment, 0, right->keep));
	return order != 0 ? order : left->more - right->more;
}

static bool same_family(const struct item *a, const struct item *b, enum variety v)
{
	if (a->key != b->key || b->chosen)
		return false;
	return v != VARIETY_RELEASE ||
		slice_equal(slice_part(a->segment, 0, a->key), slice_part(b->segment, 0, b->key));
}

/** Whether the siblings [from, to) of one variety are so many that another one has to be expected. */
static bool shows_variety(const struct item *items, size_t from, size_t to, enum variety v)
{
	size_t distinct = 0;
	for (size_t i = from; i < to; i++) {
		bool again = i > from && slice_equal(items[i].segment, items[i - 1].segment);
		/* Words like "add" are hex, too. */
		bool counts = v != VARIETY_HEX || count_of(items[i].segment, is_digit) > 0;
		distinct += !again && counts;
	}
	return distinct >= SUGGEST_SIBLINGS;
}

/** @forced: some sibling is not known, so that '*' stands there anyway. */
static void choose_variety(struct item *items, size_t count, enum variety v, bool forced)
{
	for (size_t i = 0; i < count; i++) {
		if (!items[i].chosen && !has_variety(&items[i], v, &items[i].key))
			items[i].key = SIZE_MAX;
	}
	qsort(items, count, sizeof(*items), by_key);
	for (size_t from = 0, to; from < count; from = to) {
		to = from + 1;
		while (to < count && same_family(&items[from], &items[to], v))
			to++;
		if (items[from].chosen || items[from].key == SIZE_MAX)
			continue;
		bool whole = v != VARIETY_RELEASE;
		if (!(whole && forced) && !shows_variety(items, from, to, v))
			continue;
		for (size_t i = from; i < to; i++) {
			items[i].chosen = items[i].star = true;
			items[i].keep = whole ? 0 : items[i].key;
		}
	}
}

/** Whether this can stand in policy text, and means itself there. */
static bool is_plain(struct slice segment)
{
	for (size_t i = 0; i < segment.len; i++) {
		char c = segment.ptr[i];
		if (!is_alphanumeric(c) && memchr("-._~!$&'()+,;:@%=", c, 17) == NULL)
			return false;
	}
	return true;
}

/** Take the next segment of each off its rest. @return whether some segment is not known. */
static bool next_segments(struct item *items, size_t count)
{
	bool forced = false;
	for (size_t i = 0; i < count; i++) {
		struct item *item = &items[i];
		item->segment = item->rest;
		item->more = slice_split(item->rest, '/', &item->segment, &item->rest);
		item->chosen = item->star = !is_plain(item->segment);
		item->keep = item->star ? 0 : item->segment.len;
		forced |= item->chosen;
	}
	return forced;
}

static void append_piece(struct item *i)
{
	(void)buf_append(&i->pattern, SLICE("/")); /* errors are sticky */
	(void)buf_append(&i->pattern, slice_part(i->segment, 0, i->keep));
	if (i->star)
		(void)buf_append(&i->pattern, SLICE("*"));
}

/** Siblings: the same pattern so far. */
static void fold(struct item *items, size_t count, unsigned depth)
{
	bool forced = next_segments(items, count);
	for (unsigned v = 0; v < VARIETY_COUNT && depth < SUGGEST_DEPTH; v++)
		choose_variety(items, count, (enum variety)v, forced);
	qsort(items, count, sizeof(*items), by_pattern);
	for (size_t from = 0, to; from < count; from = to) {
		for (to = from; to < count && by_pattern(&items[from], &items[to]) == 0; to++)
			append_piece(&items[to]);
		if (items[from].more && depth < SUGGEST_DEPTH)
			fold(&items[from], to - from, depth + 1);
	}
}

/** What is left of a path that has more segments than are looked at. */
static void append_rest(struct item *i)
{
	while (i->more) {
		i->segment = i->rest;
		i->more = slice_split(i->rest, '/', &i->segment, &i->rest);
		i->star = !is_plain(i->segment);
		i->keep = i->star ? 0 : i->segment.len;
		append_piece(i);
	}
}

static int finish(struct item *i, struct arena *arena)
{
	size_t offset;
	append_rest(i);
	if (i->pattern.failed)
		return -ENOMEM;
	struct slice pattern = buf_slice(&i->pattern);
	*i->path->pattern_at = NULL;
	if (pattern_check_path(pattern, &offset) != NULL)
		return 0;
	*i->path->pattern_at = arena_dup(arena, pattern);
	return *i->path->pattern_at == NULL ? -ENOMEM : 0;
}

int suggest_paths(const struct suggest_path *paths, size_t count, struct arena *arena)
{
	auto_free struct item *items = calloc(count == 0 ? 1 : count, sizeof(*items));
	int r = 0;
	if (items == NULL)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		items[i].path = &paths[i];
		items[i].rest = slice_part(paths[i].path, 1, paths[i].path.len);
	}
	fold(items, count, 0);
	for (size_t i = 0; i < count; i++) {
		if (r == 0)
			r = finish(&items[i], arena);
		buf_fini(&items[i].pattern);
	}
	return r;
}
