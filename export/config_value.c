/* See config_value.h. */
#include "export/config_value.h"

#include "common/address.h"
#include "common/cleanup.h"
#include "policy/value.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define PORT_MAX 65535

/** A value that is being taken. */
struct taking {
	const struct sink_setting *setting;
	struct slice text;
	struct sink_value *value;
	char *room; /* CONFIG_VALUE_SAYS_BYTES */
};

static const char *take_text(struct taking *t)
{
	for (size_t i = 0; i < t->text.len; i++) {
		if (t->text.ptr[i] <= ' ' || t->text.ptr[i] > '~')
			return "this takes printable ASCII";
	}
	return NULL;
}

static const char *take_flag(struct taking *t)
{
	bool yes = slice_equal(t->text, SLICE("yes"));
	if (!yes && !slice_equal(t->text, SLICE("no")))
		return "this is yes or no";
	t->value->number = yes;
	return NULL;
}

/** @number is what the text says, in the unit of least and most. */
static const char *take_within(struct taking *t, uint64_t number, const char *unit)
{
	const struct sink_setting *s = t->setting;
	if (number < s->least || (s->most != 0 && number > s->most)) {
		(void)snprintf(t->room, CONFIG_VALUE_SAYS_BYTES,
			"this is at least %" PRIu64 " and at most %" PRIu64 "%s", s->least,
			s->most != 0 ? s->most : UINT64_MAX, unit);
		return t->room;
	}
	t->value->number = number;
	return NULL;
}

static const char *take_count(struct taking *t)
{
	uint64_t number;
	if (slice_decimal(t->text, UINT32_MAX, false, &number) < 0)
		return "this takes a whole number";
	return take_within(t, number, "");
}

static const char *take_bytes(struct taking *t)
{
	uint64_t number;
	const char *wrong = value_size(t->text, &number);
	return wrong != NULL ? wrong : take_within(t, number, " bytes");
}

static const char *take_duration(struct taking *t)
{
	uint64_t number;
	const char *wrong = value_duration(t->text, &number);
	return wrong != NULL ? wrong : take_within(t, number, " ms");
}

static const char *take_word(struct taking *t)
{
	size_t used = 0;
	for (size_t i = 0; t->setting->words[i] != NULL; i++) {
		if (slice_equal(t->text, slice_of(t->setting->words[i]))) {
			t->value->number = i;
			return NULL;
		}
		int len = snprintf(t->room + used, CONFIG_VALUE_SAYS_BYTES - used, "%s%s",
			i == 0 ? "this is one of " : ", ", t->setting->words[i]);
		if (len > 0 && used + (size_t)len < CONFIG_VALUE_SAYS_BYTES)
			used += (size_t)len;
	}
	return t->room;
}

/** Letters, digits, '-', '_' and '.', with no empty label: what a look-up takes. */
static bool is_host_name(struct slice name)
{
	char before = '.';
	for (size_t i = 0; i < name.len; i++) {
		char c = ascii_lower(name.ptr[i]);
		bool plain =
			(c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
		if (!plain && (c != '.' || before == '.'))
			return false;
		before = c;
	}
	return name.len > 0 && name.len <= 253 && before != '.';
}

/** Split HOST:PORT; an IPv6 address stands in brackets, which are left out. */
static bool endpoint_split(struct slice text, struct slice *ret_host, struct slice *ret_port)
{
	if (text.len > 0 && text.ptr[0] == '[') {
		ptrdiff_t end = slice_find(text, ']');
		if (end < 0 || (size_t)end + 1 >= text.len || text.ptr[end + 1] != ':')
			return false;
		*ret_host = slice_part(text, 1, (size_t)end);
		*ret_port = slice_part(text, (size_t)end + 2, text.len);
		return slice_find(*ret_host, ':') >= 0;
	}
	return slice_split(text, ':', ret_host, ret_port);
}

static const char *take_endpoint(struct taking *t)
{
	struct slice host, port;
	struct address ignored;
	bool bracket = t->text.len > 0 && t->text.ptr[0] == '[';
	if (!endpoint_split(t->text, &host, &port) ||
		slice_decimal(port, PORT_MAX, false, &t->value->number) < 0 ||
		t->value->number == 0)
		return "this is NAME:PORT, ADDRESS:PORT or [ADDRESS]:PORT";
	if (bracket ? address_parse(host, &ignored) < 0 : !is_host_name(host))
		return "the part before the port is no host name and no address";
	return slice_copy(host, t->value->text, sizeof(t->value->text)) < 0 ? "too long" : NULL;
}

static const char *take_url(struct taking *t)
{
	static const char form[] =
		"this is http://HOST[:PORT][/PATH] or https://..., without user, "
		"query and fragment";
	struct slice rest, host, port;
	if (slice_starts(t->text, SLICE("https://")))
		rest = slice_part(t->text, 8, t->text.len);
	else if (slice_starts(t->text, SLICE("http://")))
		rest = slice_part(t->text, 7, t->text.len);
	else
		return form;
	ptrdiff_t slash = slice_find(rest, '/');
	struct slice authority = slash < 0 ? rest : slice_part(rest, 0, (size_t)slash);
	struct address ignored;
	uint64_t number;
	if (take_text(t) != NULL || slice_find(t->text, '?') >= 0 || slice_find(t->text, '#') >= 0)
		return form;
	bool bracket = authority.len > 0 && authority.ptr[0] == '[';
	if (bracket && slice_ends(authority, SLICE("]")))
		return address_parse(slice_part(authority, 1, authority.len - 1), &ignored) < 0
			? form
			: NULL;
	if (!endpoint_split(authority, &host, &port))
		return is_host_name(authority) ? NULL : form;
	if (slice_decimal(port, PORT_MAX, false, &number) < 0 || number == 0)
		return form;
	return (bracket ? address_parse(host, &ignored) == 0 : is_host_name(host)) ? NULL : form;
}

static const char *take_path(struct taking *t)
{
	if (t->text.len < 2 || t->text.ptr[0] != '/' || slice_ends(t->text, SLICE("/")))
		return "write an absolute path";
	return NULL;
}

const char *config_value_take(const struct sink_setting *setting, struct slice text,
	struct sink_value *ret, char room[static CONFIG_VALUE_SAYS_BYTES])
{
	static const char *(*const types[])(struct taking *) = {
		[SETTING_TEXT] = take_text,
		[SETTING_FLAG] = take_flag,
		[SETTING_COUNT] = take_count,
		[SETTING_BYTES] = take_bytes,
		[SETTING_DURATION] = take_duration,
		[SETTING_WORD] = take_word,
		[SETTING_ENDPOINT] = take_endpoint,
		[SETTING_URL] = take_url,
		[SETTING_FILE] = take_path,
		[SETTING_SECRET] = take_path,
		[SETTING_OUTPUT] = take_path,
		[SETTING_SOCKET] = take_path,
	};
	static_assert(array_size(types) == SETTING_TYPE_COUNT, "a function for every type");
	struct sink_value made = {.number = 0};
	struct taking t = {setting, text, &made, room};
	if (text.len == 0 || slice_copy(text, made.text, sizeof(made.text)) < 0)
		return "a value has 1 to 511 bytes";
	const char *wrong = types[setting->type](&t);
	if (wrong == NULL)
		*ret = made;
	return wrong;
}
