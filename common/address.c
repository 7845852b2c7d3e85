/* See address.h. */
#include "common/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

int address_parse_v4(struct slice text, struct address *ret)
{
	struct address a = {.family = 4};
	struct slice rest = text;
	for (int i = 0; i < 4; i++) {
		struct slice part = rest;
		if (i < 3 && !slice_split(rest, '.', &part, &rest))
			return -EINVAL;
		uint64_t octet;
		if (part.len > 3 || slice_decimal(part, 255, false, &octet) < 0)
			return -EINVAL;
		a.bytes[i] = (uint8_t)octet;
	}
	*ret = a;
	return 0;
}

int address_parse_v6(struct slice text, struct address *ret)
{
	char copy[ADDRESS_TEXT_BYTES];
	struct address a = {.family = 6};
	if (memchr(text.ptr == NULL ? "" : text.ptr, '\0', text.len) != NULL ||
		slice_copy(text, copy, sizeof(copy)) < 0 || inet_pton(AF_INET6, copy, a.bytes) != 1)
		return -EINVAL;
	*ret = a;
	return 0;
}

int address_parse(struct slice text, struct address *ret)
{
	return slice_find(text, ':') >= 0 ? address_parse_v6(text, ret)
					  : address_parse_v4(text, ret);
}

/** @return where the text ends */
static char *format_octet(uint8_t octet, char *to)
{
	if (octet >= 100)
		*to++ = (char)('0' + octet / 100);
	if (octet >= 10)
		*to++ = (char)('0' + octet / 10 % 10);
	*to++ = (char)('0' + octet % 10);
	return to;
}

char *address_format(const struct address *a, char to[static ADDRESS_TEXT_BYTES])
{
	char *at = to;
	if (a->family != 4) {
		if (inet_ntop(AF_INET6, a->bytes, to, ADDRESS_TEXT_BYTES) == NULL)
			to[0] = '\0';
		return to;
	}
	for (size_t i = 0; i < 4; i++) { /* the log has several of each request */
		if (i > 0)
			*at++ = '.';
		at = format_octet(a->bytes[i], at);
	}
	*at = '\0';
	return to;
}

