/* See hello.h. Nothing is copied but the message out of its records, to where a cursor can read it. */
#include "proxy/hello.h"

#define RECORD_HEAD_BYTES    5
#define RECORD_BYTES_MAX     16384 /* RFC 8446 5.1 */
#define HANDSHAKE_HEAD_BYTES 4
#define RANDOM_BYTES         32
#define SESSION_ID_MAX       32
#define SERVER_RANDOM_AT     6 /* in a ServerHello: type, length, version */
#define EXTENSIONS_MAX       128

enum record_type {
	RECORD_CHANGE_CIPHER_SPEC = 20,
	RECORD_ALERT = 21,
	RECORD_HANDSHAKE = 22,
	RECORD_APPLICATION_DATA = 23,
};

enum handshake_type { HANDSHAKE_CLIENT_HELLO = 1, HANDSHAKE_SERVER_HELLO = 2 };

enum extension_type {
	EXTENSION_SERVER_NAME = 0,
	EXTENSION_SUPPORTED_VERSIONS = 43,
	EXTENSION_ECH = 0xfe0d,
};

/** A vector whose length is so many bytes long. */
static struct slice take_vector(struct slice_cursor *c, size_t length_bytes, size_t min, size_t max)
{
	size_t len = slice_take_number(c, length_bytes);
	c->failed |= len < min || len > max;
	return c->failed ? (struct slice){NULL, 0} : slice_take(c, len);
}

/** RFC 6066 3: exactly one name, of type host_name. */
static bool name_parse(struct slice in, struct hello *ret)
{
	struct slice_cursor c = {.rest = in};
	struct slice_cursor list = {.rest = take_vector(&c, 2, 1, SIZE_MAX)};
	if (c.failed || c.rest.len > 0 || slice_take_number(&list, 1) != 0)
		return false;
	struct slice name = take_vector(&list, 2, 1, HOST_NAME_BYTES);
	if (list.failed || list.rest.len > 0 || host_parse(name, &ret->name) < 0)
		return false;
	ret->has_name = true;
	return true;
}

static bool versions_parse(struct slice in, struct hello *ret)
{
	struct slice_cursor c = {.rest = in};
	struct slice_cursor list = {.rest = take_vector(&c, 1, 2, 254)};
	if (c.failed || c.rest.len > 0 || list.rest.len % 2 != 0)
		return false;
	while (list.rest.len > 0)
		ret->tls13 |= slice_take_number(&list, 2) == 0x0304;
	return true;
}

static bool extension_parse(uint32_t type, struct slice data, struct hello *ret)
{
	switch (type) {
	case EXTENSION_SERVER_NAME:
		return name_parse(data, ret);
	case EXTENSION_SUPPORTED_VERSIONS:
		return versions_parse(data, ret);
	case EXTENSION_ECH:
		ret->ech = true;
		return true;
	default:
		return true; /* GREASE (RFC 8701) and all that say nothing of the name */
	}
}

/** Each type once (RFC 8446 4.2): of two, one reader takes the first and another the last. */
static bool extensions_parse(struct slice in, struct hello *ret)
{
	struct slice_cursor c = {.rest = in};
	uint16_t seen[EXTENSIONS_MAX];
	size_t count = 0;
	while (c.rest.len > 0 && !c.failed) {
		uint32_t type = slice_take_number(&c, 2);
		struct slice data = take_vector(&c, 2, 0, SIZE_MAX);
		if (c.failed || count == EXTENSIONS_MAX)
			return false;
		for (size_t i = 0; i < count; i++) {
			if (seen[i] == type)
				return false;
		}
		seen[count++] = (uint16_t)type;
		if (!extension_parse(type, data, ret))
			return false;
	}
	return !c.failed;
}

/** The message's body (RFC 8446 4.1.2, RFC 5246 7.4.1.2); all of it. */
static bool body_parse(struct slice in, struct hello *ret)
{
	struct slice_cursor c = {.rest = in};
	uint32_t version = slice_take_number(&c, 2);
	(void)slice_take(&c, RANDOM_BYTES);
	(void)take_vector(&c, 1, 0, SESSION_ID_MAX);
	struct slice ciphers = take_vector(&c, 2, 2, SIZE_MAX);
	(void)take_vector(&c, 1, 1, 255); /* compression */
	if (c.failed || version >> 8 != 3 || ciphers.len % 2 != 0)
		return false;
	if (c.rest.len == 0)
		return true; /* no extensions at all */
	struct slice extensions = take_vector(&c, 2, 0, SIZE_MAX);
	return !c.failed && c.rest.len == 0 && extensions_parse(extensions, ret);
}

enum record_kind { RECORD_MORE, RECORD_GOOD, RECORD_BAD };

/** The record at an offset: its type and payload, if it is there in whole. */
static enum record_kind record_at(
	struct slice in, size_t at, uint8_t *ret_type, struct slice *ret_payload)
{
	struct slice head = slice_part(in, at, at + RECORD_HEAD_BYTES);
	if (head.len > 1 && head.ptr[1] != 3)
		return RECORD_BAD;
	if (head.len > 2 && (uint8_t)head.ptr[2] > 4)
		return RECORD_BAD;
	if (head.len > 0)
		*ret_type = (uint8_t)head.ptr[0];
	if (head.len < RECORD_HEAD_BYTES)
		return RECORD_MORE;
	size_t len = slice_number(slice_part(head, 3, 5));
	size_t max =
		*ret_type == RECORD_APPLICATION_DATA ? RECORD_BYTES_MAX + 256 : RECORD_BYTES_MAX;
	if (len == 0 || len > max)
		return RECORD_BAD;
	*ret_payload = slice_part(in, at + RECORD_HEAD_BYTES, at + RECORD_HEAD_BYTES + len);
	return ret_payload->len == len ? RECORD_GOOD : RECORD_MORE;
}

