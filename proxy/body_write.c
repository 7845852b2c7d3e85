/* Framing payload for the wire. See body.h. */
#include "proxy/body.h"

#include <errno.h>

void body_writer_init(struct body_writer *w, struct body_framing framing)
{
	*w = (struct body_writer){.kind = framing.kind};
	if (framing.kind == BODY_LENGTH)
		w->remaining = framing.length;
}

/** "<hex size>\r\n". @return its length */
static size_t chunk_prefix(size_t size, char to[static BODY_PREFIX_BYTES])
{
	static const char hex[] = "0123456789abcdef";
	size_t digits = 1;
	for (size_t rest = size >> 4; rest > 0; rest >>= 4)
		digits++;
	for (size_t i = digits; i > 0; i--) {
		to[i - 1] = hex[size & 15];
		size >>= 4;
	}
	to[digits] = '\r';
	to[digits + 1] = '\n';
	return digits + 2;
}

int body_frame_payload(struct body_writer *w, size_t len, struct body_frame *ret)
{
	ret->prefix_len = 0;
	ret->suffix = SLICE("");
	if (len == 0)
		return 0; /* an empty chunk would end the body */
	switch (w->kind) {
	case BODY_NONE:
		return -EOVERFLOW;
	case BODY_LENGTH:
		if (len > w->remaining)
			return -EOVERFLOW;
		w->remaining -= len;
		break;
	case BODY_CHUNKED:
		ret->prefix_len = chunk_prefix(len, ret->prefix);
		ret->suffix = SLICE("\r\n");
		break;
	case BODY_UNTIL_CLOSE:
		break;
	}
	return 0;
}

int body_frame_end(struct body_writer *w, struct slice *ret)
{
	if (w->kind == BODY_LENGTH && w->remaining > 0)
		return -EPIPE;
	*ret = w->kind == BODY_CHUNKED ? SLICE("0\r\n\r\n") : SLICE("");
	return 0;
}

int body_append(struct body_writer *w, struct slice payload, struct buf *out)
{
	struct body_writer next = *w;
	struct body_frame frame;
	char *to;
	int r = body_frame_payload(&next, payload.len, &frame);
	if (r < 0 || payload.len == 0)
		return r;
	size_t total = frame.prefix_len + payload.len + frame.suffix.len;
	r = buf_reserve(out, total, &to);
	if (r < 0)
		return r;
	memcpy(to, frame.prefix, frame.prefix_len);
	memcpy(to + frame.prefix_len, payload.ptr, payload.len);
	memcpy(to + frame.prefix_len + payload.len, frame.suffix.ptr, frame.suffix.len);
	buf_grew(out, total);
	*w = next;
	return 0;
}

int body_append_end(struct body_writer *w, struct buf *out)
{
	struct slice end;
	int r = body_frame_end(w, &end);
	return r < 0 ? r : buf_append(out, end);
}
