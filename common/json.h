/* Writing JSON into a buf: escaping done once, here. Parsing is jansson's, at trusted edges only. */
#ifndef ECLUSA_COMMON_JSON_H
#define ECLUSA_COMMON_JSON_H

#include "common/buf.h"

/** A writer that puts commas where they belong. Errors are sticky in the buf. */
struct json {
	struct buf *out;
	bool comma; /* the next member or element needs one before it */
};

/* jansson has functions of some of these names: an exported one of ours would take their place inside of it. */
#pragma GCC visibility push(hidden)

void json_open(struct json *j, struct buf *out);
void json_object_end(struct json *j);
void json_array_end(struct json *j);

/* With the key's length, which is nearly always known when a file is compiled; ptr NULL: no key. */
void json_put_string(struct json *j, struct slice key, struct slice value);
void json_put_plain(struct json *j, struct slice key, struct slice value);
void json_put_number(struct json *j, struct slice key, uint64_t value, bool negative);
void json_put_word(struct json *j, struct slice key, struct slice word);
void json_put_open(struct json *j, struct slice key, char bracket);

static inline struct slice json_key(const char *key)
{
	return key == NULL ? (struct slice){0} : slice_of(key);
}

/** @key NULL inside an array or at the top; a plain word of ours, which is not escaped. */
static inline void json_object(struct json *j, const char *key)
{
	json_put_open(j, json_key(key), '{');
}

static inline void json_array(struct json *j, const char *key)
{
	json_put_open(j, json_key(key), '[');
}

/** Bytes as a string: quotes, control characters (C0, DEL, C1), line separators and marks of direction escaped, invalid UTF-8 as U+FFFD. */
static inline void json_slice(struct json *j, const char *key, struct slice value)
{
	json_put_string(j, json_key(key), value);
}

/** The same of bytes of which json_is_plain() was asked. */
static inline void json_plain(struct json *j, const char *key, struct slice value)
{
	json_put_plain(j, json_key(key), value);
}

static inline void json_text(struct json *j, const char *key, const char *value)
{
	json_put_string(j, json_key(key), slice_of(value));
}

/** Above INT64_MAX: that. */
static inline void json_uint(struct json *j, const char *key, uint64_t value)
{
	json_put_number(j, json_key(key), value, false);
}

static inline void json_int(struct json *j, const char *key, int64_t value)
{
	json_put_number(
		j, json_key(key), value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

static inline void json_bool(struct json *j, const char *key, bool value)
{
	json_put_word(j, json_key(key), value ? SLICE("true") : SLICE("false"));
}

static inline void json_null(struct json *j, const char *key)
{
	json_put_word(j, json_key(key), SLICE("null"));
}

/** Formatted text as a string value. */
void json_format(struct json *j, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/** Whether a text stands for itself in a string: no byte of it is escaped, or above ASCII. */
bool json_is_plain(struct slice text);
/** Whether these bytes are well-formed UTF-8 (RFC 3629: no overlongs, surrogates, above U+10FFFF). */
bool utf8_valid(struct slice text);
/** Length of the well-formed character at the front of a text that is not empty, 0 if there is none. */
size_t utf8_length(struct slice text);
/** The character of @len well-formed bytes. */
uint32_t utf8_decode(struct slice text, size_t len);
/**
 * What a terminal or an editor would act on instead of showing it: C0, DEL, C1 (one of them is CSI), line separators,
 * and marks that change the direction of text.
 */
bool utf8_is_control(uint32_t character);

#pragma GCC visibility pop

#endif
