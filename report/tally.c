/* See tally.h. Rows in one array, found through open addressing by their hash. */
#include "report/tally.h"

#include "common/cleanup.h"

#define CAPACITY_MIN ((size_t)64)

/** Sums of what a log says stop at the end of the numbers. */
static uint64_t add_clamped(uint64_t a, uint64_t b)
{
	uint64_t sum;
	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static void text_free(struct tally_text *text)
{
	free(text->ptr);
	*text = (struct tally_text){0};
}

/** Cut between characters. */
static struct slice cut(struct slice text)
{
	size_t len = text.len < TALLY_TEXT_BYTES ? text.len : TALLY_TEXT_BYTES;
	while (len < text.len && len > 0 && ((unsigned char)text.ptr[len] & 0xc0) == 0x80)
		len--;
	return slice_part(text, 0, len);
}

/** @return 0 or -ENOMEM, then it is as before. */
static int text_set(struct tally_text *to, struct slice text)
{
	struct slice from = cut(text);
	if (to->ptr != NULL && slice_equal(tally_slice(to), from))
		return 0;
	char *copy = slice_dup(from);
	if (copy == NULL)
		return -ENOMEM;
	free(to->ptr);
	*to = (struct tally_text){copy, from.len};
	return 0;
}

static void row_fini(struct tally_row *row)
{
	for (size_t i = 0; i < TALLY_PARTS_MAX; i++)
		text_free(&row->parts[i]);
	for (size_t i = 0; i < TALLY_NOTES; i++)
		text_free(&row->notes[i]);
}

static uint64_t hash_of(const struct tally_add *what)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
	for (size_t i = 0; i < TALLY_PARTS_MAX; i++) {
		struct slice part = cut(what->parts[i]);
		for (size_t k = 0; k < part.len; k++)
			hash = (hash ^ (unsigned char)part.ptr[k]) * UINT64_C(0x100000001b3);
		hash = (hash ^ 0xff) * UINT64_C(0x100000001b3);
	}
	return hash ^ hash >> 32;
}

static bool row_is(const struct tally_row *row, const struct tally_add *what)
{
	for (size_t i = 0; i < TALLY_PARTS_MAX; i++) {
		if (!slice_equal(tally_slice(&row->parts[i]), cut(what->parts[i])))
			return false;
	}
	return true;
}

uint64_t tally_events(const struct tally_row *row)
{
	return add_clamped(row->counts[TALLY_ALLOWED], row->counts[TALLY_DENIED]);
}

/** Bytes that moved count as much as events do: a single request may have taken out a lot. */
static uint64_t weight(const struct tally_row *row)
{
	uint64_t bytes = add_clamped(row->counts[TALLY_OUT], row->counts[TALLY_IN]);
	return add_clamped(tally_events(row), bytes >> 10);
}

/** The heaviest first; among equals the one that came last, and then by name. */
static int by_weight(const void *left, const void *right)
{
	const struct tally_row *a = left, *b = right;
	if (weight(a) != weight(b))
		return weight(a) < weight(b) ? 1 : -1;
	if (a->last_ms != b->last_ms)
		return a->last_ms < b->last_ms ? 1 : -1;
	for (size_t i = 0; i < TALLY_PARTS_MAX; i++) {
		int order = strcmp(a->parts[i].ptr, b->parts[i].ptr);
		if (order != 0)
			return order;
	}
	return 0;
}

static void merge(struct tally_row *to, const struct tally_row *from)
{
	for (size_t i = 0; i < TALLY_COUNTS; i++)
		to->counts[i] = add_clamped(to->counts[i], from->counts[i]);
	if (to->last_ms == 0 || from->first_ms < to->first_ms)
		to->first_ms = from->first_ms;
	if (from->last_ms > to->last_ms)
		to->last_ms = from->last_ms;
}

static void keep_heaviest(struct tally *t, size_t keep)
{
	if (t->count > 0)
		qsort(t->rows, t->count, sizeof(*t->rows), by_weight);
	for (size_t i = keep; i < t->count; i++) {
		merge(&t->others, &t->rows[i]);
		t->given_up++;
		row_fini(&t->rows[i]);
	}
	t->count = t->count < keep ? t->count : keep;
}

/** Where this key is, or the free place for it. */
static uint32_t *slot_of(const struct tally *t, const struct tally_add *what, uint64_t hash)
{
	for (size_t at = hash;; at++) {
		uint32_t *slot = &t->slots[at & (t->slot_count - 1)];
		if (*slot == 0)
			return slot;
		const struct tally_row *row = &t->rows[*slot - 1];
		if (row->hash == hash && row_is(row, what))
			return slot;
	}
}

