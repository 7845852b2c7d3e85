/* See mend.h. A scanner for the JSON that event.c writes: objects and arrays, a few levels deep. */
#include "audit/mend.h"

#include "common/cleanup.h"
#include "common/id.h"

#include <stdio.h>

#define MEND_DEPTH 16
#define MEND_KEYS  3 /* levels whose keys matter */
#define KEY_BYTES  16

enum mend_place {
	PLACE_FIRST,   /* just after { or [ */
	PLACE_NEXT,    /* just after a comma */
	PLACE_KEY,     /* in a key */
	PLACE_COLON,   /* after a key */
	PLACE_VALUE,   /* after a colon */
	PLACE_STRING,  /* in a string value */
	PLACE_LITERAL, /* in a number or word */
	PLACE_AFTER,   /* after a value */
};

struct mend {
	struct slice torn;
	struct buf *to;
	uint64_t sequence;
	enum mend_place place;
	char stack[MEND_DEPTH];
	size_t depth;
	size_t token;                   /* where the current string or literal began */
	char key[MEND_KEYS][KEY_BYTES]; /* the last key at depth 1, 2, 3 */
	bool has_metadata, has_sequence, has_unmapped, has_eclusa;
	bool has_recovered, has_torn;
};

static bool key_is(const struct mend *m, size_t depth, const char *name)
{
	return depth >= 1 && depth <= MEND_KEYS && strcmp(m->key[depth - 1], name) == 0;
}

/** Whether the innermost container is the object at this path. */
static bool in_metadata(const struct mend *m)
{
	return m->depth == 2 && key_is(m, 1, "metadata");
}

static bool in_eclusa(const struct mend *m)
{
	return m->depth == 3 && key_is(m, 1, "unmapped") && key_is(m, 2, "eclusa");
}

static int mend_push(struct mend *m, char open)
{
	if (m->depth == MEND_DEPTH)
		return -EINVAL;
	m->stack[m->depth++] = open;
	m->has_metadata |= in_metadata(m);
	m->has_unmapped |= m->depth == 2 && key_is(m, 1, "unmapped");
	m->has_eclusa |= in_eclusa(m);
	m->place = PLACE_FIRST;
	return 0;
}

static void mend_key_end(struct mend *m, size_t end)
{
	if (m->depth >= 1 && m->depth <= MEND_KEYS &&
		slice_copy(slice_part(m->torn, m->token + 1, end), m->key[m->depth - 1],
			KEY_BYTES) < 0)
		m->key[m->depth - 1][0] = '\0'; /* longer than any that matters */
	m->has_sequence |= in_metadata(m) && key_is(m, 2, "sequence");
	m->has_recovered |= in_eclusa(m) && key_is(m, 3, "recovered");
	m->has_torn |= in_eclusa(m) && key_is(m, 3, "torn");
	m->place = PLACE_COLON;
}

/** A string or key from its opening quote; *at ends behind it or at the end of the text. */
static void mend_string(struct mend *m, size_t *at)
{
	bool is_key = m->place == PLACE_KEY;
	m->token = *at;
	for (size_t i = *at + 1; i < m->torn.len; i++) {
		if (m->torn.ptr[i] == '\\') {
			i++;
		} else if (m->torn.ptr[i] == '"') {
			*at = i + 1;
			m->place = PLACE_AFTER;
			if (is_key)
				mend_key_end(m, i);
			return;
		}
	}
	*at = m->torn.len;
}

static bool is_literal(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '-';
}

static int mend_value(struct mend *m, size_t *at)
{
	char c = m->torn.ptr[*at];
	if (c == '{' || c == '[') {
		(*at)++;
		return mend_push(m, c);
	}
	if (c == '"') {
		m->place = PLACE_STRING;
		mend_string(m, at);
		return 0;
	}
	if (!is_literal(c))
		return -EINVAL;
	m->place = PLACE_LITERAL;
	m->token = *at;
	while (*at < m->torn.len && is_literal(m->torn.ptr[*at]))
		(*at)++;
	if (*at < m->torn.len)
		m->place = PLACE_AFTER;
	return 0;
}

