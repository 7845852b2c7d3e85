/* See visible.h. */
#include "audit/visible.h"

#include "common/json.h"

static const struct visible_style shown = {.doubled = "", .hidden = ""};

static bool is_one_of(uint32_t character, const char *set)
{
	return character != 0 && character < 0x80 && strchr(set, (int)character) != NULL;
}

/** Whether the character stands for itself: then it is taken in a run. */
static bool is_plain(uint32_t character, const struct visible_style *style)
{
	return !utf8_is_control(character) && !is_one_of(character, style->doubled) &&
		!is_one_of(character, style->hidden);
}

/** One that does not. */
static void append_escape(struct buf *to, uint32_t character, const struct visible_style *style)
{
	bool end_of_line = character == '\r' || character == '\n';
	if (is_one_of(character, style->doubled))
		(void)buf_printf(to, "\\%c", (int)character); /* errors are sticky in the buf */
	else if (end_of_line && style->line_ends)
		(void)buf_append_text(to, character == '\r' ? "\\r" : "\\n");
	else
		(void)buf_printf(
			to, "%s\\u%04x", is_one_of('\\', style->doubled) ? "\\" : "", character);
}

void visible_append(struct buf *to, struct slice text, const struct visible_style *style)
{
	size_t run = 0; /* plain bytes at the front */
	if (style == NULL)
		style = &shown;
	while (run < text.len) {
		struct slice rest = slice_part(text, run, text.len);
		size_t len = utf8_length(rest);
		uint32_t character = len == 0 ? 0 : utf8_decode(rest, len);
		if (len > 0 && is_plain(character, style)) {
			run += len;
			continue;
		}
		(void)buf_append(to, slice_part(text, 0, run));
		if (len == 0)
			(void)buf_append_text(to, "\xef\xbf\xbd");
		else
			append_escape(to, character, style);
		text = slice_part(text, run + (len == 0 ? 1 : len), text.len);
		run = 0;
	}
	(void)buf_append(to, text);
}
