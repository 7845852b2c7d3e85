/* See audit_time.h. */
#include "cli/audit_time.h"

#include "policy/value.h"

#include <time.h>

/** Two or four digits. @return -1: none, or more than @max. */
static int number_at(struct slice text, size_t at, size_t digits, uint64_t max)
{
	uint64_t value;
	struct slice part = slice_part(text, at, at + digits);
	return part.len == digits && slice_decimal(part, max, true, &value) == 0 ? (int)value : -1;
}

/** Whether the text has the form, in which 0 is a digit and everything else itself. */
static bool has_form(struct slice text, const char *form)
{
	if (text.len != strlen(form))
		return false;
	for (size_t i = 0; i < text.len; i++) {
		bool digit = text.ptr[i] >= '0' && text.ptr[i] <= '9';
		if (form[i] == '0' ? !digit : text.ptr[i] != form[i])
			return false;
	}
	return true;
}

static bool parse_date(struct slice text, uint64_t *ret_ms)
{
	bool seconds = has_form(text, "0000-00-00T00:00:00");
	bool minutes = seconds || has_form(text, "0000-00-00T00:00");
	if (!minutes && !has_form(text, "0000-00-00"))
		return false;
	struct tm parts = {.tm_year = number_at(text, 0, 4, 9999) - 1900,
		.tm_mon = number_at(text, 5, 2, 12) - 1,
		.tm_mday = number_at(text, 8, 2, 31),
		.tm_hour = minutes ? number_at(text, 11, 2, 23) : 0,
		.tm_min = minutes ? number_at(text, 14, 2, 59) : 0,
		.tm_sec = seconds ? number_at(text, 17, 2, 59) : 0};
	struct tm asked = parts;
	if (parts.tm_year < 70 || parts.tm_hour < 0 || parts.tm_min < 0 || parts.tm_sec < 0)
		return false;
	time_t time = timegm(&parts); /* moves what no calendar has to another day */
	if (time < 0 || parts.tm_mday != asked.tm_mday || parts.tm_mon != asked.tm_mon)
		return false;
	*ret_ms = (uint64_t)time * 1000;
	return true;
}

bool audit_time_parse(struct slice text, uint64_t now_ms, uint64_t *ret_ms)
{
	uint64_t ago_ms;
	if (value_duration(text, &ago_ms) == NULL) {
		*ret_ms = ago_ms < now_ms ? now_ms - ago_ms : 0;
		return true;
	}
	if (slice_ends(text, SLICE("Z")))
		text = slice_part(text, 0, text.len - 1);
	return parse_date(text, ret_ms);
}
