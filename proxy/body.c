/* See body.h. Input: a peer's bytes. */
#include "proxy/body.h"
#include "proxy/limits.h"

#include <errno.h>

enum state {
	STATE_PLAIN,     /* length or until close: payload */
	STATE_SIZE,      /* digits of a chunk size */
	STATE_BLANK,     /* blanks behind the size: an extension must follow */
	STATE_EXTENSION, /* anything up to CR */
	STATE_SIZE_LF,   /* LF of a size line */
	STATE_DATA,      /* payload of a chunk */
	STATE_DATA_CR,   /* CR LF behind it */
	STATE_DATA_LF,
	STATE_TRAILER, /* first byte of a trailer line, or CR of the last, empty line */
	STATE_TRAILER_NAME,
	STATE_TRAILER_VALUE,
	STATE_TRAILER_LF,
	STATE_END_LF, /* LF of the empty line */
	STATE_DONE,
	STATE_FAILED,
};

void body_reader_init(struct body_reader *r, struct body_framing framing, bool upstream,
	const struct limits *limits)
{
	*r = (struct body_reader){.kind = framing.kind, .upstream = upstream, .limits = limits};
	switch (framing.kind) {
	case BODY_NONE:
		r->state = STATE_DONE;
		break;
	case BODY_LENGTH:
		r->state = framing.length > 0 ? STATE_PLAIN : STATE_DONE;
		r->remaining = framing.length;
		break;
	case BODY_CHUNKED:
		r->state = STATE_SIZE;
		break;
	case BODY_UNTIL_CLOSE:
		r->state = STATE_PLAIN;
		r->remaining = UINT64_MAX;
		break;
	}
}

static int fail(struct body_reader *r, unsigned status, enum reason reason, const char *detail)
{
	r->fault = (struct http_fault){status, reason, detail};
	if (r->upstream) {
		r->fault.status = 502;
		r->fault.reason = REASON_ERROR_UPSTREAM;
	}
	r->state = STATE_FAILED;
	return STATE_FAILED;
}

static int malformed(struct body_reader *r, const char *detail)
{
	return fail(r, 400, REASON_DENY_SMUGGLING, detail);
}

