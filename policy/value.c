/* See value.h. */
#include "policy/value.h"

#include "common/cleanup.h"

#include <stdlib.h>

#define MS_PER_DAY UINT64_C(86400000)

const char *value_size(struct slice text, uint64_t *ret_bytes)
{
	static const char units[] = "kmg";
	unsigned shift = 0;
	uint64_t number;
	const char *unit = text.len == 0 || text.ptr[text.len - 1] == '\0'
		? NULL
		: strchr(units, text.ptr[text.len - 1]);
	if (unit != NULL) {
		shift = 10 * (unsigned)(unit - units + 1);
		text.len--;
	}
	if (slice_decimal(text, UINT64_MAX >> 34, false, &number) < 0)
		return "a size is digits, then nothing or k, m or g";
	*ret_bytes = number << shift;
	return NULL;
}

static bool is_leap(uint64_t year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static uint64_t days_in_month(uint64_t year, uint64_t month)
{
	static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

const char *value_date(struct slice text, uint64_t *ret_ms)
{
	uint64_t year;
	uint64_t month;
	uint64_t day;
	if (text.len != 10 || text.ptr[4] != '-' || text.ptr[7] != '-' ||
		slice_decimal(slice_part(text, 0, 4), 9999, true, &year) < 0 ||
		slice_decimal(slice_part(text, 5, 7), 12, true, &month) < 0 ||
		slice_decimal(slice_part(text, 8, 10), 31, true, &day) < 0 || year < 1970 ||
		month == 0 || day == 0 || day > days_in_month(year, month))
		return "a date is YYYY-MM-DD";
	uint64_t days = day;
	for (uint64_t y = 1970; y < year; y++)
		days += is_leap(y) ? 366 : 365;
	for (uint64_t m = 1; m < month; m++)
		days += days_in_month(year, m);
	*ret_ms = days * MS_PER_DAY;
	return NULL;
}

const char *value_count(struct slice text, uint64_t *ret_count)
{
	uint64_t count;
	if (slice_decimal(text, VALUE_COUNT_MAX, false, &count) < 0)
		return "this takes a whole number";
	if (count == 0)
		return "0 would allow nothing; leave out the rule instead";
	*ret_count = count;
	return NULL;
}

const char *value_duration(struct slice text, uint64_t *ret_ms)
{
	static const struct {
		struct slice name;
		uint64_t ms;
	} units[] = {{{"ms", 2}, 1}, {{"s", 1}, 1000}, {{"m", 1}, 60000}, {{"h", 1}, 3600000},
		{{"d", 1}, MS_PER_DAY}};
	uint64_t number;
	size_t digits = 0;
	while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9')
		digits++;
	struct slice name = slice_part(text, digits, text.len);
	size_t unit = 0;
	while (unit < array_size(units) && !slice_equal(name, units[unit].name))
		unit++;
	if (unit == array_size(units) ||
		slice_decimal(slice_part(text, 0, digits), UINT64_C(1) << 40, false, &number) < 0)
		return "a time is digits, then ms, s, m, h or d";
	if (number == 0 || number * units[unit].ms > VALUE_DAYS_MAX * MS_PER_DAY)
		return "a time is at least 1ms and at most 3650d";
	*ret_ms = number * units[unit].ms;
	return NULL;
}

const char *value_rate(struct slice text, uint64_t *ret_uses, uint64_t *ret_ms)
{
	struct slice number;
	struct slice unit;
	uint64_t uses;
	if (!slice_split(text, '/', &number, &unit) || unit.len != 1 ||
		memchr("smh", unit.ptr[0], 3) == NULL ||
		slice_decimal(number, VALUE_RATE_MAX, false, &uses) < 0)
		return "a rate is a number of uses in a time: 50/s, 100/m or 1000/h";
	if (uses == 0)
		return "a rate of 0 would allow nothing; leave out the rule instead";
	*ret_uses = uses;
	*ret_ms = unit.ptr[0] == 's' ? 1000 : unit.ptr[0] == 'm' ? 60000 : 3600000;
	return NULL;
}

/** Take the next of a comma list off *rest. False after the last one. */
static bool next_item(struct slice *rest, bool *more, struct slice *ret)
{
	if (!*more)
		return false;
	*ret = *rest;
	*more = slice_split(*rest, ',', ret, rest);
	return true;
}

static const char *parse_range(struct slice text, struct port_range *ret)
{
	struct slice first = text;
	struct slice last = text;
	uint64_t from;
	uint64_t to;
	(void)slice_split(text, '-', &first, &last); /* without '-' both are the whole */
	if (slice_decimal(first, 65535, false, &from) < 0 ||
		slice_decimal(last, 65535, false, &to) < 0 || from == 0)
		return "a port is 1 to 65535, a range first-last";
	if (from > to)
		return "the range ends before it starts";
	*ret = (struct port_range){(uint16_t)from, (uint16_t)to};
	return NULL;
}

const char *value_ports(
	struct slice text, struct arena *arena, const struct port_range **ret, size_t *ret_count)
{
	struct port_range ranges[VALUE_LIST_MAX];
	size_t count = 0;
	struct slice item;
	for (bool more = true; next_item(&text, &more, &item);) {
		if (count == VALUE_LIST_MAX)
			return "too many ports in one list";
		const char *wrong = parse_range(item, &ranges[count]);
		if (wrong != NULL)
			return wrong;
		count++;
	}
	struct port_range *copy = arena_alloc(arena, count, sizeof(*copy));
	if (copy == NULL)
		return "out of memory";
	memcpy(copy, ranges, count * sizeof(*copy));
	*ret = copy;
	*ret_count = count;
	return NULL;
}

int value_compare_slices(const void *a, const void *b)
{
	const struct slice *left = a;
	const struct slice *right = b;
	size_t shorter = left->len < right->len ? left->len : right->len;
	int order = shorter == 0 ? 0 : memcmp(left->ptr, right->ptr, shorter);
	return order != 0 ? order : (left->len > right->len) - (left->len < right->len);
}

const char *value_method(struct slice text)
{
	if (text.len == 0 || text.len > 32)
		return "a method is missing in the list";
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];
		if (c >= 'a' && c <= 'z')
			return "methods are written in upper case";
		if (!((c >= 'A' && c <= 'Z') || (i > 0 && (c == '-' || c == '_'))))
			return "this is not a method";
	}
	if (slice_equal(text, SLICE("CONNECT")))
		return "CONNECT opens a tunnel and is judged by host and port; no rule names it";
	if (slice_equal(text, SLICE("ANY")))
		return "ANY stands alone";
	return NULL;
}

