/* See slice.h. */
#include "common/slice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool slice_equal_nocase(struct slice a, struct slice b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++) {
		if (ascii_lower(a.ptr[i]) != ascii_lower(b.ptr[i]))
			return false;
	}
	return true;
}

bool slice_starts(struct slice text, struct slice prefix)
{
	return text.len >= prefix.len && slice_equal(slice_part(text, 0, prefix.len), prefix);
}

bool slice_ends(struct slice text, struct slice suffix)
{
	return text.len >= suffix.len &&
		slice_equal(slice_part(text, text.len - suffix.len, text.len), suffix);
}

ptrdiff_t slice_find(struct slice text, char byte)
{
	const char *at = text.len == 0 ? NULL : memchr(text.ptr, byte, text.len);
	return at == NULL ? -1 : at - text.ptr;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

struct slice slice_trim(struct slice text)
{
	size_t from = 0;
	size_t to = text.len;
	while (from < to && is_blank(text.ptr[from]))
		from++;
	while (to > from && is_blank(text.ptr[to - 1]))
		to--;
	return slice_part(text, from, to);
}

bool slice_split(struct slice text, char byte, struct slice *ret_head, struct slice *ret_rest)
{
	ptrdiff_t at = slice_find(text, byte);
	if (at < 0)
		return false;
	*ret_head = slice_part(text, 0, (size_t)at);
	*ret_rest = slice_part(text, (size_t)at + 1, text.len);
	return true;
}

int slice_decimal(struct slice text, uint64_t max, bool zeros, uint64_t *ret_value)
{
	if (text.len == 0 || (!zeros && text.len > 1 && text.ptr[0] == '0'))
		return -EINVAL;
	uint64_t value = 0;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		if (c < '0' || c > '9')
			return -EINVAL;
		if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
			__builtin_add_overflow(value, (uint64_t)(c - '0'), &value))
			return -ERANGE;
	}
	if (value > max)
		return -ERANGE;
	*ret_value = value;
	return 0;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int slice_hex(struct slice text, uint64_t max, uint64_t *ret_value)
{
	if (text.len == 0)
		return -EINVAL;
	uint64_t value = 0;
	for (size_t i = 0; i < text.len; i++) {
		int digit = hex_digit(text.ptr[i]);
		if (digit < 0)
			return -EINVAL;
		if (i >= 16)
			return -ERANGE;
		value = value << 4 | (uint64_t)digit;
	}
	if (value > max)
		return -ERANGE;
	*ret_value = value;
	return 0;
}

int slice_copy(struct slice text, char *to, size_t capacity)
{
	if (text.len >= capacity)
		return -ENAMETOOLONG;
	if (text.len > 0)
		memcpy(to, text.ptr, text.len);
	to[text.len] = '\0';
	return 0;
}

char *slice_dup(struct slice text)
{
	char *copy = malloc(text.len + 1);
	if (copy == NULL)
		return NULL;
	if (text.len > 0)
		memcpy(copy, text.ptr, text.len);
	copy[text.len] = '\0';
	return copy;
}

char *slice_escape(struct slice text, char *to, size_t capacity)
{
	static const char digits[] = "0123456789abcdef";
	size_t used = 0;
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];
		bool plain = c >= 0x20 && c < 0x7f && c != '\\';
		if (used + (plain ? 1 : 4) + 4 > capacity) {
			for (int dot = 0; dot < 3 && used + 1 < capacity; dot++)
				to[used++] = '.';
			break;
		}
		if (plain) {
			to[used++] = (char)c;
			continue;
		}
		to[used++] = '\\';
		to[used++] = 'x';
		to[used++] = digits[c >> 4];
		to[used++] = digits[c & 15];
	}
	if (capacity > 0)
		to[used] = '\0';
	return to;
}

struct slice slice_take(struct slice_cursor *c, size_t len)
{
	struct slice part = slice_part(c->rest, 0, len);
	c->failed |= part.len != len;
	c->rest = slice_part(c->rest, part.len, c->rest.len);
	return part;
}

uint32_t slice_number(struct slice bytes)
{
	uint32_t value = 0;
	for (size_t i = 0; i < bytes.len; i++)
		value = value << 8 | (uint8_t)bytes.ptr[i];
	return value;
}

uint32_t slice_take_number(struct slice_cursor *c, size_t len)
{
	struct slice bytes = slice_take(c, len);
	return c->failed ? 0 : slice_number(bytes);
}
