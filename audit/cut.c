/* See cut.h. */
#include "audit/cut.h"

#include "common/json.h"

#include <stdio.h>

/** How many bytes the character at the front takes as JSON; *ret_len: how many it has. */
static size_t escaped_character(struct slice text, size_t *ret_len)
{
	size_t len = utf8_length(text);
	*ret_len = len == 0 ? 1 : len;
	uint32_t character = len == 0 ? 0 : utf8_decode(text, len);
	if (len == 0 || utf8_is_control(character))
		return 6;
	return character == '"' || character == '\\' ? 2 : len;
}

size_t cut_fit(struct slice text, size_t limit)
{
	size_t used = 0, at = 0;
	if (text.len <= limit / 6)
		return text.len; /* whatever it is: no byte takes more */
	if (text.len <= limit && json_is_plain(text))
		return text.len;
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

bool cut_tail(struct buf *text, size_t from, size_t limit)
{
	size_t len = buf_len(text) - from;
	size_t fits = cut_fit(slice_part(buf_slice(text), from, SIZE_MAX), limit);
	if (fits == len)
		return false;
	char mark[32];
	size_t mark_len = (size_t)snprintf(mark, sizeof(mark), "[cut:%zu]", len - fits);
	fits = cut_fit(slice_part(buf_slice(text), from, SIZE_MAX),
		limit > mark_len ? limit - mark_len : 0);
	text->end = text->start + from + fits;
	(void)buf_printf(text, "[cut:%zu]", len - fits); /* errors show in text->failed */
	return true;
}

bool cut_to(struct buf *text, size_t limit)
{
	return cut_tail(text, 0, limit);
}
