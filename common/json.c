/* See json.h. */
#include "common/json.h"

#include <stdio.h>

void json_open(struct json *j, struct buf *out)
{
	*j = (struct json){.out = out};
}

size_t utf8_length(struct slice text)
{
	unsigned char lead = (unsigned char)text.ptr[0];
	size_t len = lead < 0x80              ? 1
		: lead >= 0xc2 && lead < 0xe0 ? 2
		: (lead & 0xf0) == 0xe0       ? 3
					      : 4;
	if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || text.len < len)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if (((unsigned char)text.ptr[i] & 0xc0) != 0x80)
			return 0;
	}
	unsigned char second = len > 1 ? (unsigned char)text.ptr[1] : 0;
	bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
	bool surrogate = lead == 0xed && second >= 0xa0;
	bool beyond = lead == 0xf4 && second >= 0x90;
	return overlong || surrogate || beyond ? 0 : len;
}

bool utf8_valid(struct slice text)
{
	while (text.len > 0) {
		size_t len = utf8_length(text);
		if (len == 0)
			return false;
		text.ptr += len;
		text.len -= len;
	}
	return true;
}

uint32_t utf8_decode(struct slice text, size_t len)
{
	static const unsigned char lead_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
	uint32_t character = (unsigned char)text.ptr[0] & lead_bits[len];
	for (size_t i = 1; i < len; i++)
		character = character << 6 | ((unsigned char)text.ptr[i] & 0x3f);
	return character;
}

bool utf8_is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
		(c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

/** Write one escaped character from the front of @text; returns how many bytes it took. */
static size_t json_character(struct buf *out, struct slice text)
{
	size_t len = utf8_length(text);
	if (len == 0) {
		(void)buf_append(out, SLICE("\\ufffd")); /* errors are sticky in the buf */
		return 1;
	}
	uint32_t character = utf8_decode(text, len);
	if (character == '"' || character == '\\')
		(void)buf_printf(out, "\\%c", (int)character);
	else if (utf8_is_control(character))
		(void)buf_printf(out, "\\u%04x", character);
	else
		(void)buf_append(out, slice_part(text, 0, len));
	return len;
}

/** Of eight bytes: the top bit of each that is 0. Right for the lowest such byte, and for whether there is one. */
static uint64_t zeros_of(uint64_t bytes)
{
	return (bytes - UINT64_MAX / 255) & ~bytes & (UINT64_MAX / 255 * 0x80);
}

/** Whether eight bytes all stand for themselves. */
static bool eight_are_plain(const char *at)
{
	const uint64_t ones = UINT64_MAX / 255;
	uint64_t eight;
	memcpy(&eight, at, sizeof(eight));
	uint64_t below = (eight - ones * 0x20) & ~eight & (ones * 0x80);
	return (below | (eight & (ones * 0x80)) | zeros_of(eight ^ (ones * '"')) |
		       zeros_of(eight ^ (ones * '\\')) | zeros_of(eight ^ (ones * 0x7f))) == 0;
}

/** How many bytes at the front stand for themselves. Most of a log do, so eight are looked at at once. */
static size_t plain_length(struct slice text)
{
	size_t plain = 0;
	while (plain + sizeof(uint64_t) <= text.len && eight_are_plain(text.ptr + plain))
		plain += sizeof(uint64_t);
	while (plain < text.len && text.ptr[plain] >= 0x20 && text.ptr[plain] < 0x7f &&
		text.ptr[plain] != '"' && text.ptr[plain] != '\\')
		plain++;
	return plain;
}

bool json_is_plain(struct slice text)
{
	return plain_length(text) == text.len;
}

static void json_string(struct buf *out, struct slice value)
{
	(void)buf_append(out, SLICE("\""));
	while (value.len > 0) {
		size_t plain = plain_length(value), took = plain;
		if (plain > 0)
			(void)buf_append(out, slice_part(value, 0, plain));
		else
			took = json_character(out, value);
		value.ptr += took;
		value.len -= took;
	}
	(void)buf_append(out, SLICE("\""));
}

/** Put down what is short and plain at once. @return where the value goes, with room for it; NULL: the buffer is full. */
static char *json_lead(struct json *j, const char *key, size_t room)
{
	struct slice name = key == NULL ? (struct slice){0} : slice_of(key);
	char *at;
	if (buf_reserve(j->out, name.len + room + 4, &at) < 0)
		return NULL;
	char *start = at;
	if (j->comma)
		*at++ = ',';
	j->comma = true;
	if (key != NULL) {
		*at++ = '"';
		memcpy(at, name.ptr, name.len);
		at += name.len;
		*at++ = '"';
		*at++ = ':';
	}
	buf_grew(j->out, (size_t)(at - start));
	return at;
}

#define DIGITS_MAX ((size_t)21) /* of a 64-bit number, with its sign */

static void json_digits(struct json *j, const char *key, uint64_t value, bool negative)
{
	char text[DIGITS_MAX];
	size_t at = sizeof(text);
	char *to = json_lead(j, key, sizeof(text));
	do {
		text[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	if (negative)
		text[--at] = '-';
	if (to == NULL)
		return; /* sticky in the buf */
	memcpy(to, text + at, sizeof(text) - at);
	buf_grew(j->out, sizeof(text) - at);
}

/** A value of one or a few bytes that stand for themselves. */
static void json_plain(struct json *j, const char *key, struct slice value)
{
	char *to = json_lead(j, key, value.len);
	if (to == NULL)
		return; /* sticky in the buf */
	memcpy(to, value.ptr, value.len);
	buf_grew(j->out, value.len);
}

void json_object(struct json *j, const char *key)
{
	json_plain(j, key, SLICE("{"));
	j->comma = false;
}

void json_object_end(struct json *j)
{
	(void)buf_append(j->out, SLICE("}"));
	j->comma = true;
}

void json_array(struct json *j, const char *key)
{
	json_plain(j, key, SLICE("["));
	j->comma = false;
}

void json_array_end(struct json *j)
{
	(void)buf_append(j->out, SLICE("]"));
	j->comma = true;
}

void json_slice(struct json *j, const char *key, struct slice value)
{
	char *to = json_lead(j, key, value.len + 2);
	if (to == NULL)
		return; /* sticky in the buf */
	if (!json_is_plain(value)) {
		json_string(j->out, value);
		return;
	}
	*to = '"';
	if (value.len > 0)
		memcpy(to + 1, value.ptr, value.len);
	to[value.len + 1] = '"';
	buf_grew(j->out, value.len + 2);
}

void json_text(struct json *j, const char *key, const char *value)
{
	json_slice(j, key, slice_of(value));
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
	json_digits(j, key, value, false);
}

void json_int(struct json *j, const char *key, int64_t value)
{
	json_digits(j, key, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

void json_bool(struct json *j, const char *key, bool value)
{
	json_plain(j, key, value ? SLICE("true") : SLICE("false"));
}

void json_null(struct json *j, const char *key)
{
	json_plain(j, key, SLICE("null"));
}

void json_format(struct json *j, const char *key, const char *format, ...)
{
	char text[1024];
	va_list args;
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args); /* cut on purpose */
	va_end(args);
	json_text(j, key, text);
}