bool address_equal(const struct address *a, const struct address *b)
{
	return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool cidr_contains(const struct cidr *c, const struct address *a)
{
	if (c->base.family != a->family)
		return false;
	size_t whole = c->bits / 8;
	unsigned rest = c->bits % 8;
	if (memcmp(c->base.bytes, a->bytes, whole) != 0)
		return false;
	if (rest == 0)
		return true;
	uint8_t mask = (uint8_t)(0xff << (8 - rest));
	return ((c->base.bytes[whole] ^ a->bytes[whole]) & mask) == 0;
}

static bool cidr_host_bits_zero(const struct cidr *c)
{
	unsigned width = c->base.family == 4 ? 32 : 128;
	for (unsigned bit = c->bits; bit < width; bit++) {
		if ((c->base.bytes[bit / 8] >> (7 - bit % 8) & 1) != 0)
			return false;
	}
	return true;
}

int cidr_parse(struct slice text, struct cidr *ret)
{
	struct cidr c;
	struct slice base = text;
	struct slice bits;
	bool prefixed = slice_split(text, '/', &base, &bits);
	if (address_parse(base, &c.base) < 0)
		return -EINVAL;
	uint64_t width = c.base.family == 4 ? 32 : 128;
	uint64_t value = width;
	if (prefixed && slice_decimal(bits, width, false, &value) < 0)
		return -EINVAL;
	c.bits = (uint8_t)value;
	if (!cidr_host_bits_zero(&c))
		return -EINVAL;
	*ret = c;
	return 0;
}

#define V4(a, b, c, d, n)                                                                          \
	{                                                                                          \
		{4, {a, b, c, d}}, n                                                               \
	}
#define V6(n, ...)                                                                                 \
	{                                                                                          \
		{6, {__VA_ARGS__}}, n                                                              \
	}

/* IANA IPv4 and IPv6 special-purpose address registries, plus platform endpoints. */
static const struct address_range ranges[] = {
	{V4(169, 254, 169, 254, 32), ADDRESS_METADATA, "instance metadata"},
	{V4(169, 254, 170, 2, 32), ADDRESS_METADATA, "task metadata"},
	{V4(169, 254, 170, 23, 32), ADDRESS_METADATA, "pod identity metadata"},
	{V4(100, 100, 100, 200, 32), ADDRESS_METADATA, "instance metadata"},
	{V4(168, 63, 129, 16, 32), ADDRESS_METADATA, "platform endpoint"},
	{V4(192, 0, 0, 192, 32), ADDRESS_METADATA, "instance metadata"},
	{V4(0, 0, 0, 0, 8), ADDRESS_LOOPBACK, "this network"},
	{V4(10, 0, 0, 0, 8), ADDRESS_PRIVATE, "private use"},
	{V4(100, 64, 0, 0, 10), ADDRESS_PRIVATE, "shared address space"},
	{V4(127, 0, 0, 0, 8), ADDRESS_LOOPBACK, "loopback"},
	{V4(169, 254, 0, 0, 16), ADDRESS_LINK_LOCAL, "link local"},
	{V4(172, 16, 0, 0, 12), ADDRESS_PRIVATE, "private use"},
	{V4(192, 168, 0, 0, 16), ADDRESS_PRIVATE, "private use"},
	{V4(192, 0, 0, 0, 24), ADDRESS_SPECIAL, "IETF protocol assignments"},
	{V4(192, 0, 2, 0, 24), ADDRESS_SPECIAL, "documentation"},
	{V4(192, 31, 196, 0, 24), ADDRESS_SPECIAL, "AS112-v4"},
	{V4(192, 52, 193, 0, 24), ADDRESS_SPECIAL, "AMT"},
	{V4(192, 88, 99, 0, 24), ADDRESS_SPECIAL, "6to4 relay anycast"},
	{V4(192, 175, 48, 0, 24), ADDRESS_SPECIAL, "AS112 service"},
	{V4(198, 18, 0, 0, 15), ADDRESS_SPECIAL, "benchmarking"},
	{V4(198, 51, 100, 0, 24), ADDRESS_SPECIAL, "documentation"},
	{V4(203, 0, 113, 0, 24), ADDRESS_SPECIAL, "documentation"},
	{V4(224, 0, 0, 0, 4), ADDRESS_SPECIAL, "multicast"},
	{V4(240, 0, 0, 0, 4), ADDRESS_SPECIAL, "reserved"},
	{V6(128, 0xfd, 0, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x54), ADDRESS_METADATA,
		"instance metadata"},
	{V6(128, 0xfd, 0x20, 0, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x54), ADDRESS_METADATA,
		"instance metadata"},
	{V6(128, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1), ADDRESS_LOOPBACK, "loopback"},
	{V6(128, 0), ADDRESS_LOOPBACK, "unspecified"},
	{V6(7, 0xfc), ADDRESS_PRIVATE, "unique local"},
	{V6(10, 0xfe, 0x80), ADDRESS_LINK_LOCAL, "link local"},
	{V6(10, 0xfe, 0xc0), ADDRESS_PRIVATE, "site local"},
	{V6(8, 0xff), ADDRESS_SPECIAL, "multicast"},
	{V6(96, 0), ADDRESS_SPECIAL, "IPv4-compatible"},
	{V6(96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), ADDRESS_SPECIAL, "IPv4-mapped"},
	{V6(96, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0), ADDRESS_SPECIAL, "IPv4-translated"},
	{V6(96, 0, 0x64, 0xff, 0x9b), ADDRESS_SPECIAL, "NAT64"},
	{V6(48, 0, 0x64, 0xff, 0x9b, 0, 1), ADDRESS_SPECIAL, "NAT64 local"},
	{V6(64, 0x01), ADDRESS_SPECIAL, "discard only"},
	{V6(64, 0x01, 0, 0, 0, 0, 0, 0, 1), ADDRESS_SPECIAL, "dummy prefix"},
	{V6(32, 0x20, 0x01, 0, 0), ADDRESS_SPECIAL, "Teredo"},
	{V6(23, 0x20, 0x01), ADDRESS_SPECIAL, "IETF protocol assignments"},
	{V6(32, 0x20, 0x01, 0x0d, 0xb8), ADDRESS_SPECIAL, "documentation"},
	{V6(16, 0x20, 0x02), ADDRESS_SPECIAL, "6to4"},
	{V6(48, 0x26, 0x20, 0, 0x4f, 0x80), ADDRESS_SPECIAL, "AS112 service"},
	{V6(20, 0x3f, 0xff), ADDRESS_SPECIAL, "documentation"},
	{V6(16, 0x5f), ADDRESS_SPECIAL, "segment routing"},
};

const struct address_range *address_ranges(size_t *ret_count)
{
	*ret_count = sizeof(ranges) / sizeof(ranges[0]);
	return ranges;
}

enum address_class address_classify(const struct address *a)
{
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		if (cidr_contains(&ranges[i].prefix, a))
			return ranges[i].class;
	}
	/* Only 2000::/3 is global unicast: whatever lies outside it is nobody's public address. */
	if (a->family == 6 && (a->bytes[0] & 0xe0) != 0x20)
		return ADDRESS_SPECIAL;
	return ADDRESS_PUBLIC;
}

