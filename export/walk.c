/* See walk.h. A bounded cursor with a sticky error over the grammar of RFC 8259; UTF-8 is not looked at. */
#include "export/walk.h"

#include <assert.h>

/** The walk so far. */
struct walk {
	const char *at, *end;
	bool broken;
	const struct walk_row *rows;
	size_t count;
	char *to;
	unsigned found;               /* bits of rows */
	struct slice parent;          /* the member at the top that is being walked */
	bool in_wanted;               /* some row is in it */
	char closing[WALK_DEPTH_MAX]; /* what ends each open object or array */
	size_t depth;
};

#define ONES  UINT64_C(0x0101010101010101)
#define HIGHS UINT64_C(0x8080808080808080)

/** Bytes of a string that mean themselves. */
static bool is_plain(unsigned char c)
{
	return c >= 0x20 && c != '"' && c != '\\';
}

/** Whether one of eight bytes is below @limit (at most 128): exact as a yes or no, and that is what most of the time goes into. */
static bool has_below(uint64_t eight, unsigned char limit)
{
	return ((eight - ONES * limit) & ~eight & HIGHS) != 0;
}

static const char *skip_plain(const char *at, const char *end)
{
	while (end - at >= 8) {
		uint64_t eight;
		memcpy(&eight, at, sizeof(eight));
		if (has_below(eight, 0x20) || has_below(eight ^ ONES * '"', 1) ||
			has_below(eight ^ ONES * '\\', 1))
			break;
		at += 8;
	}
	while (at < end && is_plain((unsigned char)*at))
		at++;
	return at;
}

static void skip_blanks(struct walk *w)
{
	while (w->at < w->end &&
		(*w->at == ' ' || *w->at == '\t' || *w->at == '\n' || *w->at == '\r'))
		w->at++;
}

static bool take(struct walk *w, char c)
{
	if (w->at == w->end || *w->at != c)
		return false;
	w->at++;
	return true;
}

/** Behind a backslash. */
static bool take_escape(struct walk *w)
{
	if (w->at == w->end)
		return false;
	char c = *w->at++;
	if (c != 'u')
		return c != '\0' && strchr("\"\\/bfnrt", c) != NULL;
	uint64_t ignored;
	if (w->end - w->at < 4 || slice_hex((struct slice){w->at, 4}, UINT16_MAX, &ignored) < 0)
		return false;
	w->at += 4;
	return true;
}

/** A string whose first quote is next. *ret: what stands between the quotes. */
static bool take_string(struct walk *w, struct slice *ret)
{
	if (!take(w, '"'))
		return false;
	const char *start = w->at;
	for (;;) {
		w->at = skip_plain(w->at, w->end);
		if (w->at == w->end)
			return false;
		if (*w->at == '"')
			break;
		if (*w->at++ != '\\' || !take_escape(w))
			return false;
	}
	*ret = (struct slice){start, (size_t)(w->at - start)};
	w->at++;
	return true;
}

static size_t take_digits(struct walk *w)
{
	const char *start = w->at;
	while (w->at < w->end && *w->at >= '0' && *w->at <= '9')
		w->at++;
	return (size_t)(w->at - start);
}

static bool take_number(struct walk *w)
{
	(void)take(w, '-'); /* may be there */
	const char *start = w->at;
	size_t digits = take_digits(w);
	if (digits == 0 || (digits > 1 && *start == '0'))
		return false;
	if (take(w, '.') && take_digits(w) == 0)
		return false;
	if (take(w, 'e') || take(w, 'E')) {
		if (!take(w, '+'))
			(void)take(w, '-'); /* may be there */
		return take_digits(w) > 0;
	}
	return true;
}

static bool take_word(struct walk *w, struct slice word)
{
	if (!slice_starts((struct slice){w->at, (size_t)(w->end - w->at)}, word))
		return false;
	w->at += word.len;
	return true;
}

