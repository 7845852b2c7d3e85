/* See socks.h. */
#include "proxy/socks.h"

#include <assert.h>
#include <stdio.h>

#define METHOD_NONE   0x00
#define METHOD_REFUSE 0xff
#define REPLY_4_NO    91 /* SOCKS4: rejected or failed */

#define REQUEST_HEAD_BYTES 4 /* version, command, reserved, kind of address */
#define PORT_BYTES         2

#define COMMAND_CONNECT 1

enum kind { KIND_IPV4 = 1, KIND_NAME = 3, KIND_IPV6 = 4 };

static uint8_t byte_at(struct slice in, size_t at)
{
	return (uint8_t)in.ptr[at];
}

enum socks_result socks_parse_greeting(struct slice in, size_t *ret_len, bool *ret_open)
{
	if (in.len > 0 && byte_at(in, 0) != SOCKS_VERSION_5)
		return SOCKS_ERROR;
	if (in.len < 2)
		return SOCKS_MORE;
	size_t count = byte_at(in, 1);
	if (count == 0)
		return SOCKS_ERROR;
	if (in.len < 2 + count)
		return SOCKS_MORE;
	*ret_len = 2 + count;
	*ret_open = slice_find(slice_part(in, 2, 2 + count), METHOD_NONE) >= 0;
	return SOCKS_DONE;
}

/** The address as people write it, in brackets where it is of version 6. */
static void address_text(struct slice bytes, struct socks_request *r)
{
	char text[ADDRESS_TEXT_BYTES];
	struct address a = {.family = bytes.len == 4 ? 4 : 6};
	assert(bytes.ptr != NULL && bytes.len <= sizeof(a.bytes)); /* parts of a whole message */
	memcpy(a.bytes, bytes.ptr, bytes.len);
	bool six = a.family == 6;
	(void)snprintf(r->text, sizeof(r->text), six ? "[%s]" : "%s", address_format(&a, text));
	r->text_len = strlen(r->text);
}

/** Bytes of the address, and where they begin. */
static size_t address_bytes(struct slice in, size_t *ret_from)
{
	*ret_from = REQUEST_HEAD_BYTES;
	if (byte_at(in, 3) == KIND_IPV4)
		return 4;
	if (byte_at(in, 3) == KIND_IPV6)
		return 16;
	*ret_from = REQUEST_HEAD_BYTES + 1;
	return byte_at(in, REQUEST_HEAD_BYTES);
}

static void take_address(struct slice bytes, bool name, struct socks_request *r)
{
	if (!name) {
		address_text(bytes, r);
	} else {
		(void)slice_copy(bytes, r->text, sizeof(r->text)); /* at most 255 bytes: they fit */
		r->text_len = bytes.len;
	}
	r->has_host =
		host_parse((struct slice){r->text, r->text_len}, &r->host) == 0 && r->port != 0;
}

enum socks_result socks_parse_request(struct slice in, struct socks_request *ret)
{
	size_t from;
	*ret = (struct socks_request){0};
	if (in.len > 0 && byte_at(in, 0) != SOCKS_VERSION_5)
		return SOCKS_ERROR;
	if (in.len > 2 && byte_at(in, 2) != 0)
		return SOCKS_ERROR;
	if (in.len < REQUEST_HEAD_BYTES + 1)
		return SOCKS_MORE;
	uint8_t kind = byte_at(in, 3);
	ret->connect = byte_at(in, 1) == COMMAND_CONNECT;
	if (kind != KIND_IPV4 && kind != KIND_IPV6 && kind != KIND_NAME)
		return SOCKS_UNKNOWN_ADDRESS;
	size_t len = address_bytes(in, &from);
	if (in.len < from + len + PORT_BYTES)
		return SOCKS_MORE;
	ret->len = from + len + PORT_BYTES;
	ret->port = (uint16_t)(byte_at(in, from + len) << 8 | byte_at(in, from + len + 1));
	take_address(slice_part(in, from, from + len), kind == KIND_NAME, ret);
	return SOCKS_DONE;
}

int socks_write_reply(enum socks_stage stage, enum socks_reply reply, struct buf *out)
{
	const char refused[] = {SOCKS_VERSION_5, (char)METHOD_REFUSE};
	const char four[] = {0, REPLY_4_NO, 0, 0, 0, 0, 0, 0};
	/* Where it is bound is nobody's business, and clients do not ask: 0.0.0.0:0. */
	const char answer[] = {SOCKS_VERSION_5, (char)reply, 0, KIND_IPV4, 0, 0, 0, 0, 0, 0};
	switch (stage) {
	case SOCKS_STAGE_METHOD:
		return buf_append(out, (struct slice){refused, sizeof(refused)});
	case SOCKS_STAGE_4:
		return buf_append(out, (struct slice){four, sizeof(four)});
	case SOCKS_STAGE_REQUEST:
		break;
	}
	return buf_append(out, (struct slice){answer, sizeof(answer)});
}

int socks_write_method(struct buf *out)
{
	const char chosen[] = {SOCKS_VERSION_5, METHOD_NONE};
	return buf_append(out, (struct slice){chosen, sizeof(chosen)});
}
