/* A borrowed run of bytes, and a bounded cursor over it. Bytes are a peer's until parsed. */
#ifndef ECLUSA_COMMON_SLICE_H
#define ECLUSA_COMMON_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Borrowed bytes: not owned, not NUL-terminated. ptr may be NULL when len is 0. */
struct slice {
	const char *ptr;
	size_t len;
};

#define SLICE(literal) ((struct slice){(literal), sizeof(literal) - 1})

static inline struct slice slice_of(const char *text)
{
	return (struct slice){text, strlen(text)};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

/** Equality with ASCII case folded; independent of locale. */
bool slice_equal_nocase(struct slice a, struct slice b);
bool slice_starts(struct slice text, struct slice prefix);
bool slice_ends(struct slice text, struct slice suffix);
/** Index of the first @byte, or -1. */
ptrdiff_t slice_find(struct slice text, char byte);
/** The part from @from up to but without @to, clamped to the slice. */
static inline struct slice slice_part(struct slice text, size_t from, size_t to)
{
	if (to > text.len)
		to = text.len;
	if (from >= to)
		return (struct slice){NULL, 0};
	return (struct slice){text.ptr + from, to - from};
}
/** Without blanks and tabs at both ends (OWS of RFC 9110). */
struct slice slice_trim(struct slice text);
/** Split at the first @byte: *ret_head before it, *rest after it. False when there is none. */
bool slice_split(struct slice text, char byte, struct slice *ret_head, struct slice *ret_rest);

/**
 * Decimal digits only (no sign, no blank), at most @max. @return 0, -EINVAL, -ERANGE.
 * Leading zeros are accepted only if @zeros.
 */
int slice_decimal(struct slice text, uint64_t max, bool zeros, uint64_t *ret_value);
/** Hex digits only, at most 16 of them. @return 0, -EINVAL, -ERANGE. */
int slice_hex(struct slice text, uint64_t max, uint64_t *ret_value);

/** Copy into @to (always NUL-terminated). @return 0, or -ENAMETOOLONG when it does not fit. */
int slice_copy(struct slice text, char *to, size_t capacity);
/** Copy to new memory, NUL-terminated; the caller frees. NULL when out of memory. */
char *slice_dup(struct slice text);
/**
 * A printable form: control bytes, backslash and bytes above 0x7e as \xNN, cut at capacity with "...".
 * @return to
 */
char *slice_escape(struct slice text, char *to, size_t capacity);

/** A cursor with a sticky error: once bytes were missing it stays failed. Start with {.rest = bytes}. */
struct slice_cursor {
	struct slice rest;
	bool failed;
};

/** The next @len bytes; fewer, and failed, where they are not all there. */
struct slice slice_take(struct slice_cursor *c, size_t len);
/** Big-endian, of at most 4 bytes. */
uint32_t slice_number(struct slice bytes);
/** The next @len bytes, at most 4, as slice_number(); 0 when failed. */
uint32_t slice_take_number(struct slice_cursor *c, size_t len);

static inline char ascii_lower(char c)
{
	return (c >= 'A' && c <= 'Z') ? (char)(c + ('a' - 'A')) : c;
}

#endif
