/* See lexer.h. */
#include "policy/lexer.h"

#include "common/json.h"

void lexer_init(
	struct lexer *l, const char *file, struct slice content, struct policy_report *report)
{
	*l = (struct lexer){.file = file, .rest = content, .line = 1, .report = report};
}

static struct place lexer_place(const struct lexer *l, size_t offset)
{
	return (struct place){l->file, l->line, (unsigned)offset + 1};
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/** U+202A-202E and U+2066-2069 make text look like another one; U+FEFF is not seen at all. */
static bool hidden_at(struct slice text)
{
	if (text.len < 3)
		return false;
	unsigned char a = (unsigned char)text.ptr[0];
	unsigned char b = (unsigned char)text.ptr[1];
	unsigned char c = (unsigned char)text.ptr[2];
	return (a == 0xe2 && b == 0x80 && c >= 0xaa && c <= 0xae) ||
		(a == 0xe2 && b == 0x81 && c >= 0xa6 && c <= 0xa9) ||
		(a == 0xef && b == 0xbb && c == 0xbf);
}

/** Report the first byte that has no business in policy text. */
static bool bytes_allowed(struct lexer *l, struct slice line)
{
	for (size_t i = 0; i < line.len; i++) {
		unsigned char c = (unsigned char)line.ptr[i];
		const char *what = NULL;
		if (c == '\r')
			what = "a carriage return; lines end with LF alone (dos2unix converts a file)";
		else if (c == '\0')
			what = "a NUL byte";
		else if ((c < 0x20 && c != '\t') || c == 0x7f)
			what = "a control byte";
		else if (l->line == 1 && i == 0 && slice_starts(line, SLICE("\xef\xbb\xbf")))
			what = "a byte order mark; save the file as UTF-8 without one";
		else if (hidden_at(slice_part(line, i, line.len)))
			what = "an invisible formatting character";
		if (what == NULL)
			continue;
		if (c != '\r' || !l->cr_told)
			report_error(l->report, lexer_place(l, i), "byte", "%s", what);
		l->cr_told = l->cr_told || c == '\r';
		return false;
	}
	if (!utf8_valid(line)) {
		report_error(l->report, lexer_place(l, 0), "byte", "the line is not UTF-8");
		return false;
	}
	return true;
}

/** Length of the token at @text[from]; 0 after reporting what is wrong with it. */
static size_t token_len(const struct lexer *l, struct slice text, size_t from)
{
	size_t at = from;
	while (at < text.len && !is_blank(text.ptr[at])) {
		if (text.ptr[at] == '\\') {
			report_error(l->report, lexer_place(l, at), "syntax",
				"a backslash may only end a line, to continue it");
			return 0;
		}
		if (text.ptr[at++] != '"')
			continue;
		if (at - 1 == from || text.ptr[at - 2] != '=') {
			report_error(l->report, lexer_place(l, at - 1), "syntax",
				"a quote may only follow the = of an attribute");
			return 0;
		}
		ptrdiff_t len = slice_find(slice_part(text, at, text.len), '"');
		if (len < 0) {
			report_error(l->report, lexer_place(l, at - 1), "syntax",
				"the quote is not closed on this line");
			return 0;
		}
		if (slice_find(slice_part(text, at, at + (size_t)len), '\t') >= 0) {
			report_error(
				l->report, lexer_place(l, at - 1), "byte", "a tab inside quotes");
			return 0;
		}
		at += (size_t)len + 1;
		if (at < text.len && !is_blank(text.ptr[at])) {
			report_error(l->report, lexer_place(l, at), "syntax",
				"a blank must follow the closing quote");
			return 0;
		}
	}
	return at - from;
}

/** Append the tokens of one line of text. False: something was reported. */
static bool line_split(const struct lexer *l, struct slice text, struct statement_line *to)
{
	size_t at = 0;
	for (;;) {
		while (at < text.len && is_blank(text.ptr[at]))
			at++;
		if (at == text.len || text.ptr[at] == '#')
			return true;
		size_t len = token_len(l, text, at);
		if (len == 0)
			return false;
		if (to->count == LEXER_TOKENS_MAX) {
			report_error(l->report, lexer_place(l, at), "too-long",
				"more than %d words in one statement", LEXER_TOKENS_MAX);
			return false;
		}
		to->tokens[to->count++] =
			(struct token){slice_part(text, at, at + len), l->line, (unsigned)at + 1};
		at += len;
	}
}

/** Whether a '#' that starts a comment stands before the end of @text. */
static bool has_comment(struct slice text)
{
	bool quoted = false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.ptr[i] == '"')
			quoted = !quoted;
		if (!quoted && text.ptr[i] == '#' && (i == 0 || is_blank(text.ptr[i - 1])))
			return true;
	}
	return false;
}

/** Read one line of the text into @to. *ret_more: the statement goes on. False: reported. */
static bool line_read(struct lexer *l, struct statement_line *to, bool *ret_more)
{
	struct slice line = l->rest;
	struct slice rest = {NULL, 0};
	bool ended = slice_split(l->rest, '\n', &line, &rest);
	l->rest = rest;
	*ret_more = false;
	if (line.len > LEXER_LINE_BYTES_MAX) {
		report_error(l->report, lexer_place(l, LEXER_LINE_BYTES_MAX), "too-long",
			"the line is longer than %d bytes", LEXER_LINE_BYTES_MAX);
		return false;
	}
	bool more = !l->line_only && slice_ends(line, SLICE("\\")) && !has_comment(line);
	*ret_more = more;
	if (!bytes_allowed(l, line))
		return false;
	if (more && (!ended || rest.len == 0)) {
		*ret_more = false;
		report_error(l->report, lexer_place(l, line.len - 1), "syntax",
			"nothing follows the backslash that continues this line");
		return false;
	}
	return line_split(l, more ? slice_part(line, 0, line.len - 1) : line, to);
}

bool lexer_next(struct lexer *l, struct statement_line *ret)
{
	while (l->rest.len > 0) {
		bool fine = true;
		bool more = true;
		ret->count = 0;
		while (more) {
			fine = line_read(l, ret, &more) && fine;
			l->line++;
		}
		if (fine && ret->count > 0)
			return true;
	}
	return false;
}
