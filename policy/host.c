/* See host.h. Input: a peer's bytes. */
#include "policy/host.h"

#include <errno.h>

#define LABEL_BYTES_MAX 63

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_label_byte(char c)
{
	return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

static bool all_digits(struct slice label)
{
	for (size_t i = 0; i < label.len; i++) {
		if (!is_digit(label.ptr[i]))
			return false;
	}
	return true;
}

static bool label_valid(struct slice label)
{
	if (label.len == 0 || label.len > LABEL_BYTES_MAX)
		return false;
	for (size_t i = 0; i < label.len; i++) {
		if (!is_label_byte(ascii_lower(label.ptr[i])))
			return false;
	}
	return label.ptr[0] != '-' && label.ptr[label.len - 1] != '-';
}

/** Resolvers of the inet_aton() family read such a last label, and so the name, as a number. */
static bool label_numeric(struct slice label)
{
	return all_digits(label) || slice_starts(label, SLICE("0x")) ||
		slice_starts(label, SLICE("0X"));
}

static int host_parse_name(struct slice text, struct host *ret)
{
	if (text.len > 0 && text.ptr[text.len - 1] == '.')
		text.len--;
	if (text.len == 0 || text.len >= HOST_NAME_BYTES)
		return -EINVAL;
	struct slice label = text;
	struct slice rest = text;
	while (slice_split(rest, '.', &label, &rest)) {
		if (!label_valid(label))
			return -EINVAL;
	}
	if (!label_valid(rest) || label_numeric(rest))
		return -EINVAL;
	struct host h = {.kind = HOST_NAME};
	for (size_t i = 0; i < text.len; i++)
		h.name[i] = ascii_lower(text.ptr[i]);
	*ret = h;
	return 0;
}

static int host_from_address(const struct address *a, struct host *ret)
{
	struct host h = {.kind = HOST_ADDRESS, .address = *a};
	(void)address_format(a, h.name); /* fits: HOST_NAME_BYTES > ADDRESS_TEXT_BYTES */
	*ret = h;
	return 0;
}

int host_parse(struct slice text, struct host *ret)
{
	struct address a;
	if (text.len > 0 && text.ptr[0] == '[') {
		if (text.ptr[text.len - 1] != ']' ||
			address_parse_v6(slice_part(text, 1, text.len - 1), &a) < 0)
			return -EINVAL;
		return host_from_address(&a, ret);
	}
	if (address_parse_v4(text, &a) == 0)
		return host_from_address(&a, ret);
	return host_parse_name(text, ret);
}

/** Where the host ends: after the bracket, or before the first colon. 0: there is no such place. */
static size_t authority_host_len(struct slice text)
{
	if (slice_starts(text, SLICE("[")))
		return (size_t)(slice_find(text, ']') + 1);
	ptrdiff_t colon_at = slice_find(text, ':');
	return colon_at < 0 ? text.len : (size_t)colon_at;
}

int authority_parse(struct slice text, uint16_t default_port, struct host *ret, uint16_t *ret_port)
{
	size_t host_len = authority_host_len(text);
	struct slice rest = slice_part(text, host_len, text.len);
	uint64_t port = default_port;
	struct host h;
	if (host_len == 0 || host_parse(slice_part(text, 0, host_len), &h) < 0)
		return -EINVAL;
	if (rest.len > 0 &&
		(rest.ptr[0] != ':' ||
			slice_decimal(slice_part(rest, 1, rest.len), 65535, false, &port) < 0))
		return -EINVAL;
	if (port == 0)
		return -EINVAL;
	*ret = h;
	*ret_port = (uint16_t)port;
	return 0;
}

bool host_equal(const struct host *a, const struct host *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == HOST_ADDRESS)
		return address_equal(&a->address, &b->address);
	return strcmp(a->name, b->name) == 0;
}
