/*
 * Heads of both directions: where they end, their field lines, and the fields that say how the
 * message is framed and the connection used. See http1_head.h. Input: a peer's bytes.
 */
#include "proxy/http1_head.h"

#define SMUGGLING(why, detail) http1_fault_set(why, 400, REASON_DENY_SMUGGLING, detail)
#define LIMIT(why, detail)     http1_fault_set(why, 431, REASON_DENY_LIMIT, detail)

#define BYTE_TOKEN 1 /* tchar of RFC 9110 5.6.2 */
#define BYTE_VALUE 2 /* field-content, blank and tab of RFC 9110 5.5 */

#define T (BYTE_TOKEN | BYTE_VALUE)
#define V BYTE_VALUE

static const uint8_t byte_classes[256] = {
	['\t'] = V,
	[' '] = V,
	['!'] = T,
	['"'] = V,
	['#' ... '\''] = T,
	['(' ... ')'] = V,
	['*' ... '+'] = T,
	[','] = V,
	['-' ... '.'] = T,
	['/'] = V,
	['0' ... '9'] = T,
	[':' ... '@'] = V,
	['A' ... 'Z'] = T,
	['[' ... ']'] = V,
	['^' ... 'z'] = T,
	['{'] = V,
	['|'] = T,
	['}'] = V,
	['~'] = T,
	[0x80 ... 0xff] = V,
};

#undef T
#undef V

/** How many bytes at the start are of this class. */
static size_t span(struct slice text, uint8_t class)
{
	size_t i = 0;
	while (i < text.len && (byte_classes[(uint8_t)text.ptr[i]] & class) != 0)
		i++;
	return i;
}

int http1_fault_set(struct http_fault *why, unsigned status, enum reason reason, const char *detail)
{
	*why = (struct http_fault){status, reason, detail};
	return -1;
}

bool http1_is_token(struct slice text)
{
	return text.len > 0 && span(text, BYTE_TOKEN) == text.len;
}

/** A line ended at in[lf]: 1 when it ends the head, 0 when more lines follow, -1. */
static int line_take(struct http1_scan *scan, struct slice in, size_t lf, struct http_fault *why)
{
	const struct limits *limits = limits_or_largest(scan->limits);
	if (lf == 0 || in.ptr[lf - 1] != '\r')
		return SMUGGLING(why, "a line ends with a bare LF");
	size_t len = lf - 1 - scan->line_at;
	if (scan->lines == 0 && len == 0)
		return SMUGGLING(why, "an empty line comes before the message");
	if (scan->lines == 0 && len > limits->line_bytes)
		return http1_fault_set(why, 414, REASON_DENY_LIMIT, "the first line is too long");
	if (lf + 1 > limits->head_bytes)
		return LIMIT(why, "the header section is too large");
	if (len == 0)
		return 1;
	if (scan->lines > limits->head_fields)
		return LIMIT(why, "there are too many header fields");
	scan->lines++;
	scan->line_at = lf + 1;
	return 0;
}

/** No end was found yet: is there still hope? */
static enum http1_result head_unfinished(
	const struct http1_scan *scan, struct slice in, struct http_fault *why)
{
	const struct limits *limits = limits_or_largest(scan->limits);
	if (scan->lines == 0 && in.len > (size_t)limits->line_bytes + 1) {
		(void)http1_fault_set(why, 414, REASON_DENY_LIMIT, "the first line is too long");
		return HTTP1_ERROR;
	}
	if (in.len >= limits->head_bytes) {
		(void)LIMIT(why, "the header section is too large");
		return HTTP1_ERROR;
	}
	return HTTP1_MORE;
}

static struct http1_text head_cut(struct slice in, size_t len)
{
	const char *lf = memchr(in.ptr, '\n', len);
	size_t line_len = (size_t)(lf - in.ptr) - 1;
	return (struct http1_text){
		.line = slice_part(in, 0, line_len),
		.fields = slice_part(in, line_len + 2, len - 2),
		.len = len,
	};
}

enum http1_result http1_head_find(
	struct http1_scan *scan, struct slice in, struct http1_text *ret, struct http_fault *why)
{
	if (in.len == 0)
		return HTTP1_MORE;
	if ((byte_classes[(uint8_t)in.ptr[0]] & BYTE_TOKEN) == 0 && in.ptr[0] != '\r') {
		(void)SMUGGLING(why, "this is not an HTTP/1.1 message");
		return HTTP1_ERROR;
	}
	while (scan->scanned < in.len) {
		const char *from = in.ptr + scan->scanned;
		const char *lf = memchr(from, '\n', in.len - scan->scanned);
		if (lf == NULL) {
			scan->scanned = in.len;
			break;
		}
		size_t at = (size_t)(lf - in.ptr);
		int r = line_take(scan, in, at, why);
		if (r < 0)
			return HTTP1_ERROR;
		if (r > 0) {
			*ret = head_cut(in, at + 1);
			return HTTP1_DONE;
		}
		scan->scanned = at + 1;
	}
	return head_unfinished(scan, in, why);
}

struct known_field {
	struct slice name;
	enum http1_field_kind kind;
};