static int hex_value(char c)
{
	char l = ascii_lower(c);
	if (c >= '0' && c <= '9')
		return c - '0';
	return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/** A byte that a field value or an extension may hold. */
static bool is_text(char c)
{
	unsigned char u = (unsigned char)c;
	return u == '\t' || (u >= 0x20 && u != 0x7f);
}

static bool is_token(char c)
{
	char l = ascii_lower(c);
	return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') ||
		(c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static int step_size(struct body_reader *r, char c)
{
	int digit = hex_value(c);
	if (digit >= 0 && r->digits == BODY_CHUNK_DIGITS_MAX)
		return malformed(r, "a chunk size has too many digits");
	if (digit >= 0) {
		r->digits++;
		r->remaining = r->remaining << 4 | (uint64_t)digit;
		return STATE_SIZE;
	}
	if (r->digits == 0)
		return malformed(r, "a chunk has no size");
	if (c == '\r')
		return STATE_SIZE_LF;
	if (c == ';')
		return STATE_EXTENSION;
	if (is_blank(c))
		return STATE_BLANK;
	return malformed(r, "a chunk size is not hexadecimal");
}

/** Any state between the digits of a size and the LF of its line. */
static int step_size_line(struct body_reader *r, char c)
{
	if (++r->line_bytes > limits_or_largest(r->limits)->chunk_line_bytes)
		return fail(r, 400, REASON_DENY_LIMIT, "a chunk-size line is too long");
	switch ((enum state)r->state) {
	case STATE_SIZE:
		return step_size(r, c);
	case STATE_BLANK:
		if (is_blank(c))
			return STATE_BLANK;
		return c == ';'
			? STATE_EXTENSION
			: malformed(r, "something that is no extension follows a chunk size");
	case STATE_EXTENSION:
		if (c == '\r')
			return STATE_SIZE_LF;
		return is_text(c) ? STATE_EXTENSION
				  : malformed(r, "a chunk extension holds a control byte");
	default: /* STATE_SIZE_LF */
		if (c != '\n')
			return malformed(r, "a chunk-size line does not end with CR LF");
		return r->remaining > 0 ? STATE_DATA : STATE_TRAILER;
	}
}

static int step_data_end(struct body_reader *r, char c)
{
	bool cr = r->state == STATE_DATA_CR;
	if (c != (cr ? '\r' : '\n'))
		return malformed(r, "a chunk does not end with CR LF");
	if (cr)
		return STATE_DATA_LF;
	r->digits = 0;
	r->line_bytes = 0;
	r->remaining = 0;
	return STATE_SIZE;
}

static int step_trailer(struct body_reader *r, char c)
{
	const struct limits *limits = limits_or_largest(r->limits);
	if (++r->trailer_bytes > limits->trailer_bytes)
		return fail(r, 431, REASON_DENY_LIMIT, "the trailer section is too large");
	switch ((enum state)r->state) {
	case STATE_TRAILER:
		if (c == '\r')
			return STATE_END_LF;
		if (++r->trailer_fields > limits->trailer_fields)
			return fail(r, 431, REASON_DENY_LIMIT, "there are too many trailer fields");
		return is_token(c) ? STATE_TRAILER_NAME
				   : malformed(r, "a trailer line has no valid field name");
	case STATE_TRAILER_NAME:
		if (c == ':')
			return STATE_TRAILER_VALUE;
		return is_token(c) ? STATE_TRAILER_NAME
				   : malformed(r, "a trailer line has no valid field name");
	case STATE_TRAILER_VALUE:
		if (c == '\r')
			return STATE_TRAILER_LF;
		return is_text(c) ? STATE_TRAILER_VALUE
				  : malformed(r, "a trailer field holds a control byte");
	case STATE_TRAILER_LF:
		return c == '\n' ? STATE_TRAILER
				 : malformed(r, "a trailer line does not end with CR LF");
	default: /* STATE_END_LF */
		return c == '\n' ? STATE_DONE
				 : malformed(r, "the trailer section does not end with CR LF");
	}
}

/** One byte of a chunked body that is no payload. @return the next state. */
static int step(struct body_reader *r, char c)
{
	switch ((enum state)r->state) {
	case STATE_SIZE:
	case STATE_BLANK:
	case STATE_EXTENSION:
	case STATE_SIZE_LF:
		return step_size_line(r, c);
	case STATE_DATA_CR:
	case STATE_DATA_LF:
		return step_data_end(r, c);
	case STATE_TRAILER:
	case STATE_TRAILER_NAME:
	case STATE_TRAILER_VALUE:
	case STATE_TRAILER_LF:
	case STATE_END_LF:
		return step_trailer(r, c);
	case STATE_PLAIN:
	case STATE_DATA:
	case STATE_DONE:
	case STATE_FAILED:
		break;
	}
	return r->state; /* not reached: body_read() handles these */
}

/** Hand out payload from the start of @in, which is not empty. */
static struct slice payload_take(struct body_reader *r, struct slice in)
{
	size_t len = r->remaining < in.len ? (size_t)r->remaining : in.len;
	if (r->kind != BODY_UNTIL_CLOSE)
		r->remaining -= len;
	if (r->remaining == 0)
		r->state = r->kind == BODY_CHUNKED ? STATE_DATA_CR : STATE_DONE;
	r->payload_total += len;
	return slice_part(in, 0, len);
}

enum body_result body_read(
	struct body_reader *r, struct slice in, size_t *ret_consumed, struct slice *ret_payload)
{
	*ret_consumed = 0;
	*ret_payload = (struct slice){NULL, 0};
	for (size_t i = 0; r->state != STATE_DONE && r->state != STATE_FAILED; i++) {
		*ret_consumed = i;
		if (i == in.len)
			return BODY_MORE;
		if (r->state == STATE_PLAIN || r->state == STATE_DATA) {
			*ret_payload = payload_take(r, slice_part(in, i, in.len));
			*ret_consumed = i + ret_payload->len;
			return BODY_DATA;
		}
		r->state = step(r, in.ptr[i]);
		*ret_consumed = i + 1;
	}
	return r->state == STATE_DONE ? BODY_DONE : BODY_ERROR;
}

enum body_result body_read_end(struct body_reader *r)
{
	if (r->state == STATE_PLAIN && r->kind == BODY_UNTIL_CLOSE)
		r->state = STATE_DONE;
	if (r->state != STATE_DONE && r->state != STATE_FAILED)
		(void)fail(r, 400, REASON_DENY_SMUGGLING, "the body was cut");
	return r->state == STATE_DONE ? BODY_DONE : BODY_ERROR;
}

uint64_t body_reader_announced(const struct body_reader *r)
{
	uint64_t sum;
	bool known = r->state == STATE_DATA || (r->state == STATE_PLAIN && r->kind == BODY_LENGTH);
	if (!known)
		return r->payload_total;
	return __builtin_add_overflow(r->payload_total, r->remaining, &sum) ? UINT64_MAX : sum;
}

bool body_reader_done(const struct body_reader *r)
{
	return r->state == STATE_DONE;
}
