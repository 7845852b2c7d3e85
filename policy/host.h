/*
 * The one form of a host: what is compared, resolved, dialled and logged. host_parse() is its only
 * maker; its input is a peer's bytes. No resolver, no I/O.
 */
#ifndef ECLUSA_POLICY_HOST_H
#define ECLUSA_POLICY_HOST_H

#include "common/address.h"

#define HOST_NAME_BYTES 254 /* 253 octets (RFC 1035) and NUL */

enum host_kind { HOST_NAME, HOST_ADDRESS };

/** A host. @name is canonical text: lower case, no trailing dot; for an address its canonical text. */
struct host {
	enum host_kind kind;
	char name[HOST_NAME_BYTES];
	struct address address; /* HOST_ADDRESS only */
};

/**
 * Parse a host as CONNECT, a URL, Host or SNI spell it. Accepts LDH names with underscore
 * (labels 1-63, at most one trailing dot, which is removed), strict dotted quads, and IPv6 in brackets.
 * Refuses everything else: percent, control and non-ASCII bytes, empty labels, zones, numeric spellings
 * (a last label that is all digits or starts with 0x), brackets around anything but IPv6.
 * @return 0 or -EINVAL. Source: cases A01-A09, B06, B07.
 */
int host_parse(struct slice text, struct host *ret);

/** "host:port"; with @default_port != 0 the port may be missing. -EINVAL: malformed. Port 1-65535, no signs, blanks or leading zeros. */
int authority_parse(struct slice text, uint16_t default_port, struct host *ret, uint16_t *ret_port);

bool host_equal(const struct host *a, const struct host *b);

#endif