static bool is_alphanumeric(char c)
{
	char l = ascii_lower(c);
	return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9');
}

/**
 * Whether two names make one variable of an application that gets fields as CGI hands them on (RFC 3875 4.1.18): there
 * every mark is an underscore, so that "X_Method.Override" is X-Method-Override.
 */
static bool same_variable(struct slice a, struct slice b)
{
	bool same = a.len == b.len;
	for (size_t i = 0; same && i < a.len; i++)
		same = ascii_lower(a.ptr[i]) == ascii_lower(b.ptr[i]) ||
			!(is_alphanumeric(a.ptr[i]) || is_alphanumeric(b.ptr[i]));
	return same;
}

/** One that is spelled like a known field, but is another: refused or left out, as that one. */
static enum http1_field_kind kind_of_variable(struct slice name, const struct known_field *known)
{
	if (!same_variable(name, known->name))
		return HTTP1_FIELD_OTHER;
	return known->kind == HTTP1_FIELD_OVERRIDE ? HTTP1_FIELD_OVERRIDE : HTTP1_FIELD_HOP;
}

static enum http1_field_kind field_kind(struct slice name)
{
	static const struct known_field known[] = {
		{{"host", 4}, HTTP1_FIELD_HOST},
		{{"content-length", 14}, HTTP1_FIELD_CONTENT_LENGTH},
		{{"transfer-encoding", 17}, HTTP1_FIELD_TRANSFER_ENCODING},
		{{"connection", 10}, HTTP1_FIELD_CONNECTION},
		{{"upgrade", 7}, HTTP1_FIELD_UPGRADE},
		{{"expect", 6}, HTTP1_FIELD_EXPECT},
		{{"keep-alive", 10}, HTTP1_FIELD_HOP},
		{{"te", 2}, HTTP1_FIELD_HOP},
		{{"trailer", 7}, HTTP1_FIELD_HOP},
		{{"http2-settings", 14}, HTTP1_FIELD_HOP},
		/* frameworks take these for the request's own method, path, host or framing */
		{{"x-http-method-override", 22}, HTTP1_FIELD_OVERRIDE},
		{{"x-http-method", 13}, HTTP1_FIELD_OVERRIDE},
		{{"x-method-override", 17}, HTTP1_FIELD_OVERRIDE},
		{{"x-original-url", 14}, HTTP1_FIELD_OVERRIDE},
		{{"x-original-uri", 14}, HTTP1_FIELD_OVERRIDE},
		{{"x-rewrite-url", 13}, HTTP1_FIELD_OVERRIDE},
		{{"x-forwarded-host", 16}, HTTP1_FIELD_HOP},
		{{"x-host", 6}, HTTP1_FIELD_HOP},
		{{"forwarded", 9}, HTTP1_FIELD_HOP},
		{{"alt-svc", 7}, HTTP1_FIELD_ALT_SVC},
	};
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (slice_equal_nocase(name, known[i].name))
			return known[i].kind;
		enum http1_field_kind kind = kind_of_variable(name, &known[i]);
		if (kind != HTTP1_FIELD_OTHER)
			return kind;
	}
	bool proxy = same_variable(slice_part(name, 0, 6), SLICE("proxy-"));
	return proxy ? HTTP1_FIELD_HOP : HTTP1_FIELD_OTHER;
}

/** One field line at the start of @lines. @return its length with CR LF, or -1. */
static ptrdiff_t field_parse(struct slice lines, struct http1_field *ret, struct http_fault *why)
{
	size_t name_len = span(lines, BYTE_TOKEN);
	if (name_len == 0 && (lines.ptr[0] == ' ' || lines.ptr[0] == '\t'))
		return SMUGGLING(why, "a header line is folded or starts with a blank");
	if (name_len == 0 || name_len >= lines.len || lines.ptr[name_len] != ':')
		return SMUGGLING(why, "a header line has no valid field name before its colon");
	struct slice rest = slice_part(lines, name_len + 1, lines.len);
	size_t value_len = span(rest, BYTE_VALUE);
	/* The line was found to end with CR LF; an earlier stop is a control byte or a bare CR. */
	if (value_len + 1 >= rest.len || rest.ptr[value_len] != '\r' ||
		rest.ptr[value_len + 1] != '\n')
		return SMUGGLING(why, "a header field holds a control byte");
	struct slice name = slice_part(lines, 0, name_len);
	*ret = (struct http1_field){
		.name = name,
		.value = slice_trim(slice_part(rest, 0, value_len)),
		.kind = (uint8_t)field_kind(name),
	};
	return (ptrdiff_t)(name_len + 1 + value_len + 2);
}

int http1_head_fields(struct slice lines, struct http1_head *head, struct http1_marks *ret_marks,
	struct http_fault *why)
{
	*ret_marks = (struct http1_marks){0};
	head->field_count = 0;
	while (lines.len > 0) {
		if (head->field_count == HTTP1_FIELDS_MAX)
			return LIMIT(why, "there are too many header fields");
		struct http1_field *field = &head->fields[head->field_count];
		ptrdiff_t len = field_parse(lines, field, why);
		if (len < 0)
			return -1;
		head->field_count++;
		if (ret_marks->count[field->kind]++ == 0)
			ret_marks->first[field->kind] = field;
		lines = slice_part(lines, (size_t)len, lines.len);
	}
	return 0;
}

