/* IP addresses as bytes, and the classes of special addresses. Text is parsed here and nowhere else. */
#ifndef ECLUSA_COMMON_ADDRESS_H
#define ECLUSA_COMMON_ADDRESS_H

#include "common/slice.h"

#include <sys/socket.h>

/** One address. family is 4 or 6; IPv4 uses bytes[0..3] and the rest is zero. */
struct address {
	uint8_t family;
	uint8_t bytes[16];
};

/** A prefix; host bits of @base are zero. */
struct cidr {
	struct address base;
	uint8_t bits;
};

/** Where an address leads. Everything but PUBLIC is refused unless a rule's addr= opens it. */
enum address_class {
	ADDRESS_PUBLIC,
	ADDRESS_PRIVATE,    /* RFC 1918, RFC 6598, ULA */
	ADDRESS_LOOPBACK,   /* 127/8, ::1, 0/8, :: */
	ADDRESS_LINK_LOCAL, /* 169.254/16, fe80::/10 */
	ADDRESS_METADATA,   /* cloud metadata and platform endpoints, some of which look public */
	ADDRESS_SPECIAL, /* every other IANA special-purpose, multicast, reserved, IPv4-in-IPv6 */
	ADDRESS_CLASS_COUNT
};

/** A line of the table of special addresses. More specific lines come first. */
struct address_range {
	struct cidr prefix;
	enum address_class class;
	const char *name; /* as IANA calls it */
};

#define ADDRESS_TEXT_BYTES 46

/** Strict dotted quad (four decimal octets, no leading zeros) or RFC 4291 text without a zone. */
int address_parse(struct slice text, struct address *ret);
int address_parse_v4(struct slice text, struct address *ret);
int address_parse_v6(struct slice text, struct address *ret);
/** Canonical text (RFC 5952 for IPv6). @return to */
char *address_format(const struct address *a, char to[static ADDRESS_TEXT_BYTES]);
bool address_equal(const struct address *a, const struct address *b);
/** "addr" or "addr/bits"; host bits must be zero. @return 0, -EINVAL. */
int cidr_parse(struct slice text, struct cidr *ret);
bool cidr_contains(const struct cidr *c, const struct address *a);

/**
 * Class of an address by the table. IPv6 forms that carry an IPv4 address (mapped, compatible,
 * NAT64, 6to4, Teredo) are SPECIAL whatever they carry. Sources: IANA special-purpose registries.
 */
enum address_class address_classify(const struct address *a);
/**
 * The IPv4 address that packets to an IPv6 one end at: of a mapped, translated, NAT64 (RFC 6052, its prefixes of 96 bits) or 6to4 address.
 * @return whether it is one
 */
bool address_carried_v4(const struct address *a, struct address *ret);
const char *address_class_name(enum address_class class);
/** The table, for packet filters; more specific lines first. */
const struct address_range *address_ranges(size_t *ret_count);

/** To and from socket addresses; port in host order. */
socklen_t address_to_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *ret);
int address_from_sockaddr(const struct sockaddr *sa, struct address *ret, uint16_t *ret_port);
/** "ADDR:PORT" or "[ADDR]:PORT"; with @default_port != 0 the port may be missing. */
int address_parse_endpoint(
	struct slice text, uint16_t default_port, struct address *ret, uint16_t *ret_port);

#endif