/** One step of the scan; @return 0 or -EINVAL. */
static int mend_step(struct mend *m, size_t *at)
{
	char c = m->torn.ptr[*at];
	char open = m->depth > 0 ? m->stack[m->depth - 1] : '\0';
	bool closes = (c == '}' && open == '{') || (c == ']' && open == '[');
	if (closes && (m->place == PLACE_FIRST || m->place == PLACE_AFTER)) {
		m->depth--;
		m->place = PLACE_AFTER;
		(*at)++;
		return 0;
	}
	switch (m->place) {
	case PLACE_FIRST:
	case PLACE_NEXT:
		if (open == '[')
			return mend_value(m, at);
		if (c != '"')
			return -EINVAL;
		m->place = PLACE_KEY;
		mend_string(m, at);
		return 0;
	case PLACE_COLON:
	case PLACE_AFTER:
		if (c != (m->place == PLACE_COLON ? ':' : ',') || m->depth == 0)
			return -EINVAL;
		m->place = m->place == PLACE_COLON ? PLACE_VALUE : PLACE_NEXT;
		(*at)++;
		return 0;
	case PLACE_VALUE:
		return mend_value(m, at);
	case PLACE_KEY:
	case PLACE_STRING:
	case PLACE_LITERAL:
		return -EINVAL; /* only at the end of the text */
	}
	return -EINVAL;
}

/** Complete a character whose first bytes are there. */
static void mend_character(struct mend *m)
{
	size_t len = m->torn.len, back = 0;
	while (back < 3 && back < len &&
		((unsigned char)m->torn.ptr[len - 1 - back] & 0xc0) == 0x80)
		back++;
	if (back >= len)
		return;
	unsigned char lead = (unsigned char)m->torn.ptr[len - 1 - back];
	size_t want = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc2 ? 1 : 0;
	for (size_t i = back; i < want; i++) {
		bool second = i == 0;
		char next = second && lead == 0xe0 ? '\xa0'
			: second && lead == 0xf0   ? '\x90'
						   : '\x80';
		(void)buf_append(
			m->to, (struct slice){&next, 1}); /* errors are sticky in the buf */
	}
}

/** Complete an escape whose first characters are there. */
static void mend_escape(struct mend *m)
{
	size_t start = m->torn.len;
	for (size_t i = m->token + 1; i < m->torn.len; i++) {
		if (m->torn.ptr[i] != '\\')
			continue;
		size_t len = i + 1 < m->torn.len && m->torn.ptr[i + 1] == 'u' ? 6 : 2;
		start = i + len > m->torn.len ? i : m->torn.len;
		i += len - 1;
	}
	size_t have = m->torn.len - start;
	if (have == 1)
		(void)buf_append(m->to, SLICE("\\")); /* errors are sticky in the buf */
	if (have >= 2)
		(void)buf_append_text(m->to, &"fffd"[have - 2]); /* never a NUL or a surrogate */
}

static void mend_literal(struct mend *m)
{
	static const char *const words[] = {"true", "false", "null"};
	struct slice have = slice_part(m->torn, m->token, m->torn.len);
	char number[24];
	(void)snprintf(number, sizeof(number), "%llu", (unsigned long long)m->sequence);
	if (in_metadata(m) && key_is(m, 2, "sequence") && slice_starts(slice_of(number), have))
		(void)buf_append_text(m->to, number + have.len); /* errors are sticky in the buf */
	if (slice_equal(have, SLICE("-")))
		(void)buf_append(m->to, SLICE("0"));
	for (size_t i = 0; i < array_size(words); i++) {
		if (slice_starts(slice_of(words[i]), have))
			(void)buf_append_text(m->to, words[i] + have.len);
	}
}

/** The value of a member whose key is there: an object where the marks go, the sequence, else null. */
static void mend_missing_value(struct mend *m)
{
	bool object = (m->depth == 1 && (key_is(m, 1, "metadata") || key_is(m, 1, "unmapped"))) ||
		(m->depth == 2 && key_is(m, 1, "unmapped") && key_is(m, 2, "eclusa"));
	if (object) {
		(void)buf_append(m->to, SLICE("{")); /* errors are sticky in the buf */
		(void)mend_push(m, '{');             /* three deep at most */
		return;
	}
	bool mark = in_eclusa(m) && (key_is(m, 3, "torn") || key_is(m, 3, "recovered"));
	if (in_metadata(m) && key_is(m, 2, "sequence"))
		(void)buf_printf(m->to, "%llu", (unsigned long long)m->sequence);
	else
		(void)buf_append_text(m->to, mark ? "true" : "null");
	m->place = PLACE_AFTER;
}