/** Fields whose removal would change who is meant, where the message ends, or who asks. */
static bool must_not_be_nominated(struct slice option)
{
	return slice_equal_nocase(option, SLICE("host")) ||
		slice_equal_nocase(option, SLICE("content-length")) ||
		slice_equal_nocase(option, SLICE("transfer-encoding")) ||
		slice_equal_nocase(option, SLICE("authorization"));
}

static void nominate(struct http1_head *head, struct slice name)
{
	for (size_t i = 0; i < head->field_count; i++) {
		struct http1_field *field = &head->fields[i];
		if (field->name.len == name.len && slice_equal_nocase(field->name, name))
			field->nominated = true;
	}
}

static int option_take(struct http1_head *head, struct slice option, struct http_fault *why)
{
	if (!http1_is_token(option))
		return SMUGGLING(why, "a Connection option is not a token");
	if (must_not_be_nominated(option))
		return SMUGGLING(why, "Connection names a field that must stay");
	if (slice_equal_nocase(option, SLICE("close")))
		head->close = true;
	else if (slice_equal_nocase(option, SLICE("upgrade")))
		head->upgrade = true;
	else if (!slice_equal_nocase(option, SLICE("keep-alive")))
		nominate(head, option);
	return 0;
}

/** One Connection field. *left, the options that there may be yet, goes on over all of them. */
static int options_take(
	struct http1_head *head, struct slice list, unsigned *left, struct http_fault *why)
{
	for (bool last = false; !last;) {
		struct slice option = list;
		last = !slice_split(list, ',', &option, &list);
		option = slice_trim(option);
		if ((*left)-- == 0)
			return LIMIT(why, "there are too many Connection options");
		if (option.len > 0 && option_take(head, option, why) < 0)
			return -1;
	}
	return 0;
}

int http1_head_connection(struct http1_head *head, const struct http1_marks *marks,
	const struct limits *limits, struct http_fault *why)
{
	unsigned left = limits->connection_options;
	head->close = head->minor == 0;
	head->upgrade = false;
	head->websocket = false;
	if (marks->count[HTTP1_FIELD_CONNECTION] == 0)
		return 0;
	for (size_t i = 0; i < head->field_count; i++) {
		const struct http1_field *field = &head->fields[i];
		if (field->kind == HTTP1_FIELD_CONNECTION &&
			options_take(head, field->value, &left, why) < 0)
			return -1;
	}
	head->websocket = head->upgrade && head->minor == 1 &&
		marks->count[HTTP1_FIELD_UPGRADE] == 1 &&
		slice_equal_nocase(marks->first[HTTP1_FIELD_UPGRADE]->value, SLICE("websocket"));
	return 0;
}

int http1_head_framing(const struct http1_head *head, const struct http1_marks *marks,
	struct body_framing *ret, struct http_fault *why)
{
	const struct http1_field *length = marks->first[HTTP1_FIELD_CONTENT_LENGTH];
	const struct http1_field *coding = marks->first[HTTP1_FIELD_TRANSFER_ENCODING];
	if (length != NULL && coding != NULL)
		return SMUGGLING(why, "Content-Length and Transfer-Encoding come together");
	if (marks->count[HTTP1_FIELD_CONTENT_LENGTH] > 1)
		return SMUGGLING(why, "there are several Content-Length fields");
	if (marks->count[HTTP1_FIELD_TRANSFER_ENCODING] > 1)
		return SMUGGLING(why, "there are several Transfer-Encoding fields");
	struct body_framing framing = {.kind = BODY_NONE};
	if (coding != NULL) {
		if (head->minor == 0)
			return SMUGGLING(why, "Transfer-Encoding comes with HTTP/1.0");
		if (!slice_equal_nocase(coding->value, SLICE("chunked")))
			return SMUGGLING(why, "Transfer-Encoding is not just chunked");
		framing.kind = BODY_CHUNKED;
	}
	if (length != NULL) {
		if (slice_decimal(length->value, BODY_LENGTH_MAX, false, &framing.length) < 0)
			return SMUGGLING(why, "Content-Length is not a plain decimal number");
		framing.kind = BODY_LENGTH;
	}
	*ret = framing;
	return 0;
}

bool http1_field_passes(const struct http1_field *field)
{
	return !field->nominated && field->kind == HTTP1_FIELD_OTHER;
}

struct slice http1_field_value(const struct http1_head *head, struct slice name)
{
	for (size_t i = 0; i < head->field_count; i++) {
		const struct http1_field *field = &head->fields[i];
		if (http1_field_passes(field) && slice_equal_nocase(field->name, name))
			return field->value;
	}
	return (struct slice){NULL, 0};
}

bool http1_has_field(const struct http1_head *head, struct slice name)
{
	for (size_t i = 0; i < head->field_count; i++) {
		if (same_variable(head->fields[i].name, name))
			return true;
	}
	return false;
}
