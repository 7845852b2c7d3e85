/* See websocket.h. */
#include "proxy/websocket.h"

#include "common/digest.h"

#include <errno.h>

#define KEY_BYTES 24 /* 16 in base64 */

/** The one field of this name that passes; none when there are several. */
static struct slice only_field(const struct http1_head *head, struct slice name)
{
	struct slice value = {0};
	unsigned count = 0;
	for (size_t i = 0; i < head->field_count; i++) {
		const struct http1_field *field = &head->fields[i];
		if (field->nominated || !slice_equal_nocase(field->name, name))
			continue;
		value = field->value;
		count++;
	}
	return count == 1 ? value : (struct slice){0};
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void base64(
	const uint8_t from[static DIGEST_SHA1_BYTES], char to[static WEBSOCKET_ACCEPT_BYTES])
{
	size_t at = 0;
	for (size_t i = 0; i < DIGEST_SHA1_BYTES; i += 3) {
		bool whole = i + 2 < DIGEST_SHA1_BYTES; /* 20 bytes: the last group has two */
		uint32_t bits = (uint32_t)from[i] << 16 | (uint32_t)from[i + 1] << 8 |
			(whole ? from[i + 2] : 0u);
		to[at++] = digits[bits >> 18];
		to[at++] = digits[bits >> 12 & 63];
		to[at++] = digits[bits >> 6 & 63];
		to[at++] = whole ? digits[bits & 63] : '=';
	}
	to[at] = '\0';
}

static bool key_valid(struct slice key)
{
	if (key.len != KEY_BYTES || !slice_ends(key, SLICE("==")))
		return false;
	for (size_t i = 0; i < KEY_BYTES - 2; i++) {
		if (memchr(digits, key.ptr[i], sizeof(digits) - 1) == NULL)
			return false;
	}
	return true;
}

int websocket_accept_of(
	const struct http1_request *r, char ret_accept[static WEBSOCKET_ACCEPT_BYTES])
{
	static const char suffix[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"; /* RFC 6455 1.3 */
	char text[KEY_BYTES + sizeof(suffix)];
	uint8_t sum[DIGEST_SHA1_BYTES];
	struct slice key = only_field(&r->head, SLICE("sec-websocket-key"));
	bool body = r->head.framing.kind == BODY_CHUNKED || r->head.framing.length > 0;
	if (body || !key_valid(key))
		return -EINVAL;
	memcpy(text, key.ptr, KEY_BYTES);
	memcpy(text + KEY_BYTES, suffix, sizeof(suffix));
	if (digest_sha1(slice_of(text), sum) < 0)
		return -EINVAL;
	base64(sum, ret_accept);
	return 0;
}

bool websocket_switches(const struct http1_response *r, const char *accept)
{
	return r->status == 101 && r->head.websocket &&
		slice_equal(only_field(&r->head, SLICE("sec-websocket-accept")), slice_of(accept));
}
