/*
 * Fresh heads from what was judged: one spelling of framing, Host and Connection, hop-by-hop fields
 * left out. See http1.h. Its inputs were checked by the parsers; nothing can add a line here.
 */
#include "proxy/http1_head.h"

#include <assert.h>

#define CONTROL_BYTES_MAX 512 /* every line that we add ourselves, host and numbers included */

/** Room that was reserved once, being filled. */
struct writer {
	char *to;
	size_t len;
	size_t capacity;
};

static void put(struct writer *w, struct slice text)
{
	assert(text.len <= w->capacity - w->len); /* capacity is the sum of all parts */
	if (text.len > 0)
		memcpy(w->to + w->len, text.ptr, text.len);
	w->len += text.len;
}

static void put_decimal(struct writer *w, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value > 0);
	put(w, (struct slice){digits + at, sizeof(digits) - at});
}

static size_t fields_bytes(const struct http1_head *head)
{
	size_t bytes = 0;
	for (size_t i = 0; i < head->field_count; i++)
		bytes += head->fields[i].name.len + head->fields[i].value.len + 4;
	return bytes;
}

static void put_fields(struct writer *w, const struct http1_head *head)
{
	for (size_t i = 0; i < head->field_count; i++) {
		const struct http1_field *field = &head->fields[i];
		if (!http1_field_passes(field))
			continue;
		put(w, field->name);
		put(w, SLICE(": "));
		put(w, field->value);
		put(w, SLICE("\r\n"));
	}
}

static void put_length(struct writer *w, uint64_t length)
{
	put(w, SLICE("Content-Length: "));
	put_decimal(w, length);
	put(w, SLICE("\r\n"));
}

static void put_framing(struct writer *w, struct body_framing framing)
{
	switch (framing.kind) {
	case BODY_NONE:
	case BODY_UNTIL_CLOSE:
		break;
	case BODY_LENGTH:
		put_length(w, framing.length);
		break;
	case BODY_CHUNKED:
		put(w, SLICE("Transfer-Encoding: chunked\r\n"));
		break;
	}
}

static void put_connection(struct writer *w, bool upgrade, bool close)
{
	if (upgrade)
		put(w, SLICE("Connection: Upgrade\r\nUpgrade: websocket\r\n"));
	else if (close)
		put(w, SLICE("Connection: close\r\n"));
}

static void put_host(struct writer *w, const struct http1_destination *to)
{
	bool brackets = to->host->kind == HOST_ADDRESS && to->host->address.family == 6;
	uint16_t usual = to->scheme == POLICY_SCHEME_HTTPS ? 443 : 80;
	put(w, SLICE("Host: "));
	put(w, brackets ? SLICE("[") : SLICE(""));
	put(w, slice_of(to->host->name));
	put(w, brackets ? SLICE("]") : SLICE(""));
	if (to->port != usual) {
		put(w, SLICE(":"));
		put_decimal(w, to->port);
	}
	put(w, SLICE("\r\n"));
}

static void put_target(struct writer *w, const struct target *target)
{
	if (target == NULL) {
		put(w, SLICE("*"));
		return;
	}
	put(w, target->path);
	if (target->has_query) {
		put(w, SLICE("?"));
		put(w, target->query);
	}
}

int http1_write_request(
	const struct http1_request *r, const struct http1_destination *to, struct buf *out)
{
	struct writer w = {.capacity = CONTROL_BYTES_MAX + HOST_NAME_BYTES};
	w.capacity += r->method.len + fields_bytes(&r->head);
	if (to->target != NULL)
		w.capacity += to->target->path.len + to->target->query.len;
	int error = buf_reserve(out, w.capacity, &w.to);
	if (error < 0)
		return error;
	put(&w, r->method);
	put(&w, SLICE(" "));
	put_target(&w, to->target);
	put(&w, SLICE(" HTTP/1.1\r\n"));
	put_host(&w, to);
	put_fields(&w, &r->head);
	put_framing(&w, r->head.framing);
	if (r->expect_continue)
		put(&w, SLICE("Expect: 100-continue\r\n"));
	put_connection(&w, to->upgrade && r->head.websocket, to->close);
	put(&w, SLICE("\r\n"));
	buf_grew(out, w.len);
	return 0;
}

/** The reason phrase in visible ASCII and blanks, cut at a length. */
static void put_reason(struct writer *w, struct slice reason)
{
	char text[HTTP1_REASON_BYTES_MAX];
	size_t len = reason.len < sizeof(text) ? reason.len : sizeof(text);
	for (size_t i = 0; i < len; i++) {
		char c = reason.ptr[i];
		text[i] = c >= 0x20 && c < 0x7f ? c : '?';
	}
	put(w, (struct slice){text, len});
}

/** How the body of @r goes to a client of HTTP/1.@minor. */
static struct body_framing framing_towards(const struct http1_response *r, unsigned minor)
{
	bool unsized =
		r->head.framing.kind == BODY_CHUNKED || r->head.framing.kind == BODY_UNTIL_CLOSE;
	if (!unsized)
		return r->head.framing;
	return (struct body_framing){.kind = minor == 0 ? BODY_UNTIL_CLOSE : BODY_CHUNKED};
}

int http1_write_response(const struct http1_response *r, const struct http1_recipient *to,
	struct body_framing *ret_framing, struct buf *out)
{
	struct body_framing framing = framing_towards(r, to->minor);
	struct writer w = {.capacity = CONTROL_BYTES_MAX + fields_bytes(&r->head)};
	int error = buf_reserve(out, w.capacity, &w.to);
	if (error < 0)
		return error;
	put(&w, SLICE("HTTP/1.1 "));
	put_decimal(&w, r->status);
	put(&w, SLICE(" "));
	put_reason(&w, r->reason);
	put(&w, SLICE("\r\n"));
	put_fields(&w, &r->head);
	put_framing(&w, framing);
	bool interim = r->status < 200;
	/* HEAD and 304 tell the length that a body would have; 1xx and 204 have none to tell. */
	if (framing.kind == BODY_NONE && r->has_length && !interim && r->status != 204)
		put_length(&w, r->length);
	bool close = !interim && (to->close || framing.kind == BODY_UNTIL_CLOSE);
	put_connection(&w, r->status == 101 && to->switched, close);
	put(&w, SLICE("\r\n"));
	buf_grew(out, w.len);
	*ret_framing = framing;
	return 0;
}