const char *value_methods(
	struct slice text, struct arena *arena, const struct slice **ret, size_t *ret_count)
{
	struct slice list[VALUE_LIST_MAX];
	size_t count = 0;
	struct slice item;
	if (slice_equal(text, SLICE("ANY"))) {
		*ret = NULL;
		*ret_count = 0;
		return NULL;
	}
	for (bool more = true; next_item(&text, &more, &item);) {
		const char *wrong = value_method(item);
		if (wrong != NULL)
			return wrong;
		for (size_t i = 0; i < count; i++) {
			if (slice_equal(list[i], item))
				return "a method stands twice in the list";
		}
		if (count == VALUE_LIST_MAX)
			return "too many methods in one list";
		list[count++] = item;
	}
	struct slice *copy = arena_alloc(arena, count, sizeof(*copy));
	if (copy == NULL)
		return "out of memory";
	for (size_t i = 0; i < count; i++) {
		copy[i] = (struct slice){arena_dup(arena, list[i]), list[i].len};
		if (copy[i].ptr == NULL)
			return "out of memory";
	}
	qsort(copy, count, sizeof(*copy), value_compare_slices);
	*ret = copy;
	*ret_count = count;
	return NULL;
}

const char *value_addresses(
	struct slice text, struct arena *arena, const struct cidr **ret, size_t *ret_count)
{
	struct cidr list[VALUE_LIST_MAX];
	size_t count = 0;
	struct slice item;
	for (bool more = true; next_item(&text, &more, &item);) {
		if (slice_equal(item, SLICE("public")))
			continue;
		if (count == VALUE_LIST_MAX)
			return "too many prefixes in one list";
		if (cidr_parse(item, &list[count]) < 0)
			return "addr= takes public, addresses and prefixes with zero host bits";
		if (list[count].bits == 0)
			return "a prefix of length 0 opens every address; name the networks";
		count++;
	}
	struct cidr *copy = arena_alloc(arena, count, sizeof(*copy));
	if (copy == NULL)
		return "out of memory";
	memcpy(copy, list, count * sizeof(*copy));
	*ret = count == 0 ? NULL : copy;
	*ret_count = count;
	return NULL;
}

/** The name of a field, in lower case. @return NULL or what is wrong. */
static const char *parse_field(struct slice text, struct arena *arena, struct slice *ret)
{
	char *copy = arena_dup(arena, text);
	if (copy == NULL)
		return "out of memory";
	for (size_t i = 0; i < text.len; i++) {
		char c = copy[i] = ascii_lower(copy[i]);
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
			    (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL)))
			return "this is not the name of a header field";
	}
	*ret = (struct slice){copy, text.len};
	if (text.len == 0)
		return "the name of a header field is missing in the list";
	return slice_equal(*ret, SLICE("host")) ? "every request has a Host field" : NULL;
}

const char *value_fields(
	struct slice text, struct arena *arena, const struct slice **ret, size_t *ret_count)
{
	struct slice *list = arena_alloc(arena, VALUE_LIST_MAX, sizeof(*list));
	size_t count = 0;
	struct slice item;
	if (list == NULL)
		return "out of memory";
	for (bool more = true; next_item(&text, &more, &item);) {
		if (count == VALUE_LIST_MAX)
			return "too many fields in one list";
		const char *wrong = parse_field(item, arena, &list[count]);
		if (wrong != NULL)
			return wrong;
		for (size_t i = 0; i < count; i++) {
			if (slice_equal(list[i], list[count]))
				return "a field stands twice in the list";
		}
		count++;
	}
	qsort(list, count, sizeof(*list), value_compare_slices);
	*ret = list;
	*ret_count = count;
	return NULL;
}

const char *value_name(struct slice text)
{
	if (text.len == 0 || text.len > VALUE_NAME_BYTES_MAX)
		return "a name has 1 to 63 characters";
	for (size_t i = 0; i < text.len; i++) {
		char c = ascii_lower(text.ptr[i]);
		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
			    c == '-'))
			return "a name is made of letters, digits, '.', '_' and '-'";
	}
	return NULL;
}
