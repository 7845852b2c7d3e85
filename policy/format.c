/* See format.h. Input: text of the policy's owner, judged as if it were hostile. */
#include "policy/format.h"

#include "policy/format_word.h"

#include <errno.h>

#define INDENT "        "

struct formatter {
	struct lexer lexer;
	struct slice rest; /* lines not written yet */
	unsigned line;     /* the first of them */
	bool blank;        /* an empty line is due before the next one */
	bool begun;        /* something was written */
	struct buf *to;
	struct buf word;
	struct statement_line statement;
};

static struct slice next_line(struct formatter *f)
{
	struct slice line = f->rest;
	struct slice rest = {NULL, 0};
	(void)slice_split(f->rest, '\n', &line, &rest); /* the last one may have no newline */
	f->rest = rest;
	f->line++;
	return line;
}

static void start_line(struct formatter *f)
{
	if (f->blank && f->begun)
		(void)buf_append_text(f->to, "\n");
	f->blank = false;
	f->begun = true;
}

static void write_comment_line(struct formatter *f, struct slice comment)
{
	start_line(f);
	(void)buf_append(f->to, comment);
	(void)buf_append_text(f->to, "\n");
}

/** Comments and empty lines before line @end; a section wants one of the latter. */
static void write_gap(struct formatter *f, unsigned end, bool is_section)
{
	bool blank = false;
	struct slice rest = f->rest;
	for (unsigned line = f->line; is_section && line < end; line++) {
		struct slice text = rest;
		(void)slice_split(rest, '\n', &text, &rest); /* there is a statement after it */
		blank = blank || slice_trim(text).len == 0;
	}
	if (is_section && !blank)
		f->blank = true;
	while (f->line < end && (f->rest.len > 0 || end != UINT32_MAX)) {
		struct slice text = slice_trim(next_line(f));
		if (slice_starts(text, SLICE("#")))
			write_comment_line(f, text);
		else
			f->blank = true; /* or a lone backslash, which says nothing */
	}
}

/** The comment at the end of a statement's line. */
static struct slice find_comment(struct slice line)
{
	bool quoted = false;
	for (size_t i = 0; i < line.len; i++) {
		if (line.ptr[i] == '"')
			quoted = !quoted;
		bool starts = i == 0 || line.ptr[i - 1] == ' ' || line.ptr[i - 1] == '\t';
		if (!quoted && line.ptr[i] == '#' && starts)
			return slice_trim(slice_part(line, i, line.len));
	}
	return (struct slice){NULL, 0};
}

/** Words with one blank between them; a line that gets too long goes on in the next one. */
static void write_words(struct formatter *f, struct slice comment)
{
	size_t column = 0;
	for (size_t i = 0; i < f->statement.count; i++) {
		buf_clear(&f->word);
		format_word(&f->statement, i, &f->word);
		struct slice word = buf_slice(&f->word);
		size_t room = i + 1 == f->statement.count ? 0 : 2; /* of " \" */
		if (i > 0 && column + 1 + word.len + room > FORMAT_COLUMNS) {
			(void)buf_append_text(f->to, " \\\n" INDENT);
			column = sizeof(INDENT) - 1;
		} else if (i > 0) {
			(void)buf_append_text(f->to, " ");
			column++;
		}
		(void)buf_append(f->to, word);
		column += word.len;
	}
	if (comment.len > 0)
		(void)buf_printf(f->to, "  %.*s", (int)comment.len, comment.ptr);
	(void)buf_append_text(f->to, "\n");
}

static void write_statement(struct formatter *f)
{
	struct slice comment = {NULL, 0};
	write_gap(f, f->statement.tokens[0].line,
		slice_starts(f->statement.tokens[0].text, SLICE("[")));
	while (f->line < f->lexer.line)
		comment = find_comment(next_line(f));
	/* Room for a whole line of words: a comment that long moves up. */
	if (comment.len > LEXER_LINE_BYTES_MAX - FORMAT_COLUMNS - 2) {
		write_comment_line(f, comment);
		comment.len = 0;
	}
	start_line(f);
	format_sort(&f->statement);
	write_words(f, comment);
}

int policy_format(const char *file, struct slice text, struct buf *to, struct policy_report *report)
{
	struct formatter f = {.rest = text, .line = 1, .to = to};
	*report = (struct policy_report){.count = 0};
	lexer_init(&f.lexer, file, text, report);
	while (lexer_next(&f.lexer, &f.statement) && report->errors == 0)
		write_statement(&f);
	write_gap(&f, UINT32_MAX, false);
	bool failed = f.word.failed || to->failed;
	buf_fini(&f.word);
	if (report->errors > 0)
		return -EINVAL;
	return failed ? -ENOBUFS : 0;
}
