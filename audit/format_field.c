/* See format_field.h. */
#include "audit/format_field.h"

#include "common/address.h"
#include "common/clock.h"
#include "common/reason.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define TIME_MS_MAX UINT64_C(253402300799999) /* the last millisecond of the year 9999 */
#define PATH_BYTES  128

static bool give_text(struct format_value *to, struct slice text)
{
	to->text = text;
	return text.len > 0;
}

static bool give_number(struct format_value *to, uint64_t number)
{
	int len = snprintf(to->small, sizeof(to->small), "%" PRIu64, number);
	to->is_number = true;
	to->number = number;
	return give_text(to, (struct slice){to->small, (size_t)len});
}

/** @zone what stands for UTC */
static bool give_time(struct format_value *to, uint64_t ms, const char *zone)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;
	if (ms > TIME_MS_MAX || gmtime_r(&seconds, &tm) == NULL)
		return false;
	int len = snprintf(to->small, sizeof(to->small), "%04d-%02d-%02dT%02d:%02d:%02d.%03u%s",
		tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		(unsigned)(ms % 1000), zone);
	return give_text(to, (struct slice){to->small, (size_t)len});
}

static bool give_lower(struct format_value *to, struct slice text)
{
	size_t len = text.len < sizeof(to->small) ? text.len : sizeof(to->small);
	for (size_t i = 0; i < len; i++)
		to->small[i] = ascii_lower(text.ptr[i]);
	return give_text(to, (struct slice){to->small, len});
}

static bool give_severity(struct format_value *to, uint64_t severity_id)
{
	static const unsigned char of[] = {0, 2, 3, 5, 8, 10};
	size_t last = sizeof(of) - 1;
	return give_number(to, of[severity_id < last ? severity_id : last]);
}

/** A code that is not ours, as another version writes it, stands for itself. */
static bool give_sentence(struct format_value *to, struct slice code)
{
	for (enum reason r = 0; r < REASON_COUNT; r++) {
		if (slice_equal(code, slice_of(reason_code(r))))
			return give_text(to, slice_of(reason_sentence(r)));
	}
	return give_text(to, code);
}

/** @family 0: any */
static bool give_address(struct format_value *to, struct slice text, int family)
{
	struct address address;
	return address_parse(text, &address) == 0 && (family == 0 || address.family == family) &&
		give_text(to, text);
}

static bool give_list(
	const struct audit_line *line, const char *path, size_t index, struct format_value *to)
{
	char whole[PATH_BYTES];
	struct slice before, after;
	if (index >= FORMAT_LIST_MAX || !slice_split(slice_of(path), '*', &before, &after))
		return false;
	(void)snprintf(whole, sizeof(whole), "%.*s%zu%.*s", (int)before.len, before.ptr, index,
		(int)after.len, after.ptr); /* rows are short */
	return give_text(to, audit_line_text(line, whole));
}

static bool give_label(const struct audit_line *line, const char *name, struct format_value *to)
{
	struct format_value label;
	struct slice key, value;
	for (size_t i = 0; give_list(line, "metadata.labels.*", i, &label); i++) {
		if (slice_split(label.text, ':', &key, &value) && slice_equal(key, slice_of(name)))
			return give_text(to, value);
	}
	return false;
}

/** "TLSv1.3": before and behind the 'v'. */
static bool give_tls(struct format_value *to, struct slice text, bool protocol)
{
	struct slice name, version;
	if (!slice_split(text, 'v', &name, &version))
		return false;
	return protocol ? give_lower(to, name) : give_text(to, version);
}

/** What stands behind '=' in @path, if there is something before it. */
static bool give_with(
	const struct audit_line *line, const char *path, bool ipv6, struct format_value *to)
{
	char where[PATH_BYTES];
	struct slice before, after;
	uint64_t number;
	if (!slice_split(slice_of(path), '=', &before, &after) ||
		slice_copy(before, where, sizeof(where)) < 0)
		return false;
	struct slice text = audit_line_text(line, where);
	bool there = ipv6 ? give_address(to, text, 6)
			  : text.len > 0 || audit_line_find_number(line, where, &number);
	return there && give_text(to, after);
}

static bool give_word(struct format_value *to, const char *word)
{
	return word != NULL && give_text(to, slice_of(word));
}

bool format_value(const struct audit_line *line, const struct format_field *field, size_t index,
	struct format_value *ret)
{
	const char *path = field->path;
	uint64_t n;
	ret->is_number = ret->is_true = false;
	if (index > 0 && !format_is_list(field))
		return false;
	switch (field->kind) {
	case FORMAT_TEXT:
		return give_text(ret, audit_line_text(line, path));
	case FORMAT_LOWER:
		return give_lower(ret, audit_line_text(line, path));
	case FORMAT_SENTENCE:
		return give_sentence(ret, audit_line_text(line, path));
	case FORMAT_IP:
		return give_address(ret, audit_line_text(line, path), 0);
	case FORMAT_IPV4:
		return give_address(ret, audit_line_text(line, path), 4);
	case FORMAT_IPV6:
		return give_address(ret, audit_line_text(line, path), 6);
	case FORMAT_TLS_PROTOCOL:
		return give_tls(ret, audit_line_text(line, path), true);
	case FORMAT_TLS_VERSION:
		return give_tls(ret, audit_line_text(line, path), false);
	case FORMAT_NUMBER:
		return audit_line_find_number(line, path, &n) && give_number(ret, n);
	case FORMAT_TIME:
		return audit_line_find_number(line, path, &n) && give_time(ret, n, "Z");
	case FORMAT_TIME_QRADAR:
		return audit_line_find_number(line, path, &n) && give_time(ret, n, "+0000");
	case FORMAT_NANOSECONDS:
		return audit_line_find_number(line, path, &n) && n <= INT64_MAX / NS_PER_MS &&
			give_number(ret, n * NS_PER_MS);
	case FORMAT_SEVERITY:
		return audit_line_find_number(line, path, &n) && give_severity(ret, n);
	case FORMAT_ECS_KIND:
		n = audit_line_number_at(line, path);
		return give_text(ret, n >= 4 ? SLICE("alert") : SLICE("event"));
	case FORMAT_ECS_CATEGORY:
		return give_word(ret, format_ecs_category(line, index));
	case FORMAT_ECS_TYPE:
		return give_word(ret, format_ecs_type(line, index));
	case FORMAT_FIXED:
		return give_text(ret, slice_of(path));
	case FORMAT_WITH:
		return give_with(line, path, false, ret);
	case FORMAT_WITH_IPV6:
		return give_with(line, path, true, ret);
	case FORMAT_TRUE:
		ret->is_true = true;
		return audit_line_true(line, path) && give_text(ret, SLICE("true"));
	case FORMAT_LABEL:
		return give_label(line, path, ret);
	case FORMAT_LIST:
		return give_list(line, path, index, ret);
	}
	return false;
}
