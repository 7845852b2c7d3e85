/* See cut.h. */
#include "audit/cut.h"

#include "common/json.h"

#include <stdio.h>

/** How many bytes the character at the front takes as JSON; *ret_len: how many it has. */
static size_t escaped_character(struct slice text, size_t *ret_len)
{
	unsigned char c = (unsigned char)text.ptr[0];
	*ret_len = 1;
	if (c < 0x80)
		return c == '"' || c == '\\' ? 2 : c < 0x20 || c == 0x7f ? 6 : 1;
	for (size_t len = 2; len <= 4 && len <= text.len; len++) {
		if (utf8_valid(slice_part(text, 0, len))) {
			*ret_len = len;
			return len == 3 ? 6 : len; /* U+2028 is written as an escape */
		}
	}
	return 6;
}

size_t cut_fit(struct slice text, size_t limit)
{
	size_t used = 0, at = 0;
	while (at < text.len) {
		size_t len;
		size_t takes = escaped_character(slice_part(text, at, text.len), &len);
		if (used + takes > limit)
			return at;
		used += takes;
		at += len;
	}
	return at;
}

bool cut_to(struct buf *text, size_t limit)
{
	size_t len = buf_len(text);
	size_t fits = cut_fit(buf_slice(text), limit);
	if (fits == len)
		return false;
	char mark[32];
	size_t mark_len = (size_t)snprintf(mark, sizeof(mark), "[cut:%zu]", len - fits);
	fits = cut_fit(buf_slice(text), limit > mark_len ? limit - mark_len : 0);
	text->end = text->start + fits;
	(void)buf_printf(text, "[cut:%zu]", len - fits); /* errors show in text->failed */
	return true;
}
