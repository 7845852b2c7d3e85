/*
 * See opening.h. TLS: a record of its handshake, whatever version it claims (RFC 8446 5.1), or the hello of SSL 2 that servers
 * still take. HTTP: a method that is known and a blank, or a first line with a blank and "HTTP/" in it, whatever its
 * method; servers skip control bytes before it. Each is looked for by itself, so that what begins like one may end as another.
 */
#include "proxy/opening.h"

#include "common/cleanup.h"

enum opening_state {
	STATE_SKIPPED, /* nothing yet but what servers skip */
	STATE_WORD,
	STATE_LINE, /* behind the first word */
	STATE_NONE, /* no request any more */
};

/** What the first bytes can be. */
enum shape { SHAPE_OPEN, SHAPE_IS, SHAPE_NOT };

/** Methods that some server takes (the registry of RFC 9110 16.1 but the rare ones), and HTTP/2's preface. */
static const struct slice methods[] = {
	SLICE("GET"),
	SLICE("HEAD"),
	SLICE("POST"),
	SLICE("PUT"),
	SLICE("DELETE"),
	SLICE("CONNECT"),
	SLICE("OPTIONS"),
	SLICE("TRACE"),
	SLICE("PATCH"),
	SLICE("PRI"),
	SLICE("PROPFIND"),
	SLICE("PROPPATCH"),
	SLICE("MKCOL"),
	SLICE("COPY"),
	SLICE("MOVE"),
	SLICE("LOCK"),
	SLICE("UNLOCK"),
	SLICE("REPORT"),
	SLICE("SEARCH"),
	SLICE("QUERY"),
};

static struct slice first_word(const struct opening *o)
{
	return (struct slice){o->word, o->word_len};
}

static bool is_method(const struct opening *o)
{
	for (size_t i = 0; i < array_size(methods); i++) {
		if (slice_equal(first_word(o), methods[i]))
			return true;
	}
	return false;
}

static enum opening_result to(struct opening *o, enum opening_state state)
{
	o->state = (uint8_t)state;
	return OPENING_UNDECIDED;
}

static bool is_blank(uint8_t byte)
{
	return byte == ' ' || byte == '\t' || byte == '\v' || byte == '\f';
}

/** Empty lines (RFC 9112 2.2), and what some servers skip beside them. */
static bool is_skipped(uint8_t byte)
{
	return byte <= ' ' || (byte >= 0x7f && byte <= 0x9f);
}

static enum opening_result word_byte(struct opening *o, uint8_t byte)
{
	if (is_blank(byte)) {
		o->matched = 0;
		if (slice_equal(first_word(o), SLICE("PROXY")))
			return OPENING_PROXY;
		return is_method(o) ? OPENING_HTTP : to(o, STATE_LINE);
	}
	if (byte <= 0x20 || byte >= 0x7f)
		return to(o, STATE_NONE);
	if (o->word_len < sizeof(o->word))
		o->word[o->word_len++] = (char)byte; /* a longer one is not known */
	return to(o, STATE_WORD);
}

/** Looks for a blank and "HTTP/" up to the line's end. */
static enum opening_result line_byte(struct opening *o, uint8_t byte)
{
	static const char version[] = "HTTP/";
	if (byte == '\r' || byte == '\n')
		return to(o, STATE_NONE);
	if (is_blank(byte))
		o->matched = 1;
	else if (o->matched == 0 || ascii_lower((char)byte) != ascii_lower(version[o->matched - 1]))
		o->matched = 0;
	else if (version[o->matched++] == '\0')
		return OPENING_HTTP;
	return OPENING_UNDECIDED;
}

static enum opening_result request_byte(struct opening *o, uint8_t byte)
{
	switch ((enum opening_state)o->state) {
	case STATE_SKIPPED:
		return is_skipped(byte) ? OPENING_UNDECIDED : word_byte(o, byte);
	case STATE_WORD:
		return word_byte(o, byte);
	case STATE_LINE:
		return line_byte(o, byte);
	case STATE_NONE:
		break;
	}
	return OPENING_UNDECIDED;
}

/**
 * Records of handshakes and alerts, and the two types that clients send later. Servers ignore the version's second byte, some of
 * them all of it: then what is in the record has to look like a hello, or like an alert.
 */
static enum shape record_shape(const uint8_t *head, size_t len)
{
	bool alert = head[0] == 21;
	if (head[0] < 20 || head[0] > 23 || (len > 1 && head[1] >= 16))
		return SHAPE_NOT;
	if (len > 2 && head[1] == 3)
		return SHAPE_IS;
	if (len > 1 && head[1] != 3 && head[0] != 22 && !alert)
		return SHAPE_NOT;
	if (len < 6)
		return SHAPE_OPEN;
	size_t length = (size_t)head[3] << 8 | head[4];
	bool fits = alert ? length == 2 && head[5] <= 2 : head[5] == 1 && length <= 0x4100;
	return fits ? SHAPE_IS : SHAPE_NOT;
}

/** A length of two bytes, a ClientHello, and a version of SSL 3 or TLS. */
static enum shape old_hello_shape(const uint8_t *head, size_t len)
{
	if ((head[0] & 0x80) == 0 || (len > 2 && head[2] != 1) || (len > 3 && head[3] != 3))
		return SHAPE_NOT;
	return len > 3 ? SHAPE_IS : SHAPE_OPEN;
}

/** Of version 2, whose signature begins like empty lines. */
static enum shape proxy_shape(const uint8_t *head, size_t len)
{
	static const uint8_t signature[OPENING_HEAD_BYTES] = {
		'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n'};
	if (memcmp(head, signature, len) != 0)
		return SHAPE_NOT;
	return len == sizeof(signature) ? SHAPE_IS : SHAPE_OPEN;
}

/** One of the first bytes. @return OPENING_OTHER: nothing that shows in them. */
static enum opening_result head_byte(struct opening *o, uint8_t byte)
{
	if (o->head_len == sizeof(o->head))
		return OPENING_OTHER;
	o->head[o->head_len++] = byte;
	enum shape record = record_shape(o->head, o->head_len);
	enum shape old = old_hello_shape(o->head, o->head_len);
	enum shape proxy = proxy_shape(o->head, o->head_len);
	if (record == SHAPE_IS || old == SHAPE_IS)
		return OPENING_TLS;
	if (proxy == SHAPE_IS)
		return OPENING_PROXY;
	bool open = record == SHAPE_OPEN || old == SHAPE_OPEN || proxy == SHAPE_OPEN;
	return open ? OPENING_UNDECIDED : OPENING_OTHER;
}

static enum opening_result step(struct opening *o, uint8_t byte)
{
	enum opening_result head = head_byte(o, byte);
	enum opening_result request = request_byte(o, byte);
	if (head != OPENING_OTHER && head != OPENING_UNDECIDED)
		return head;
	if (request != OPENING_UNDECIDED)
		return request;
	return head == OPENING_OTHER && o->state == STATE_NONE ? OPENING_OTHER : OPENING_UNDECIDED;
}

enum opening_result opening_feed(struct opening *o, struct slice in)
{
	enum opening_result result = OPENING_UNDECIDED;
	for (size_t i = 0; i < in.len && result == OPENING_UNDECIDED; i++)
		result = step(o, (uint8_t)in.ptr[i]);
	return result;
}
