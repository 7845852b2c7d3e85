/* See target.h. Input: a peer's bytes. */
#include "policy/target.h"

#include <errno.h>

/** A path under construction in the caller's storage; it never gets longer than its input. */
struct path_writer {
	char *to;
	size_t len;
};

static void write_byte(struct path_writer *w, char c)
{
	w->to[w->len++] = c;
}

static bool is_unreserved(char c)
{
	char l = ascii_lower(c);
	return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
		c == '_' || c == '~';
}

/** No control, blank, non-ASCII byte and no fragment: RFC 9112 3.2 has none of them in a target. */
static bool bytes_valid(struct slice text)
{
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.ptr[i];
		if (c <= 0x20 || c >= 0x7f || c == '#')
			return false;
	}
	return true;
}

/** One escape: unreserved characters decoded, the rest with upper-case hex (RFC 3986 6.2.2). */
static int write_escape(struct path_writer *w, struct slice digits)
{
	static const char upper[] = "0123456789ABCDEF";
	uint64_t value;
	if (digits.len != 2 || slice_hex(digits, 0xff, &value) < 0)
		return -EINVAL;
	if (value < 0x20 || value == 0x7f || value == '\\')
		return -EILSEQ;
	if (value < 0x80 && is_unreserved((char)value)) {
		write_byte(w, (char)value);
		return 0;
	}
	write_byte(w, '%');
	write_byte(w, upper[value >> 4]);
	write_byte(w, upper[value & 15]);
	return 0;
}

/** A piece of a segment that some server reads as "." or "..": bare, or with a parameter (";x"). */
static bool is_dots(struct slice piece)
{
	size_t dots = 0;
	while (dots < piece.len && piece.ptr[dots] == '.')
		dots++;
	return (dots == 1 || dots == 2) && (dots == piece.len || piece.ptr[dots] == ';');
}

/** "%25" (again and again) in front of 2E, 2F, 5C: what a server that decodes twice takes for a dot or separator. */
static bool doubly_encoded(struct slice at)
{
	if (!slice_starts(at, SLICE("%25")))
		return false;
	at = slice_part(at, 3, at.len);
	while (slice_starts(at, SLICE("25")))
		at = slice_part(at, 2, at.len);
	struct slice last = slice_part(at, 0, 2);
	return slice_equal_nocase(last, SLICE("2e")) || slice_equal_nocase(last, SLICE("2f")) ||
		slice_equal_nocase(last, SLICE("5c"));
}

/** Two escapes that start an overlong UTF-8 form, which a lax decoder takes for an ASCII character. */
static bool overlong(struct slice at)
{
	uint64_t first;
	uint64_t second;
	if (at.len < 6 || at.ptr[0] != '%' || at.ptr[3] != '%' ||
		slice_hex(slice_part(at, 1, 3), 0xff, &first) < 0 ||
		slice_hex(slice_part(at, 4, 6), 0xff, &second) < 0)
		return false;
	bool two = first == 0xc0 || first == 0xc1;
	return (two && second >= 0x80 && second <= 0xbf) ||
		(first == 0xe0 && second >= 0x80 && second <= 0x9f) ||
		(first == 0xf0 && second >= 0x80 && second <= 0x8f);
}

/** Judge a segment whose escapes are in their one form. @raw is what it was. */
static int segment_check(struct slice segment, struct slice raw)
{
	size_t piece_from = 0;
	bool split = false;
	for (size_t i = 0; i < segment.len; i++) {
		struct slice at = slice_part(segment, i, segment.len);
		if (doubly_encoded(at) || overlong(at))
			return -EILSEQ;
		if (!slice_starts(at, SLICE("%2F")))
			continue;
		if (is_dots(slice_part(segment, piece_from, i)))
			return -EILSEQ;
		piece_from = i + 3;
		split = true;
	}
	struct slice last = slice_part(segment, piece_from, segment.len);
	if (!is_dots(last))
		return 0;
	/* Only the plain spelling, alone in its segment, is one that every server understands alike. */
	bool plain = !split && slice_find(last, ';') < 0 && slice_equal(segment, raw);
	return plain ? 0 : -EILSEQ;
}

/** Append "/" and one segment in its one form. */
static int write_segment(struct path_writer *w, struct slice raw)
{
	write_byte(w, '/');
	size_t from = w->len;
	for (size_t i = 0; i < raw.len; i++) {
		if (raw.ptr[i] == '\\')
			return -EILSEQ;
		if (raw.ptr[i] != '%') {
			write_byte(w, raw.ptr[i]);
			continue;
		}
		int r = write_escape(w, slice_part(raw, i + 1, i + 3));
		if (r < 0)
			return r;
		i += 2;
	}
	return segment_check((struct slice){w->to + from, w->len - from}, raw);
}

/** Take back what was written up to and with the last '/'. */
static void drop_segment(struct path_writer *w)
{
	while (w->len > 0 && w->to[--w->len] != '/')
		;
}

/** RFC 3986 5.2.4 for the segment just written; a trailing dot segment leaves its slash. */
static void remove_dots(struct path_writer *w, struct slice raw, bool last)
{
	bool up = slice_equal(raw, SLICE(".."));
	if (!up && !slice_equal(raw, SLICE(".")))
		return;
	drop_segment(w);
	if (up)
		drop_segment(w);
	if (last)
		write_byte(w, '/');
}

static int write_path(struct path_writer *w, struct slice path)
{
	struct slice rest = slice_part(path, 1, path.len);
	for (bool last = false; !last;) {
		struct slice raw = rest;
		last = !slice_split(rest, '/', &raw, &rest);
		int r = write_segment(w, raw);
		if (r < 0)
			return r;
		remove_dots(w, raw, last);
	}
	return 0;
}

static bool holds_encoded_slash(struct slice path)
{
	for (size_t i = 0; i + 3 <= path.len; i++) {
		if (slice_equal(slice_part(path, i, i + 3), SLICE("%2F")))
			return true;
	}
	return false;
}

int target_normalise(struct slice text, struct target *ret)
{
	if (text.len > TARGET_PATH_BYTES)
		return -ENAMETOOLONG;
	if (!slice_starts(text, SLICE("/")) || !bytes_valid(text))
		return -EINVAL;
	struct slice path = text;
	struct slice query = {NULL, 0};
	bool has_query = slice_split(text, '?', &path, &query);
	struct path_writer w = {.to = ret->storage};
	int r = write_path(&w, path);
	if (r < 0)
		return r;
	if (query.len > 0) /* kept byte for byte: no rule reads it */
		memcpy(ret->storage + w.len, query.ptr, query.len);
	ret->path = (struct slice){ret->storage, w.len};
	ret->query = (struct slice){ret->storage + w.len, query.len};
	ret->has_query = has_query;
	ret->encoded_slash = holds_encoded_slash(ret->path);
	return 0;
}
