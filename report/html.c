/* See html.h. */
#include "report/html.h"

#include "common/json.h"

#include <stdio.h>
#include <time.h>

#define END_MS UINT64_C(253402300800000) /* the year 10000 */

/** Characters without a width, which make two texts look the same. */
static bool is_invisible(uint32_t c)
{
	return c == 0xad || c == 0x34f || c == 0x180e || (c >= 0x200b && c <= 0x200d) ||
		(c >= 0x2060 && c <= 0x2064) || (c >= 0xfe00 && c <= 0xfe0f) ||
		(c >= 0xe0000 && c <= 0xe0fff);
}

static const char *entity_of(uint32_t c)
{
	switch (c) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	}
	return NULL;
}

/** One character from the front. @return how many bytes it took. */
static size_t html_character(struct buf *to, struct slice text)
{
	size_t len = utf8_length(text);
	uint32_t c = len == 0 ? 0xfffd : utf8_decode(text, len);
	const char *entity = entity_of(c);
	if (entity != NULL)
		(void)buf_append_text(to, entity); /* errors are sticky in the buf */
	else if (len == 0 || utf8_is_control(c) || is_invisible(c))
		(void)buf_printf(to, "<span class=\"ctl\">U+%04X</span>", c);
	else
		(void)buf_append(to, slice_part(text, 0, len));
	return len == 0 ? 1 : len;
}

void html_text(struct buf *to, struct slice text)
{
	while (text.len > 0) {
		size_t took = html_character(to, text);
		text = slice_part(text, took, text.len);
	}
}

void html_number(struct buf *to, uint64_t number)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			(void)buf_append(to, SLICE(",")); /* errors are sticky in the buf */
		(void)buf_append(to, (struct slice){digits + i, 1});
	}
}

void html_bytes(struct buf *to, uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	size_t unit = bytes > UINT64_MAX / 10;
	uint64_t tenths = (unit > 0 ? bytes >> 10 : bytes) * 10;
	while (tenths >= 10240) {
		tenths /= 1024;
		unit++;
	}
	if (unit == 0 || tenths >= 1000) /* errors are sticky in the buf */
		(void)buf_printf(to, "%llu %s", (unsigned long long)(tenths / 10), units[unit]);
	else
		(void)buf_printf(to, "%llu.%llu %s", (unsigned long long)(tenths / 10),
			(unsigned long long)(tenths % 10), units[unit]);
}

/** @unit_s: what is below it is left out, such as 60 for seconds. */
static void append_time(struct buf *to, uint64_t time_s, uint64_t unit_s)
{
	struct tm t;
	time_t when = (time_t)time_s;
	if (gmtime_r(&when, &t) == NULL)
		return;
	(void)buf_printf(to, "%04d-%02d-%02d", t.tm_year + 1900, t.tm_mon + 1,
		t.tm_mday); /* errors are sticky in the buf */
	if (unit_s < 86400)
		(void)buf_printf(to, " %02d:%02d", t.tm_hour, t.tm_min);
	if (unit_s < 60)
		(void)buf_printf(to, ":%02d", t.tm_sec);
}

void html_time(struct buf *to, uint64_t time_ms)
{
	if (time_ms == 0)
		return;
	if (time_ms >= END_MS)
		(void)buf_append(to, SLICE("after 9999")); /* errors are sticky in the buf */
	else
		append_time(to, time_ms / 1000, 1);
}

void html_moment(struct buf *to, uint64_t time_s, uint64_t width_s)
{
	append_time(to, time_s, width_s % 86400 == 0 ? 86400 : width_s % 60 == 0 ? 60 : 1);
}