/** All rows into an empty index. */
static void reindex(struct tally *t)
{
	memset(t->slots, 0, t->slot_count * sizeof(*t->slots));
	for (size_t i = 0; i < t->count; i++) {
		size_t at = t->rows[i].hash;
		while (t->slots[at & (t->slot_count - 1)] != 0)
			at++;
		t->slots[at & (t->slot_count - 1)] = (uint32_t)i + 1;
	}
}

/** Room for one more row: more memory, or up to the limit what the lightest have. */
static int make_room(struct tally *t)
{
	if (t->count == t->limit) {
		keep_heaviest(t, t->limit / 2);
		reindex(t);
		return 0;
	}
	if (t->count < t->capacity)
		return 0;
	size_t capacity = t->capacity == 0 ? CAPACITY_MIN : 2 * t->capacity;
	struct tally_row *rows = reallocarray(t->rows, capacity, sizeof(*rows));
	if (rows == NULL)
		return -ENOMEM;
	t->rows = rows;
	uint32_t *slots = calloc(2 * capacity, sizeof(*slots));
	if (slots == NULL)
		return -ENOMEM;
	free(t->slots);
	t->slots = slots;
	t->slot_count = 2 * capacity;
	t->capacity = capacity;
	reindex(t);
	return 0;
}

static int row_init(struct tally_row *row, const struct tally_add *what, uint64_t hash)
{
	int r = 0;
	*row = (struct tally_row){.hash = hash, .first_ms = what->time_ms};
	for (size_t i = 0; i < TALLY_PARTS_MAX && r == 0; i++)
		r = text_set(&row->parts[i], what->parts[i]);
	if (r < 0)
		row_fini(row);
	return r;
}

static int row_of(struct tally *t, const struct tally_add *what, struct tally_row **ret)
{
	uint64_t hash = hash_of(what);
	uint32_t *slot = t->slots == NULL ? NULL : slot_of(t, what, hash);
	if (slot == NULL || *slot == 0) {
		int r = make_room(t);
		if (r == 0)
			r = row_init(&t->rows[t->count], what, hash);
		if (r < 0)
			return r;
		slot = slot_of(t, what, hash);
		*slot = (uint32_t)++t->count;
	}
	*ret = &t->rows[*slot - 1];
	return 0;
}

int tally_add(struct tally *t, const struct tally_add *what)
{
	struct tally_row *row;
	int r = row_of(t, what, &row);
	if (r < 0)
		return r;
	struct tally_row add = {.first_ms = what->time_ms, .last_ms = what->time_ms};
	memcpy(add.counts, what->counts, sizeof(add.counts));
	merge(row, &add);
	for (size_t i = 0; i < TALLY_NOTES && r == 0; i++) {
		if (what->notes[i].len > 0)
			r = text_set(&row->notes[i], what->notes[i]);
	}
	return r;
}

static int by_number(
	const struct tally_row *a, const struct tally_row *b, uint64_t of_a, uint64_t of_b)
{
	if (of_a != of_b)
		return of_a < of_b ? 1 : -1;
	return by_weight(a, b);
}

static int by_events(const void *left, const void *right)
{
	const struct tally_row *a = left, *b = right;
	return by_number(a, b, tally_events(a), tally_events(b));
}

static int by_out(const void *left, const void *right)
{
	const struct tally_row *a = left, *b = right;
	return by_number(a, b, a->counts[TALLY_OUT], b->counts[TALLY_OUT]);
}

static int by_last(const void *left, const void *right)
{
	const struct tally_row *a = left, *b = right;
	return by_number(a, b, a->last_ms, b->last_ms);
}

void tally_close(struct tally *t, size_t keep, enum tally_order order)
{
	static int (*const orders[])(const void *, const void *) = {
		[TALLY_BY_EVENTS] = by_events, [TALLY_BY_OUT] = by_out, [TALLY_BY_LAST] = by_last};
	keep_heaviest(t, keep);
	if (t->count > 0)
		qsort(t->rows, t->count, sizeof(*t->rows), orders[order]);
	free(ptr_take(t->slots));
}

void tally_fini(struct tally *t)
{
	for (size_t i = 0; i < t->count; i++)
		row_fini(&t->rows[i]);
	free(t->rows);
	free(t->slots);
	*t = (struct tally){.limit = t->limit};
}