bool address_carried_v4(const struct address *a, struct address *ret)
{
	static const struct {
		struct cidr prefix;
		size_t at; /* of its four bytes */
	} carriers[] = {
		{V6(96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff), 12},
		{V6(96, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0), 12},
		{V6(96, 0, 0x64, 0xff, 0x9b), 12},
		{V6(48, 0, 0x64, 0xff, 0x9b, 0, 1), 12},
		{V6(16, 0x20, 0x02), 2},
	};
	for (size_t i = 0; i < sizeof(carriers) / sizeof(carriers[0]); i++) {
		if (!cidr_contains(&carriers[i].prefix, a))
			continue;
		*ret = (struct address){.family = 4};
		memcpy(ret->bytes, a->bytes + carriers[i].at, 4);
		return true;
	}
	return false;
}

const char *address_class_name(enum address_class class)
{
	static const char *const names[ADDRESS_CLASS_COUNT] = {
		[ADDRESS_PUBLIC] = "public",
		[ADDRESS_PRIVATE] = "private",
		[ADDRESS_LOOPBACK] = "loopback",
		[ADDRESS_LINK_LOCAL] = "link-local",
		[ADDRESS_METADATA] = "metadata",
		[ADDRESS_SPECIAL] = "special",
	};
	return class < ADDRESS_CLASS_COUNT ? names[class] : "unknown";
}

socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (a->family == 4) {
		struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&in.sin_addr, a->bytes, 4);
		memcpy(ret, &in, sizeof(in));
		return sizeof(in);
	}
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	memcpy(&in6.sin6_addr, a->bytes, 16);
	memcpy(ret, &in6, sizeof(in6));
	return sizeof(in6);
}

int address_from_sockaddr(const struct sockaddr *sa, struct address *ret, uint16_t *ret_port)
{
	struct address a = {0};
	if (sa->sa_family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, sa, sizeof(in));
		a.family = 4;
		memcpy(a.bytes, &in.sin_addr, 4);
		*ret = a;
		*ret_port = ntohs(in.sin_port);
		return 0;
	}
	if (sa->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;
		memcpy(&in6, sa, sizeof(in6));
		a.family = 6;
		memcpy(a.bytes, &in6.sin6_addr, 16);
		*ret = a;
		*ret_port = ntohs(in6.sin6_port);
		return 0;
	}
	return -EAFNOSUPPORT;
}

/** "[v6]" and what follows it, or "v4" and what follows its first colon. *ret_port empty: none was given. */
static int endpoint_split(
	struct slice text, struct slice *ret_host, struct slice *ret_port, bool *ret_bracketed)
{
	struct slice rest;
	if (slice_starts(text, SLICE("["))) {
		ptrdiff_t close_at = slice_find(text, ']');
		if (close_at < 0)
			return -EINVAL;
		*ret_host = slice_part(text, 1, (size_t)close_at);
		*ret_bracketed = true;
		rest = slice_part(text, (size_t)close_at + 1, text.len);
	} else {
		ptrdiff_t colon_at = slice_find(text, ':');
		size_t host_len = colon_at < 0 ? text.len : (size_t)colon_at;
		*ret_host = slice_part(text, 0, host_len);
		*ret_bracketed = false;
		rest = slice_part(text, host_len, text.len);
	}
	if (rest.len == 1 || (rest.len > 0 && rest.ptr[0] != ':'))
		return -EINVAL;
	*ret_port = slice_part(rest, 1, rest.len);
	return 0;
}

int address_parse_endpoint(
	struct slice text, uint16_t default_port, struct address *ret, uint16_t *ret_port)
{
	struct slice host;
	struct slice port;
	bool bracketed;
	if (endpoint_split(text, &host, &port, &bracketed) < 0)
		return -EINVAL;
	struct address a;
	uint64_t number = default_port;
	if ((bracketed ? address_parse_v6(host, &a) : address_parse_v4(host, &a)) < 0)
		return -EINVAL;
	if (port.len > 0 && slice_decimal(port, 65535, false, &number) < 0)
		return -EINVAL;
	if (number == 0)
		return -EINVAL;
	*ret = a;
	*ret_port = (uint16_t)number;
	return 0;
}