/** The message's whole length by its first bytes; 0: they are not all there. */
static size_t message_length(const struct hello_scan *scan)
{
	if (scan->got < HANDSHAKE_HEAD_BYTES)
		return 0;
	const struct slice head = {(const char *)scan->head, HANDSHAKE_HEAD_BYTES};
	return HANDSHAKE_HEAD_BYTES + slice_number(slice_part(head, 1, HANDSHAKE_HEAD_BYTES));
}

/** One more record of the message. @return false: it is none that may be there. */
static bool scan_add(struct hello_scan *scan, struct slice payload)
{
	for (size_t i = 0; i < payload.len && scan->got + i < HANDSHAKE_HEAD_BYTES; i++)
		scan->head[scan->got + i] = (uint8_t)payload.ptr[i];
	if (scan->got == 0)
		scan->first = scan->at;
	scan->got += payload.len;
	scan->at += RECORD_HEAD_BYTES + payload.len;
	size_t len = message_length(scan);
	/* What comes behind it in its last record would be read by nobody here. */
	return scan->head[0] == HANDSHAKE_CLIENT_HELLO && len <= HELLO_BYTES_MAX &&
		(len == 0 || scan->got <= len);
}

/** Go on to the message's end. HELLO_DONE: it is there. */
static enum hello_result scan_records(struct hello_scan *scan, struct slice in)
{
	while (scan->got < HANDSHAKE_HEAD_BYTES || scan->got < message_length(scan)) {
		uint8_t type = RECORD_HANDSHAKE;
		struct slice payload = {0};
		enum record_kind kind = record_at(in, scan->at, &type, &payload);
		bool skipped = scan->again && scan->got == 0 &&
			(type == RECORD_CHANGE_CIPHER_SPEC || type == RECORD_APPLICATION_DATA ||
				type == RECORD_ALERT);
		if (kind == RECORD_BAD || (type != RECORD_HANDSHAKE && !skipped))
			return scan->at == 0 && !scan->again ? HELLO_NOT_TLS : HELLO_MALFORMED;
		if (kind == RECORD_MORE)
			return in.len < HELLO_FLIGHT_BYTES_MAX ? HELLO_MORE : HELLO_MALFORMED;
		if (!skipped && !scan_add(scan, payload))
			return HELLO_MALFORMED;
		if (skipped)
			scan->at += RECORD_HEAD_BYTES + payload.len;
		if (type == RECORD_ALERT)
			return HELLO_ALERT;
	}
	return HELLO_DONE;
}

enum hello_result hello_parse(struct hello_scan *scan, struct slice in, struct hello *ret)
{
	char message[HELLO_BYTES_MAX];
	size_t len = 0;
	enum hello_result found = scan_records(scan, in);
	if (found != HELLO_DONE)
		return found;
	for (size_t at = scan->first; at < scan->at;) {
		uint8_t type = RECORD_HANDSHAKE;
		struct slice payload = {0};
		if (record_at(in, at, &type, &payload) != RECORD_GOOD ||
			payload.len > sizeof(message) - len)
			return HELLO_MALFORMED; /* other bytes than those that were scanned */
		memcpy(message + len, payload.ptr, payload.len);
		len += payload.len;
		at += RECORD_HEAD_BYTES + payload.len;
	}
	if (len < HANDSHAKE_HEAD_BYTES)
		return HELLO_MALFORMED; /* likewise */
	struct hello hello = {.len = scan->at};
	if (!body_parse((struct slice){message + HANDSHAKE_HEAD_BYTES, len - HANDSHAKE_HEAD_BYTES},
		    &hello))
		return HELLO_MALFORMED;
	*ret = hello;
	return HELLO_DONE;
}

enum hello_answer hello_answer_of(struct slice in)
{
	/* SHA-256 of "HelloRetryRequest" (RFC 8446 4.1.3) */
	static const uint8_t retry[RANDOM_BYTES] = {0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11,
		0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
		0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c};
	size_t got = 0;
	for (size_t at = 0; got < SERVER_RANDOM_AT + RANDOM_BYTES;) {
		/* Byte by byte, so that what differs is known at once and nothing else waits. */
		struct slice head = slice_part(in, at, at + RECORD_HEAD_BYTES);
		if (head.len > 0 && head.ptr[0] != RECORD_HANDSHAKE)
			return HELLO_ANSWER_OTHER;
		if (head.len < RECORD_HEAD_BYTES)
			return in.len < HELLO_FLIGHT_BYTES_MAX ? HELLO_ANSWER_MORE
							       : HELLO_ANSWER_OTHER;
		size_t len = slice_number(slice_part(head, 3, 5));
		struct slice payload =
			slice_part(in, at + RECORD_HEAD_BYTES, at + RECORD_HEAD_BYTES + len);
		for (size_t i = 0; i < payload.len && got < SERVER_RANDOM_AT + RANDOM_BYTES;
			i++, got++) {
			uint8_t byte = (uint8_t)payload.ptr[i];
			if (got == 0 && byte != HANDSHAKE_SERVER_HELLO)
				return HELLO_ANSWER_OTHER;
			if (got >= SERVER_RANDOM_AT && byte != retry[got - SERVER_RANDOM_AT])
				return HELLO_ANSWER_OTHER;
		}
		at += RECORD_HEAD_BYTES + len;
	}
	return HELLO_ANSWER_RETRY;
}