/** A value of a member that may be one of the rows. */
static void pick(struct walk *w, struct slice name, enum walk_type type, struct slice value)
{
	for (size_t i = 0; i < w->count; i++) {
		const struct walk_row *row = &w->rows[i];
		if (row->type != type || name.len == 0 || *row->name != *name.ptr ||
			(w->found & 1U << i) != 0 || !slice_equal(name, slice_of(row->name)) ||
			!slice_equal(w->depth == 1 ? SLICE("") : w->parent, slice_of(row->parent)))
			continue;
		w->found |= 1U << i;
		uint64_t number;
		if (type == WALK_TEXT)
			memcpy(w->to + row->offset, &value, sizeof(value));
		else if (slice_decimal(value, UINT64_MAX, false, &number) == 0)
			memcpy(w->to + row->offset, &number, sizeof(number));
		return;
	}
}

/** A value that is no object and no array. */
static bool take_scalar(struct walk *w, struct slice name)
{
	/* Picked: members of the top, and of objects there; not elements of arrays. */
	bool wanted = name.ptr != NULL && (w->depth == 1 || (w->depth == 2 && w->in_wanted));
	const char *start = w->at;
	struct slice value;
	if (w->at == w->end)
		return false;
	if (*w->at == '"') {
		if (!take_string(w, &value))
			return false;
		if (wanted)
			pick(w, name, WALK_TEXT, value);
		return true;
	}
	if (*w->at == 't')
		return take_word(w, SLICE("true"));
	if (*w->at == 'f')
		return take_word(w, SLICE("false"));
	if (*w->at == 'n')
		return take_word(w, SLICE("null"));
	if (!take_number(w))
		return false;
	if (wanted)
		pick(w, name, WALK_NUMBER, (struct slice){start, (size_t)(w->at - start)});
	return true;
}

/** An object or array at the top. */
static void enter(struct walk *w, struct slice parent)
{
	w->parent = parent;
	w->in_wanted = false;
	for (size_t i = 0; i < w->count && !w->in_wanted; i++)
		w->in_wanted = parent.len > 0 && slice_equal(parent, slice_of(w->rows[i].parent));
}

/** The next value, with its name before it in an object. An object or array is only opened. */
static bool take_value(struct walk *w)
{
	struct slice name = {NULL, 0};
	skip_blanks(w);
	if (w->closing[w->depth - 1] == '}') {
		if (!take_string(w, &name))
			return false;
		skip_blanks(w);
		if (!take(w, ':'))
			return false;
		skip_blanks(w);
	}
	bool object = take(w, '{');
	if (!object && !take(w, '['))
		return take_scalar(w, name);
	if (w->depth == WALK_DEPTH_MAX)
		return false;
	if (w->depth == 1)
		enter(w, object ? name : SLICE("["));
	w->closing[w->depth++] = object ? '}' : ']';
	return true;
}

/** Close what ends here. @return whether a value must follow. */
static bool close_all(struct walk *w)
{
	while (w->depth > 0) {
		skip_blanks(w);
		if (!take(w, w->closing[w->depth - 1])) {
			w->broken = !take(w, ',');
			return !w->broken;
		}
		w->depth--;
	}
	return false;
}

bool walk_line(struct slice text, const struct walk_row *rows, size_t count, void *to)
{
	struct walk w = {
		.at = text.ptr, .end = text.ptr + text.len, .rows = rows, .count = count, .to = to};
	assert(count <= WALK_ROWS_MAX);
	if (text.len == 0)
		return false;
	skip_blanks(&w);
	if (!take(&w, '{'))
		return false;
	w.closing[w.depth++] = '}';
	bool opened = true; /* nothing stands in what was opened last */
	for (;;) {
		skip_blanks(&w);
		bool empty = opened && w.at < w.end && *w.at == w.closing[w.depth - 1];
		size_t before = w.depth;
		if (!empty && !take_value(&w))
			return false;
		opened = w.depth > before;
		if (!opened && !close_all(&w))
			break;
	}
	skip_blanks(&w);
	return !w.broken && w.depth == 0 && w.at == w.end;
}
