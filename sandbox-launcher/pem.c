/* See pem.h. */
#include "sandbox-launcher/pem.h"

#include <errno.h>
#include <sys/types.h>

#define CERTIFICATE_BYTES ((size_t)1 << 20)

#define BEGIN SLICE("-----BEGIN CERTIFICATE-----")
#define END   SLICE("-----END CERTIFICATE-----")

/* The value of each digit of base64 (RFC 4648) by its ASCII, -1: it is none. A table, as a bundle has 200,000 of them. */
static const signed char DIGITS[128] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
	-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
	-1, -1, -1, -1, -1, 62, -1, -1, -1, 63, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, -1, -1, -1,
	-1, -1, -1, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
	21, 22, 23, 24, 25, -1, -1, -1, -1, -1, -1, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37,
	38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, -1, -1, -1, -1, -1};

static int digit(char c)
{
	return (unsigned char)c < sizeof(DIGITS) ? DIGITS[(unsigned char)c] : -1;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Four digits that all are some: what nearly all of a certificate is. @return whether @to got their three bytes. */
static bool decode_four(const char *text, char *to)
{
	int a = digit(text[0]), b = digit(text[1]), c = digit(text[2]), d = digit(text[3]);
	if ((a | b | c | d) < 0)
		return false;
	to[0] = (char)(a << 2 | b >> 4);
	to[1] = (char)((b & 15) << 4 | c >> 2);
	to[2] = (char)((c & 3) << 6 | d);
	return true;
}

/* @to: room for all of it. @return bytes or -EBADMSG. */
static ssize_t decode(struct slice text, char *to)
{
	ssize_t len = 0;
	uint32_t bits = 0;
	unsigned have = 0, padding = 0;
	for (size_t i = 0; i < text.len; i++) {
		while (have == 0 && padding == 0 && text.len - i >= 4 &&
			decode_four(text.ptr + i, to + len)) {
			i += 4;
			len += 3;
		}
		if (i == text.len)
			break;
		char c = text.ptr[i];
		int value = digit(c);
		if (value < 0 && is_space(c))
			continue;
		padding += c == '=' ? 1 : 0;
		if ((value < 0 && c != '=') || (value >= 0 && padding > 0) || padding > 2)
			return -EBADMSG;
		if (value < 0)
			continue;
		bits = bits << 6 | (uint32_t)value;
		have += 6;
		if (have >= 8) {
			have -= 8;
			to[len++] = (char)(bits >> have & 0xff);
		}
	}
	return have >= 6 ? -EBADMSG : len;
}

/* Where @what begins in @text, or its length. */
static size_t find(struct slice text, struct slice what)
{
	const char *at = text.len == 0 ? NULL : memmem(text.ptr, text.len, what.ptr, what.len);
	return at == NULL ? text.len : (size_t)(at - text.ptr);
}

int pem_each(struct slice text, pem_visit *visit, void *arg)
{
	struct buf der;
	int r = 0;
	buf_init(&der, CERTIFICATE_BYTES);
	for (;;) {
		size_t begin = find(text, BEGIN);
		if (begin == text.len)
			break;
		text = slice_part(text, begin + BEGIN.len, text.len);
		size_t end = find(text, END);
		char *room;
		buf_clear(&der);
		r = end == 0 || end == text.len ? -EBADMSG : buf_reserve(&der, end, &room);
		if (r < 0)
			break;
		ssize_t len = decode(slice_part(text, 0, end), room);
		if (len > 0)
			buf_grew(&der, (size_t)len);
		r = len <= 0 ? -EBADMSG : visit(buf_slice(&der), arg);
		if (r < 0)
			break;
		text = slice_part(text, end + END.len, text.len);
	}
	buf_fini(&der);
	return r;
}

int pem_copy(struct slice text, struct buf *to)
{
	int r = 0;
	for (size_t begin; r == 0 && (begin = find(text, BEGIN)) < text.len;) {
		text = slice_part(text, begin, text.len);
		size_t end = find(text, END);
		if (end == text.len)
			break;
		r = buf_append(to, slice_part(text, 0, end + END.len));
		if (r == 0)
			r = buf_append(to, SLICE("\n"));
		text = slice_part(text, end + END.len, text.len);
	}
	return r;
}