/** From inside a token to behind a whole member or value. */
static void mend_token(struct mend *m)
{
	if (m->place == PLACE_KEY || m->place == PLACE_STRING) {
		mend_character(m);
		mend_escape(m);
		/* The front of a key may be another member's whole key. */
		(void)buf_append_text(m->to, m->place == PLACE_KEY ? "_torn\":null" : "\"");
		m->place = PLACE_AFTER; /* errors are sticky in the buf */
	}
	if (m->place == PLACE_LITERAL) {
		mend_literal(m);
		m->place = PLACE_AFTER;
	}
	if (m->place == PLACE_COLON) {
		(void)buf_append(m->to, SLICE(":"));
		m->place = PLACE_VALUE;
	}
	if (m->place == PLACE_VALUE)
		mend_missing_value(m);
	if (m->place == PLACE_NEXT && m->stack[m->depth - 1] == '[') {
		(void)buf_append(m->to, SLICE("null"));
		m->place = PLACE_AFTER;
	}
}

/** A comma where one belongs before another member. */
static void mend_member(struct mend *m, const char *text)
{
	if (m->place == PLACE_AFTER)
		(void)buf_append(m->to, SLICE(",")); /* errors are sticky in the buf */
	(void)buf_append_text(m->to, text);
	m->place = PLACE_AFTER;
}

/** What the innermost object still needs before it ends. */
static void mend_object(struct mend *m)
{
	static const char marks[] = "\"recovered\":true,\"torn\":true";
	char text[512], uid[UUID_TEXT_BYTES];
	unsigned long long sequence = m->sequence;
	if (in_metadata(m) && !m->has_sequence) {
		(void)snprintf(text, sizeof(text), "\"sequence\":%llu", sequence);
		mend_member(m, text);
	}
	if (in_eclusa(m) && !m->has_torn)
		mend_member(m, m->has_recovered ? "\"torn\":true" : marks);
	if (m->depth == 2 && key_is(m, 1, "unmapped") && !m->has_eclusa) {
		(void)snprintf(text, sizeof(text), "\"eclusa\":{%s}", marks);
		mend_member(m, text);
	}
	if (m->depth == 1 && !m->has_metadata) {
		(void)snprintf(text, sizeof(text),
			"\"metadata\":{\"version\":\"1.8.0\",\"uid\":\"%s\",\"log_name\":"
			"\"eclusa.audit\",\"product\":{\"name\":\"Eclusa\",\"vendor_name\":\"Eclusa\"},"
			"\"event_code\":\"audit.recovered\",\"sequence\":%llu}",
			uuid_new(uid), sequence);
		mend_member(m, text);
	}
	if (m->depth == 1 && !m->has_unmapped) {
		(void)snprintf(text, sizeof(text), "\"unmapped\":{\"eclusa\":{%s}}", marks);
		mend_member(m, text);
	}
	if (m->place == PLACE_NEXT) { /* a comma is there and nothing was needed */
		(void)buf_append(m->to, SLICE("\"torn_member\":null"));
		m->place = PLACE_AFTER;
	}
}

int mend_line(struct slice torn, uint64_t sequence, struct buf *to)
{
	struct mend m = {.torn = torn, .to = to, .sequence = sequence, .place = PLACE_VALUE};
	if (torn.len == 0 || torn.ptr[0] != '{')
		return -EINVAL;
	int r = 0;
	for (size_t at = 0; at < torn.len && r == 0;)
		r = mend_step(&m, &at);
	if (r < 0)
		return r;
	if (m.depth > 0)
		mend_token(&m);
	while (m.depth > 0) {
		if (m.stack[m.depth - 1] == '{')
			mend_object(&m);
		(void)buf_append_text(to, m.stack[m.depth - 1] == '{' ? "}" : "]");
		m.depth--;
		m.place = PLACE_AFTER;
	}
	return to->failed ? -ENOMEM : 0;
}
