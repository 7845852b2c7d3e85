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

/** Whether sixteen bytes all stand for themselves: most of a log do. By instructions that do the same to each of them (GCC manual, Vector Extensions). */
static inline bool sixteen_are_plain(const char *at)
{
	typedef unsigned char bytes __attribute__((vector_size(16)));
	bytes b;
	uint64_t found[2];
	memcpy(&b, at, sizeof(b));
	/* What is below a blank wraps around, to where DEL and what is above ASCII are as well. */
	bytes special = (bytes)((b - 0x20) >= 0x7f - 0x20) | (bytes)(b == '"') | (bytes)(b == '\\');
	memcpy(found, &special, sizeof(found));
	return (found[0] | found[1]) == 0;
}

/** How many bytes at the front stand for themselves. */
static size_t plain_length(struct slice text)
{
	size_t plain = 0;
	while (plain < text.len && text.ptr[plain] >= 0x20 && text.ptr[plain] < 0x7f &&
		text.ptr[plain] != '"' && text.ptr[plain] != '\\')
		plain++;
	return plain;
}

/** Of 4 to 16 bytes: the first and the last ones, which may be the same. */
static bool few_are_plain(struct slice text)
{
	char both[2 * sizeof(uint64_t)];
	if (text.len >= sizeof(uint64_t)) {
		memcpy(both, text.ptr, 8);
		memcpy(both + 8, text.ptr + text.len - 8, 8);
	} else {
		memcpy(both, text.ptr, 4);
		memcpy(both + 4, text.ptr + text.len - 4, 4);
		memcpy(both + 8, both, 8);
	}
	return sixteen_are_plain(both);
}

bool json_is_plain(struct slice text)
{
	if (text.len < sizeof(uint32_t))
		return plain_length(text) == text.len;
	while (text.len > 2 * sizeof(uint64_t)) {
		if (!sixteen_are_plain(text.ptr))
			return false;
		text.ptr += 2 * sizeof(uint64_t);
		text.len -= 2 * sizeof(uint64_t);
	}
	if (text.len < sizeof(uint32_t)) { /* the last bytes once more, with some before them */
		text.ptr -= sizeof(uint32_t);
		text.len += sizeof(uint32_t);
	}
	return few_are_plain(text);
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

/** memcpy() without a call for what is short, as keys are. */
static inline void copy_short(char *to, const char *from, size_t len)
{
	if (len > 16) {
		memcpy(to, from, len);
	} else if (len >= 8) {
		memcpy(to, from, 8);
		memcpy(to + len - 8, from + len - 8, 8);
	} else if (len >= 4) {
		memcpy(to, from, 4);
		memcpy(to + len - 4, from + len - 4, 4);
	} else {
		for (size_t i = 0; i < len; i++)
			to[i] = from[i];
	}
}

/**
 * Put down what is in front of a value. @return where the value goes, with @room for it, which end_value() takes; NULL: the buffer is
 * full, which is sticky in it.
 */
static inline char *begin_value(struct json *j, struct slice key, size_t room)
{
	char *at;
	if (buf_reserve(j->out, key.len + room + 4, &at) < 0)
		return NULL;
	*at = ',';
	at += j->comma;
	j->comma = true;
	if (key.ptr != NULL) {
		*at++ = '"';
		copy_short(at, key.ptr, key.len);
		at += key.len;
		*at++ = '"';
		*at++ = ':';
	}
	return at;
}

/** The value ends at @at. */
static inline void end_value(struct json *j, const char *at)
{
	j->out->end = (size_t)(at - j->out->data);
}

/** As text, behind its last digit up to @end. @return its first digit. */
static char *digits(uint64_t value, char *end)
{
	static const char pairs[] = "0001020304050607080910111213141516171819"
				    "2021222324252627282930313233343536373839"
				    "4041424344454647484950515253545556575859"
				    "6061626364656667686970717273747576777879"
				    "8081828384858687888990919293949596979899";
	for (; value >= 10; value /= 100) {
		end -= 2;
		memcpy(end, pairs + 2 * (value % 100), 2);
	}
	if (value > 0)
		*--end = (char)('0' + value);
	return end;
}

#define DIGITS_MAX ((size_t)21) /* of a 64-bit number, with its sign */

void json_put_number(struct json *j, struct slice key, uint64_t value, bool negative)
{
	char text[DIGITS_MAX];
	/* Readers keep numbers in 64 bits with a sign, and pass over a whole line with a larger one. */
	if (!negative && value > INT64_MAX)
		value = INT64_MAX;
	char *end = text + sizeof(text);
	char *from = digits(value, end);
	char *to = begin_value(j, key, sizeof(text));
	if (value == 0)
		*--from = '0';
	if (negative)
		*--from = '-';
	if (to == NULL)
		return;
	copy_short(to, from, (size_t)(end - from));
	end_value(j, to + (end - from));
}

void json_put_word(struct json *j, struct slice key, struct slice word)
{
	char *to = begin_value(j, key, word.len);
	if (to == NULL)
		return;
	copy_short(to, word.ptr, word.len);
	end_value(j, to + word.len);
}

void json_put_open(struct json *j, struct slice key, char bracket)
{
	char *to = begin_value(j, key, sizeof(bracket));
	if (to == NULL)
		return;
	*to = bracket;
	end_value(j, to + 1);
	j->comma = false;
}

static void json_close(struct json *j, char bracket)
{
	char *to;
	j->comma = true;
	if (buf_reserve(j->out, sizeof(bracket), &to) < 0)
		return; /* sticky in the buf */
	*to = bracket;
	buf_grew(j->out, sizeof(bracket));
}

void json_object_end(struct json *j)
{
	json_close(j, '}');
}

void json_array_end(struct json *j)
{
	json_close(j, ']');
}

void json_put_plain(struct json *j, struct slice key, struct slice value)
{
	char *to = begin_value(j, key, value.len + 2);
	if (to == NULL)
		return;
	*to++ = '"';
	copy_short(to, value.ptr, value.len);
	to[value.len] = '"';
	end_value(j, to + value.len + 1);
}

void json_put_string(struct json *j, struct slice key, struct slice value)
{
	if (json_is_plain(value)) {
		json_put_plain(j, key, value);
		return;
	}
	char *to = begin_value(j, key, value.len + 2);
	if (to == NULL)
		return;
	end_value(j, to);
	json_string(j->out, value);
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
