/*
 * See opening.h. TLS: a handshake record, or the hello of SSL 2 that servers still take. HTTP: a method that is
 * known and a blank, or a first line with a blank and "HTTP/" in it, whatever its method.
 */
#include "proxy/opening.h"

#include "common/cleanup.h"

enum opening_state {
	STATE_START,
	STATE_RECORD_1, /* after the type of a handshake record */
	STATE_RECORD_2,
	STATE_OLD_1, /* after the first byte of a length, as SSL 2 has it */
	STATE_OLD_2,
	STATE_OLD_3,
	STATE_WORD,
	STATE_LINE, /* behind the first word */
};

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

static bool is_method(const struct opening *o)
{
	const struct slice word = {o->word, o->word_len};
	for (size_t i = 0; i < array_size(methods); i++) {
		if (slice_equal(word, methods[i]))
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

static enum opening_result word_byte(struct opening *o, uint8_t byte)
{
	if (is_blank(byte)) {
		o->matched = 0;
		return is_method(o) ? OPENING_HTTP : to(o, STATE_LINE);
	}
	if (byte <= 0x20 || byte >= 0x7f)
		return OPENING_OTHER;
	if (o->word_len < sizeof(o->word))
		o->word[o->word_len++] = (char)byte; /* a longer one is not known */
	return to(o, STATE_WORD);
}

/** Looks for a blank and "HTTP/" up to the line's end. */
static enum opening_result line_byte(struct opening *o, uint8_t byte)
{
	static const char version[] = "HTTP/";
	if (byte == '\r' || byte == '\n')
		return OPENING_OTHER;
	if (is_blank(byte))
		o->matched = 1;
	else if (o->matched == 0 || ascii_lower((char)byte) != ascii_lower(version[o->matched - 1]))
		o->matched = 0;
	else if (version[o->matched++] == '\0')
		return OPENING_HTTP;
	return OPENING_UNDECIDED;
}

static enum opening_result first_byte(struct opening *o, uint8_t byte)
{
	if (byte == '\r' || byte == '\n')
		return OPENING_UNDECIDED; /* servers skip empty lines (RFC 9112 2.2) */
	if (o->count > 1)
		return word_byte(o, byte); /* behind an empty line there is no TLS */
	if (byte == 22)
		return to(o, STATE_RECORD_1);
	if ((byte & 0x80) != 0)
		return to(o, STATE_OLD_1);
	return word_byte(o, byte);
}

static enum opening_result step(struct opening *o, uint8_t byte)
{
	switch ((enum opening_state)o->state) {
	case STATE_START:
		return first_byte(o, byte);
	case STATE_RECORD_1:
		return byte == 3 ? to(o, STATE_RECORD_2) : OPENING_OTHER;
	case STATE_RECORD_2:
		return byte <= 4 ? OPENING_TLS : OPENING_OTHER;
	case STATE_OLD_1:
		return to(o, STATE_OLD_2);
	case STATE_OLD_2:
		return byte == 1 ? to(o, STATE_OLD_3) : OPENING_OTHER;
	case STATE_OLD_3:
		return byte == 3 ? OPENING_TLS : OPENING_OTHER;
	case STATE_WORD:
		return word_byte(o, byte);
	case STATE_LINE:
		return line_byte(o, byte);
	}
	return OPENING_OTHER;
}

enum opening_result opening_feed(struct opening *o, struct slice in)
{
	enum opening_result result = OPENING_UNDECIDED;
	for (size_t i = 0; i < in.len && result == OPENING_UNDECIDED; i++)
		result = ++o->count > OPENING_LINE_BYTES_MAX ? OPENING_OTHER
							     : step(o, (uint8_t)in.ptr[i]);
	return result;
}
