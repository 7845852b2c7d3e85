/* See otlp_value.h. */
#include "export/otlp_value.h"

#include "common/cleanup.h"

#define INT64_DIGITS 18 /* any number of so many digits is one of 64 bits */

/** A place in the text, and what is open there. */
struct cursor {
	struct slice rest;
	struct buf *to;
	char closing[OTLP_DEPTH_MAX]; /* '}' or ']' */
	size_t depth;
};

static bool next_is(const struct cursor *c, char byte)
{
	return c->rest.len > 0 && *c->rest.ptr == byte;
}

static void skip(struct cursor *c, size_t len)
{
	c->rest = slice_part(c->rest, len, c->rest.len);
}

static void skip_blanks(struct cursor *c)
{
	while (next_is(c, ' ') || next_is(c, '\t') || next_is(c, '\n') || next_is(c, '\r'))
		skip(c, 1);
}

static bool take(struct cursor *c, char byte)
{
	skip_blanks(c);
	if (!next_is(c, byte))
		return false;
	skip(c, 1);
	return true;
}

/** A string with its quotes, at the front. @return false: there is none. */
static bool take_string(struct cursor *c, struct slice *ret)
{
	if (!next_is(c, '"'))
		return false;
	size_t i = 1;
	while (i < c->rest.len && c->rest.ptr[i] != '"')
		i += c->rest.ptr[i] == '\\' ? 2 : 1;
	if (i >= c->rest.len)
		return false;
	*ret = slice_part(c->rest, 0, i + 1);
	skip(c, i + 1);
	return true;
}

static void write_typed(struct buf *to, const char *before, struct slice value, const char *after)
{
	(void)buf_append_text(to, before); /* errors are sticky in the buf */
	(void)buf_append(to, value);
	(void)buf_append_text(to, after);
}

static bool is_integer(struct slice number)
{
	struct slice digits = slice_part(number, slice_starts(number, SLICE("-")), number.len);
	uint64_t value;
	return digits.len <= INT64_DIGITS && slice_decimal(digits, UINT64_MAX, false, &value) == 0;
}

/** null, a truth, or a number. */
static bool write_word(struct cursor *c)
{
	size_t len = 0;
	while (len < c->rest.len && memchr(",]} \t\r\n", c->rest.ptr[len], 7) == NULL)
		len++;
	struct slice word = slice_part(c->rest, 0, len);
	if (len == 0)
		return false;
	if (slice_equal(word, SLICE("null")))
		(void)buf_append(c->to, SLICE("{}"));
	else if (slice_equal(word, SLICE("true")) || slice_equal(word, SLICE("false")))
		write_typed(c->to, "{\"boolValue\":", word, "}");
	else if (is_integer(word))
		write_typed(c->to, "{\"intValue\":\"", word, "\"}");
	else if (*word.ptr == '-' || (*word.ptr >= '0' && *word.ptr <= '9'))
		write_typed(c->to, "{\"doubleValue\":", word, "}");
	else
		return false;
	skip(c, len);
	return true;
}

static bool open_one(struct cursor *c, char closing, const char *text)
{
	if (c->depth == OTLP_DEPTH_MAX)
		return false;
	c->closing[c->depth++] = closing;
	skip(c, 1);
	(void)buf_append_text(c->to, text);
	return true;
}

/** The next value; an object or array is only opened. */
static bool write_value(struct cursor *c)
{
	struct slice text;
	skip_blanks(c);
	if (next_is(c, '{'))
		return open_one(c, '}', "{\"kvlistValue\":{\"values\":[");
	if (next_is(c, '['))
		return open_one(c, ']', "{\"arrayValue\":{\"values\":[");
	if (!take_string(c, &text))
		return write_word(c);
	write_typed(c->to, "{\"stringValue\":", text, "}");
	return true;
}

static bool write_key(struct cursor *c)
{
	struct slice key;
	skip_blanks(c);
	if (!take_string(c, &key) || !take(c, ':'))
		return false;
	write_typed(c->to, "{\"key\":", key, ",\"value\":");
	return true;
}

/** What stands behind a value, or behind an opening: closings, and a comma before the next member or element. */
static bool step(struct cursor *c, bool opened)
{
	while (c->depth > 0) {
		char closing = c->closing[c->depth - 1];
		if (!take(c, closing)) {
			if (!opened && !take(c, ','))
				return false;
			if (!opened)
				(void)buf_append(c->to, SLICE(","));
			return closing == ']' || write_key(c);
		}
		(void)buf_append(c->to, SLICE("]}}"));
		c->depth--;
		opened = false;
		/* as a member's value it ends that member */
		if (c->depth > 0 && c->closing[c->depth - 1] == '}')
			(void)buf_append(c->to, SLICE("}"));
	}
	return true;
}

int otlp_value_write(struct slice text, struct buf *to)
{
	struct cursor c = {.rest = text, .to = to};
	bool good = true;
	do {
		size_t depth = c.depth;
		good = write_value(&c);
		bool opened = c.depth > depth;
		if (good && !opened && depth > 0 && c.closing[depth - 1] == '}')
			(void)buf_append(to, SLICE("}"));
		good = good && step(&c, opened);
	} while (good && c.depth > 0);
	skip_blanks(&c);
	if (!good || c.rest.len > 0)
		return -EBADMSG;
	return to->failed ? -ENOBUFS : 0;
}
