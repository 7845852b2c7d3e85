/* See audit_time.h. */
#include "cli/audit_time.h"

#include "policy/value.h"

#include <time.h>

#define DAY_MS UINT64_C(86400000)

/** Take @len digits off the front; the value must be in [least, most]. */
static bool take_number(struct slice *text, size_t len, uint64_t least, uint64_t most, int *ret)
{
	uint64_t value;
	if (text->len < len || slice_decimal(slice_part(*text, 0, len), most, true, &value) < 0 ||
		value < least)
		return false;
	*text = slice_part(*text, len, text->len);
	*ret = (int)value;
	return true;
}

static bool take_byte(struct slice *text, char byte)
{
	bool there = text->len > 0 && text->ptr[0] == byte;
	*text = slice_part(*text, there, text->len);
	return there;
}

/** ".5" */
static bool take_fraction(struct slice *text, uint64_t *ret_ms)
{
	uint64_t unit = 100;
	size_t digits = 0;
	*ret_ms = 0;
	if (!take_byte(text, '.'))
		return true;
	for (int digit; take_number(text, 1, 0, 9, &digit); digits++, unit /= 10)
		*ret_ms += (uint64_t)digit * unit;
	return digits > 0;
}

/** "", "Z" or "+02:00"; @ret_minutes east of UTC. */
static bool take_zone(struct slice *text, int *ret_minutes)
{
	int hours, minutes;
	*ret_minutes = 0;
	if (text->len == 0 || take_byte(text, 'Z') || take_byte(text, 'z'))
		return true;
	bool east = take_byte(text, '+');
	if ((!east && !take_byte(text, '-')) || !take_number(text, 2, 0, 23, &hours) ||
		!take_byte(text, ':') || !take_number(text, 2, 0, 59, &minutes))
		return false;
	*ret_minutes = (east ? 1 : -1) * (60 * hours + minutes);
	return true;
}

/** "14:00", with seconds and a zone if they are there. */
static bool take_time(struct slice *text, struct tm *tm, uint64_t *ret_ms, int *ret_zone)
{
	if (!take_number(text, 2, 0, 23, &tm->tm_hour) || !take_byte(text, ':') ||
		!take_number(text, 2, 0, 59, &tm->tm_min))
		return false;
	if (take_byte(text, ':') &&
		(!take_number(text, 2, 0, 60, &tm->tm_sec) || !take_fraction(text, ret_ms)))
		return false;
	return take_zone(text, ret_zone);
}

static bool parse_date(struct slice text, uint64_t *ret_ms)
{
	struct tm tm = {0};
	uint64_t ms = 0;
	int zone = 0;
	if (!take_number(&text, 4, 1970, 9999, &tm.tm_year) || !take_byte(&text, '-') ||
		!take_number(&text, 2, 1, 12, &tm.tm_mon) || !take_byte(&text, '-') ||
		!take_number(&text, 2, 1, 31, &tm.tm_mday))
		return false;
	bool time = take_byte(&text, 'T') || take_byte(&text, 't') || take_byte(&text, ' ');
	if ((time && !take_time(&text, &tm, &ms, &zone)) || text.len > 0)
		return false;
	int month = --tm.tm_mon;
	tm.tm_year -= 1900;
	tm.tm_sec = tm.tm_sec < 60 ? tm.tm_sec : 59; /* the log has no leap seconds */
	int64_t seconds = (int64_t)timegm(&tm) - INT64_C(60) * zone;
	if (seconds < 0 || tm.tm_mon != month)
		return false; /* no such day in this month */
	*ret_ms = (uint64_t)seconds * 1000 + ms;
	return true;
}

bool audit_time_parse(struct slice text, uint64_t now_ms, uint64_t *ret_ms)
{
	uint64_t ago_ms;
	uint64_t today = now_ms - now_ms % DAY_MS;
	if (value_duration(text, &ago_ms) == NULL)
		*ret_ms = ago_ms < now_ms ? now_ms - ago_ms : 0;
	else if (slice_equal(text, SLICE("now")))
		*ret_ms = now_ms;
	else if (slice_equal(text, SLICE("today")))
		*ret_ms = today;
	else if (slice_equal(text, SLICE("yesterday")))
		*ret_ms = today > DAY_MS ? today - DAY_MS : 0;
	else
		return parse_date(text, ret_ms);
	return true;
}
